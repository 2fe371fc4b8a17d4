package output_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"
	"unicode"

	"github.com/harrier-ci/harrier/internal/output"
)

// hostile has an escape sequence, an 8-bit one, an override of the direction, a new line and bytes that are no UTF-8.
const hostile = "a\x1b[31mred\x1b]0;title\x07\u009b2J\u202eevil\r\nnext\u2028\xff\U000e0041"

func TestTextsOfOthersAreOneLineThatATerminalOnlyPrints(t *testing.T) {
	for _, r := range output.Clean(hostile) {
		if !unicode.IsPrint(r) {
			t.Errorf("%q is left in %q", r, output.Clean(hostile))
		}
	}
	if got := output.Clean("  deploy to prod ✓ "); got != "deploy to prod ✓" {
		t.Errorf("a harmless text became %q", got)
	}
}

func TestJSONMeansTheSameAndIsOnlyPrinted(t *testing.T) {
	var text bytes.Buffer
	document := map[string]string{"name": hostile[:len(hostile)-5], "harmless": "<a> & ✓"}
	if err := output.WriteJSON(&text, document, true); err != nil {
		t.Fatal(err)
	}
	for _, r := range text.String() {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Errorf("%q is left in %s", r, text.String())
		}
	}
	var read map[string]string
	if err := json.Unmarshal(text.Bytes(), &read); err != nil || read["harmless"] != document["harmless"] ||
		read["name"] != document["name"] {
		t.Errorf("%s is read as %q, want %q: %v", text.String(), read, document, err)
	}
}

func TestCuts(t *testing.T) {
	for _, test := range []struct {
		text string
		most int
		want string
	}{{"runners", 7, "runners"}, {"runners", 4, "run…"}, {"äöü", 2, "ä…"}, {"a", 0, ""}, {"ab", -3, ""}} {
		if got := output.Cut(test.text, test.most); got != test.want {
			t.Errorf("%q cut to %d: %q, want %q", test.text, test.most, got, test.want)
		}
	}
}

func TestDurations(t *testing.T) {
	for took, want := range map[time.Duration]string{
		0: "0s", 59499 * time.Millisecond: "59s", 90 * time.Second: "1m30s", 2*time.Hour + 5*time.Minute: "2h05m",
		74 * time.Hour: "3d2h",
	} {
		if got := output.Duration(took); got != want {
			t.Errorf("%s is %q, want %q", took, got, want)
		}
	}
}
