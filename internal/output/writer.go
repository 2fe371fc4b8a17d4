package output

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Writer lets through what is text, and makes the rest visible: JSON's escapes stand for what can't be printed, so that
// a document stays valid, and a space breaks what a CI system would take for a command.
type Writer struct {
	to io.Writer
	// rest are the first bytes of a character whose others are not written yet.
	rest []byte
	line lineState
}

// NewWriter returns a Writer to a terminal, a pipe or a log. Like most writers it is for one goroutine at a time.
func NewWriter(to io.Writer) *Writer { return &Writer{to: to} }

// Write returns the number of bytes that it has taken.
func (w *Writer) Write(given []byte) (int, error) {
	text := append(w.rest, given...)
	var safe strings.Builder
	for len(text) > 0 && utf8.FullRune(text) {
		r, size := utf8.DecodeRune(text) // bytes that are no UTF-8 become U+FFFD
		text = text[size:]
		switch {
		case w.line.speaks(r):
			safe.WriteString(" " + string(r))
		case r == '\n' || r == '\t' || unicode.IsPrint(r):
			safe.WriteRune(r)
		default:
			safe.WriteString(escape(r))
		}
	}
	w.rest = append([]byte{}, text...)
	if _, err := io.WriteString(w.to, safe.String()); err != nil {
		return 0, err
	}
	return len(given), nil
}

// lineState is how a line begins and what was last in it: GitHub's runner takes :: at the beginning for a command, even
// after spaces, and ##[ anywhere; Azure Pipelines and TeamCity have ##vso[ and ##teamcity[.
type lineState struct {
	inside bool
	last   rune
}

// speaks reports whether a character, as the next one, would make a command of the line.
func (s *lineState) speaks(r rune) (is bool) {
	switch r {
	case '\n':
		*s = lineState{}
		return false
	case '#':
		is = s.last == '#'
	case ':':
		is = s.last == ':' && !s.inside
	}
	begins := r == ' ' || r == '\t' || (r == ':' && s.last != ':')
	s.inside = s.inside || !begins
	s.last = r
	return is
}

// unspoken returns a text with a space in what would be a command.
func unspoken(text string) string {
	var state lineState
	var safe strings.Builder
	for _, r := range text {
		if state.speaks(r) {
			safe.WriteByte(' ')
		}
		safe.WriteRune(r)
	}
	return safe.String()
}

// escape returns the escape of JSON for a character: two for one that needs more than 16 bits.
func escape(r rune) string {
	if r > 0xffff {
		first, second := utf16.EncodeRune(r)
		return fmt.Sprintf(`\u%04x\u%04x`, first, second)
	}
	return fmt.Sprintf(`\u%04x`, r)
}
