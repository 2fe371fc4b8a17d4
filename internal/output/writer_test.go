package output_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/internal/output"
)

// spoken returns what of a text a terminal or a CI system would take for a command, "" for nothing.
func spoken(text string) string {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "::") || strings.Contains(line, "##") {
			return line
		}
	}
	for i, r := range text {
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
			return text[i : i+1]
		}
	}
	return ""
}

func TestAWriterLetsTextThroughAndNoCommand(t *testing.T) {
	for given, want := range map[string]string{
		"plain ✓\n\ttext\n":            "plain ✓\n\ttext\n",
		"a::b ::c\n":                   "a::b ::c\n",
		"::error::a\n":                 ": :error::a\n",
		" \t ::stop-commands::a\n::b":  " \t : :stop-commands::a\n: :b",
		":::a":                         ": ::a",
		"a ##[error]b ###":             "a # #[error]b # # #",
		"\x1b[31m\u009b2J\u202e\r\n":   `\u001b[31m\u009b2J\u202e\u000d` + "\n",
		"\u00a0::error::a":             `\u00a0::error::a`,
		"\U000e0041":                   `\udb40\udc41`,
		"\xff\xe2\x82 a":               "\ufffd\ufffd\ufffd a",
		"https://[::1]:8080 and ::1\n": "https://[::1]:8080 and ::1\n",
	} {
		var whole, parts bytes.Buffer
		if _, err := output.NewWriter(&whole).Write([]byte(given)); err != nil {
			t.Fatal(err)
		}
		writer := output.NewWriter(&parts)
		for i := range len(given) {
			if n, err := writer.Write([]byte(given[i : i+1])); n != 1 || err != nil {
				t.Fatalf("%q: %d, %v", given, n, err)
			}
		}
		if whole.String() != want || parts.String() != want || spoken(want) != "" {
			t.Errorf("%q becomes %q, byte by byte %q, want %q", given, whole.String(), parts.String(), want)
		}
	}
}

func FuzzDocumentsMeanTheSame(f *testing.F) {
	f.Add("::error::a", "a\n::b\n##[c]")
	f.Add("\x1b[31m\u202e", "\u2028\ufeff\U000e0041 \\\" 'a' # b: {c}")
	f.Add(strings.Repeat("::k", 60), "escaped-0 \t\r\n ::")
	f.Add("123", "  - |\n::a")
	f.Fuzz(func(t *testing.T, key, value string) {
		if len(key) > 500 {
			t.Skip() // YAML has no key that is longer than 1024 characters on its line
		}
		document := map[string]any{
			"a": []any{value, map[string]any{key: value, "n": 1234567890123}}, key + "b": value, "c": true,
		}
		plain, err := json.Marshal(document)
		if err != nil {
			t.Fatal(err)
		}
		var want, read any
		if err := json.Unmarshal(plain, &want); err != nil {
			t.Fatal(err)
		}
		var asJSON bytes.Buffer
		if err := output.WriteJSON(&asJSON, document, true); err != nil {
			t.Fatal(err)
		}
		asYAML, err := output.MarshalYAML(document)
		if err != nil {
			t.Fatal(err)
		}
		for text, unmarshal := range map[string]func([]byte, any) error{
			asJSON.String(): json.Unmarshal,
			string(asYAML):  func(content []byte, into any) error { return yaml.Unmarshal(content, into) },
		} {
			if said := spoken(text); said != "" {
				t.Errorf("%q is left in %q", said, text)
			}
			var through bytes.Buffer
			if _, err := output.NewWriter(&through).Write([]byte(text)); err != nil || through.String() != text {
				t.Errorf("a Writer changes %q to %q: %v", text, through.String(), err)
			}
			read = nil
			if err := unmarshal([]byte(text), &read); err != nil || !reflect.DeepEqual(read, want) {
				t.Errorf("%q is read as %q, want %q: %v", text, read, want, err)
			}
		}
	})
}
