package failure

import (
	"encoding/base64"
	"encoding/hex"
	"html"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// redacted takes the place of a secret.
const redacted = "[redacted]"

// maxMessageLength is the number of bytes of a foreign text that an error quotes, and with it logs and conditions.
const maxMessageLength = 512

const (
	// maxForeign is the number of bytes of a foreign text that are looked at. An error quotes an eighth of that.
	maxForeign = 8 * maxMessageLength
	// A part of a credential of so many characters is hidden: twelve characters of base64 are 72 bits, which no other
	// text has by chance.
	shortestPart = 12
	// What base64 or hexadecimal digits make of a shorter secret may well be part of a word.
	shortestEncoded = 6
	// mostEscapes is the number of times that one escape can be wrapped in another and is still undone.
	mostEscapes = 3
)

// Secrets returns what a request carries that no error may show: its credential, and name and password of its proxy,
// which may be nil.
func Secrets(authorization string, proxy *url.URL) (secrets []string) {
	if _, secret, ok := strings.Cut(authorization, " "); ok {
		secrets = append(secrets, secret)
	}
	if proxy != nil && proxy.User != nil {
		if password, set := proxy.User.Password(); set {
			secrets = append(secrets, password, proxy.User.Username()+":"+password)
		}
	}
	return secrets
}

// redact hides the request's secrets, and what looks like another one, in a foreign text: the error page of a proxy or
// a debugging server may echo them whole or cut, with escapes, or as base64 or hexadecimal digits. The request's own
// come first, whatever their form. Of a very long text the rest is dropped.
func redact(text string, secrets ...string) string {
	cut := ""
	if len(text) > maxForeign {
		text, cut = text[:maxForeign], "…"
	}
	seen := unescaped(text)
	secret := make([]bool, len(seen.text))
	text = folded(seen.text)
	for _, carried := range secrets {
		markParts(secret, text, folded(carried), 0)
		for _, form := range encodingsOf(carried) {
			markParts(secret, text, folded(form), sharedDigits)
		}
	}
	markTokens(secret, seen.text)
	joinMarks(secret, seen.text)
	return seen.without(secret) + cut
}

// view is a text without its escapes. What they stand for is searched, and the text itself is shown.
type view struct {
	source, text string
	// at has the place in the source of each byte of the text, and of the end.
	at []int
}

// escape matches a character as percent-encoding, JSON, other languages' strings and HTML write it.
var escape = regexp.MustCompile(
	`%[0-9a-fA-F]{2}|\\u00[0-9a-fA-F]{2}|\\x[0-9a-fA-F]{2}|\\[nrtbf/"'\\]|&(?:#x?[0-9a-fA-F]{1,6}|amp|quot|lt|gt);`)

func unescaped(source string) view {
	seen := view{source: source, text: source, at: make([]int, len(source)+1)}
	for i := range seen.at {
		seen.at[i] = i
	}
	for range mostEscapes {
		found := escape.FindAllStringIndex(seen.text, -1)
		if found == nil {
			break
		}
		var text strings.Builder
		at, end := make([]int, 0, len(seen.at)), 0
		for _, place := range append(found, []int{len(seen.text), len(seen.text)}) {
			text.WriteString(seen.text[end:place[0]])
			at = append(at, seen.at[end:place[0]]...)
			if place[0] < place[1] {
				text.WriteByte(meant(seen.text[place[0]:place[1]]))
				at = append(at, seen.at[place[0]])
			}
			end = place[1]
		}
		seen.text, seen.at = text.String(), append(at, len(source))
	}
	return seen
}

// meant returns the character that an escape stands for, or a space if no credential has it.
func meant(escape string) byte {
	var code uint64
	switch {
	case escape[0] == '&':
		if text := html.UnescapeString(escape); len(text) == 1 {
			return text[0]
		}
		return ' '
	case escape[0] == '%':
		code, _ = strconv.ParseUint(escape[1:], 16, 8)
	case len(escape) > 2:
		code, _ = strconv.ParseUint(escape[2:], 16, 16)
	case unicode.IsLetter(rune(escape[1])):
		return ' '
	default:
		return escape[1]
	}
	return byte(code) //nolint:gosec // of two hexadecimal digits
}

// without returns the source with the secret parts of the text hidden.
func (v view) without(secret []bool) string {
	var shown strings.Builder
	for i := 0; i < len(secret); i++ {
		start := i
		for i < len(secret) && secret[i] {
			i++
		}
		if i > start {
			shown.WriteString(redacted)
		}
		if i < len(secret) {
			shown.WriteString(v.source[v.at[i]:v.at[i+1]])
		}
	}
	return shown.String()
}

// sharedDigits is the number of digits of base64 on each side that a secret can share with its neighbours, and padding.
const sharedDigits = 3

// encodingsOf returns the other texts by which a secret is recognized: its hexadecimal digits, and what base64 makes of
// it behind nothing, one or two other bytes, without the digits that depend on its neighbours.
func encodingsOf(secret string) (forms []string) {
	if len(secret) < shortestEncoded {
		return nil
	}
	for before := range 3 {
		encoded := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("\x00", before) + secret))
		if (before+len(secret))%3 != 0 {
			encoded = encoded[:len(encoded)-1]
		}
		forms = append(forms, encoded[(before*8+5)/6:])
	}
	return append(forms, hex.EncodeToString([]byte(secret)))
}

// folded returns a text of the same length in which the two alphabets of base64, and upper and lower case, are the
// same.
func folded(text string) string {
	bytes := []byte(text)
	for i, b := range bytes {
		switch {
		case b >= 'A' && b <= 'Z':
			bytes[i] = b - 'A' + 'a'
		case b == '-':
			bytes[i] = '+'
		case b == '_':
			bytes[i] = '/'
		}
	}
	return string(bytes)
}

// markParts marks what a text has of a secret, in parts of at least shortestPart characters, and as many digits of
// base64 beside each. A shorter secret is found as a whole only.
func markParts(marked []bool, text, secret string, beside int) {
	size := min(shortestPart, len(secret))
	if size == 0 || size > len(text) {
		return
	}
	found := map[string]bool{}
	for i := range len(text) - size + 1 {
		found[text[i:i+size]] = false
	}
	for i := range len(secret) - size + 1 {
		if _, known := found[secret[i:i+size]]; known {
			found[secret[i:i+size]] = true
		}
	}
	for i := range len(text) - size + 1 {
		if !found[text[i:i+size]] {
			continue
		}
		start, end := i, i+size
		for i-start < beside && start > 0 && isDigit(text[start-1]) {
			start--
		}
		for end-i-size < beside && end < len(text) && isDigit(text[end]) {
			end++
		}
		for j := start; j < end; j++ {
			marked[j] = true
		}
	}
}

// isDigit reports whether a folded text's character can be one of base64's.
func isDigit(b byte) bool {
	return (b >= 'a' && b <= 'z') || (b >= '0' && b <= '9') || b == '+' || b == '/' || b == '='
}

// tokens match what looks like a secret; what the last group matches is hidden. GitHub publishes the forms of its
// tokens in "About authentication to GitHub", and since April 2026 of an installation's, which has a JWT in it:
// ghs_<app>_<header>.<payload>.<signature>, about 520 characters.
var tokens = []*regexp.Regexp{
	regexp.MustCompile(`(?i)(?:^|[^a-z0-9])((?:gh[a-z]|github_pat)_[\w-]{10,}(?:\.[\w-]+)*)`),
	// Installations' tokens of old Enterprise Servers.
	regexp.MustCompile(`\b(v1\.[0-9a-f]{40})\b`),
	// Registration and removal tokens: 29 digits of base32.
	regexp.MustCompile(`\b([A-Z2-7]{29})\b`),
	// JWTs, JIT configs and whatever else is JSON in base64, or the rest of it.
	regexp.MustCompile(`(?:^|[^A-Za-z0-9])(ey[AIJ][\w+/-]{8,}={0,2}(?:\.[\w-]+)*)`),
	// Git's user and password in base64, whose user is 15 bytes long, and so the same 20 digits before any token.
	regexp.MustCompile(`(eC1hY2Nlc3MtdG9rZW46[\w+/-]+={0,2})`),
	regexp.MustCompile(`://[^\s/@:]*:([^\s/@]+)@`),
}

// authorization matches the value of a header Authorization. A word that follows by chance has neither digits nor
// capital letters inside.
var authorization = regexp.MustCompile(`(?i)\b(?:bearer|basic|remoteauth)[\s:="']+([\w.+/~-]{12,}=*)`)

// markTokens marks what looks like a secret, whoever's it is.
func markTokens(marked []bool, text string) {
	mark := func(place []int) {
		for i := place[len(place)-2]; i < place[len(place)-1]; i++ {
			marked[i] = true
		}
	}
	for _, pattern := range tokens {
		for _, place := range pattern.FindAllStringSubmatchIndex(text, -1) {
			mark(place)
		}
	}
	for _, place := range authorization.FindAllStringSubmatchIndex(text, -1) {
		if strings.ContainsAny(text[place[2]+1:place[3]], "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
			mark(place)
		}
	}
}

// joinMarks marks the few characters between two marks, unless there is white space: a secret of which most is found
// was changed a bit.
func joinMarks(marked []bool, text string) {
	last := -1
	for i := range marked {
		if !marked[i] {
			continue
		}
		if gap := i - last - 1; last >= 0 && gap < shortestPart && !strings.ContainsAny(text[last+1:i], " \t\r\n") {
			for j := last + 1; j < i; j++ {
				marked[j] = true
			}
		}
		last = i
	}
}
