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

// Quote returns a foreign text as errors show it: without the request's secrets and what looks like others, Printable
// and short. They are removed before it is shortened: one that was cut may not be found.
func Quote(text string, secrets ...string) string {
	return Shorten(Printable(redact(text, secrets...)))
}

// Short returns an error with the text of its cause, as Quote shows it because the cause may quote foreign text.
func Short(cause error, secrets ...string) error {
	return &quotedError{cause: cause, text: Quote(cause.Error(), secrets...)}
}

// Redacted returns an error with the text of its cause, which may have several lines, without secrets.
func Redacted(cause error, secrets ...string) error {
	return &quotedError{cause: cause, text: redact(cause.Error(), secrets...)}
}

// quotedError has a text of its own.
type quotedError struct {
	cause error
	text  string
}

func (e *quotedError) Error() string { return e.text }

func (e *quotedError) Unwrap() error { return e.cause }

// Bare returns an address as errors show it: as Quote does, and without query, user name and password, which may be
// secret.
func Bare(address *url.URL, secrets ...string) string {
	return Quote((&url.URL{Scheme: address.Scheme, Host: address.Host, Path: address.Path}).String(), secrets...)
}

// identifierPattern matches GitHub's IDs of calls.
var identifierPattern = regexp.MustCompile(`^[0-9A-Za-z:._-]{1,128}$`)

// Identifier returns the ID of a call in a header, or "" if it can't be one of GitHub's.
func Identifier(header http.Header, name string, secrets ...string) string {
	value := identifierPattern.FindString(header.Get(name))
	if redact(value, secrets...) != value {
		return ""
	}
	return value
}

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

// refusedByUs is an error of the client itself, which has nothing that must not be shown.
type refusedByUs interface {
	error
	refusedByUs()
}

// textOf returns the text of a transport's error without what the other side sent: net/http quotes the first line of an
// answer that is not HTTP, which may be any server's.
func textOf(err error) string {
	if _, header := errors.AsType[textproto.ProtocolError](err); header {
		return "the header of the answer is not HTTP"
	}
	_, network := errors.AsType[*net.OpError](err)
	_, name := errors.AsType[*net.DNSError](err)
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	_, ours := errors.AsType[refusedByUs](err)
	if network || name || certificate || ours {
		return err.Error()
	}
	return quoted.ReplaceAllString(err.Error(), "(not shown)")
}

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
