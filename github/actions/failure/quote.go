package failure

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"errors"
	"mime"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxMessageLength is the number of bytes of a foreign text that an error quotes, and with it logs and conditions.
const maxMessageLength = 512

// Shorten cuts a foreign text after 512 bytes, between two characters.
func Shorten(text string) string {
	if len(text) <= maxMessageLength {
		return text
	}
	end := maxMessageLength
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// Short returns an error with the text of its cause, shortened because the cause may quote foreign text.
func Short(cause error) error { return &shortError{cause} }

type shortError struct{ cause error }

func (e *shortError) Error() string { return Shorten(e.cause.Error()) }

func (e *shortError) Unwrap() error { return e.cause }

// Bare returns an address as errors show it: shortened, and without query, user name and password, which may be secret.
func Bare(address *url.URL) string {
	return Shorten((&url.URL{Scheme: address.Scheme, Host: address.Host, Path: address.Path}).String())
}

// tokenPattern matches GitHub's tokens, by the prefixes that GitHub documents for them.
var tokenPattern = regexp.MustCompile(`\b(gh[a-z]_|github_pat_)\w{16,}`)

// redact removes the request's credential, and what looks like another one, from a foreign text: the error page of a
// proxy or debugging server may echo it.
func redact(text, authorization string) string {
	text = tokenPattern.ReplaceAllString(text, "[redacted]")
	if _, secret, ok := strings.Cut(authorization, " "); ok && secret != "" {
		text = strings.ReplaceAll(text, secret, "[redacted]")
	}
	return text
}

// quote returns a foreign text as errors show it: without the request's credential, Printable and short. Its credential
// is removed before it is shortened: one that was cut would not be found.
func quote(text, authorization string) string { return Shorten(Printable(redact(text, authorization))) }

// Printable returns a foreign text with spaces instead of what a terminal or a log would not show as it is, such as
// control characters, line ends and directions of writing.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
}

// quoted matches what a text quotes.
var quoted = regexp.MustCompile(`"(\\.|[^"\\])*"`)

// textOf returns the text of a transport's error without what the other side sent: net/http quotes the first line of an
// answer that is not HTTP, which may be any server's.
func textOf(err error) string {
	if _, header := errors.AsType[textproto.ProtocolError](err); header {
		return "the header of the answer is not HTTP"
	}
	_, network := errors.AsType[*net.OpError](err)
	_, name := errors.AsType[*net.DNSError](err)
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	if network || name || certificate || IsRefusedAddress(err) {
		return err.Error()
	}
	return quoted.ReplaceAllString(err.Error(), "(not shown)")
}

// identifierPattern matches GitHub's IDs of calls.
var identifierPattern = regexp.MustCompile(`^[0-9A-Za-z:._-]{1,128}$`)

// Identifier returns the ID of a call in a header, or "" if it can't be one of GitHub's.
func Identifier(value string) string { return identifierPattern.FindString(value) }

// mediaTypePattern matches the types that are worth naming.
var mediaTypePattern = regexp.MustCompile(`^[a-z0-9.+-]{1,32}/[a-z0-9.+-]{1,64}$`)

// MediaType returns the type of a body, for errors.
func MediaType(header http.Header) string {
	named, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	return cmp.Or(mediaTypePattern.FindString(named), "of no known type")
}

// HasMarkup reports whether a body is markup. Its Content-Type says nothing: some frameworks declare every text HTML,
// even an empty one.
func HasMarkup(body []byte) bool { return bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")) }
