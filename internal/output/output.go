// Package output makes texts fit for whoever reads them: a terminal, or the log of a CI system. Workflows name jobs,
// whoever may write objects writes their messages, and a pull request may add the manifests that a job validates. So
// whatever a command prints goes through a Writer, which lets no text be a command: not an escape sequence, not a change
// of direction, and not ::error:: at the beginning of a line. Before that, texts of others are put on one line, and
// documents are written so that they say the same and have nothing that a Writer would change.
package output

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/harrier-ci/harrier/github/actions"
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

// OneLine returns a text of others on one line, without what a terminal or a CI system would take for a command. In the
// place of what can't be printed it has spaces.
func OneLine(text string) string {
	return unspoken(actions.Printable(strings.ToValidUTF8(text, "�")))
}

// Clean returns a text of others on one line, cut.
func Clean(text string) string { return Cut(strings.TrimSpace(OneLine(text)), longestText) }

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
