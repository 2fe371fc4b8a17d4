// Package output makes texts fit to reach a terminal: workflows name jobs, and whoever may write objects writes their
// messages, so a text is cleaned before it is shown, on one line, and JSON has escapes in the place of everything that
// a terminal might take for a command.
package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/harrier-ci/harrier/internal/doctor/finding"
)

// Formats are the values of --output. CSV is for tables only.
const (
	Text = "text"
	JSON = "json"
	CSV  = "csv"
)

// CheckFormat fails for anything but the values of --output: text, JSON, and what a command has besides.
func CheckFormat(format string, more ...string) error {
	known := append([]string{Text, JSON}, more...)
	if !slices.Contains(known, format) {
		return fmt.Errorf("-o %q is unknown; use %s or %s", format, strings.Join(known[:len(known)-1], ", "),
			known[len(known)-1])
	}
	return nil
}

// longestText is more than any message of ours: the API server cuts those of conditions at 32 KiB.
const longestText = 2000

// Clean returns a text of others on one line, cut, and without anything that a terminal could take for a command.
func Clean(text string) string {
	return Cut(strings.TrimSpace(finding.OneLine(strings.ToValidUTF8(text, "�"))), longestText)
}

// Cell returns a text of others for a table that a spreadsheet may open, with an apostrophe before it if that would
// take it for a formula, which could run a program of whoever opens it.
func Cell(text string) string {
	text = Clean(text)
	if first, _ := utf8.DecodeRuneInString(text); text != "" && strings.ContainsRune("=+-@＝＋－＠", first) {
		return "'" + text
	}
	return text
}

// Cut returns the beginning of a text, of at most so many characters, the last of which is "…" if something is missing.
func Cut(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	if most <= 0 {
		return ""
	}
	return string([]rune(text)[:most-1]) + "…"
}

// WriteJSON writes a document, indented if it is for people to read as well.
func WriteJSON(to io.Writer, document any, indented bool) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if indented {
		encoder.SetIndent("", "  ")
	}
	if err := encoder.Encode(document); err != nil {
		return err
	}
	_, err := io.WriteString(to, escaped(text.String()))
	return err
}

// escaped has JSON's escapes for what can't be printed. In JSON such characters are only parts of strings, except for
// the ends of lines.
func escaped(text string) string {
	var safe strings.Builder
	for _, r := range text {
		switch {
		case r == '\n' || unicode.IsPrint(r):
			safe.WriteRune(r)
		case r > 0xffff:
			first, second := utf16.EncodeRune(r)
			fmt.Fprintf(&safe, `\u%04x\u%04x`, first, second)
		default:
			fmt.Fprintf(&safe, `\u%04x`, r)
		}
	}
	return safe.String()
}

// Duration returns a duration as people say it: 42s, 3m10s, 2h05m, 4d2h.
func Duration(took time.Duration) string {
	switch seconds := int(took.Round(time.Second) / time.Second); {
	case seconds < 60:
		return fmt.Sprintf("%ds", seconds)
	case seconds < 3600:
		return fmt.Sprintf("%dm%02ds", seconds/60, seconds%60)
	case seconds < 48*3600:
		return fmt.Sprintf("%dh%02dm", seconds/3600, seconds%3600/60)
	default:
		return fmt.Sprintf("%dd%dh", seconds/86400, seconds%86400/3600)
	}
}
