package files_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/harrier-ci/harrier/operations/files"
)

// Each document has a field id. The table lists the wanted ids, - for a document of comments only, ! for an error.
func TestDocuments(t *testing.T) {
	for _, test := range []struct{ input, want string }{
		{"id: 1\n---\nid: 2\n", "1 2"},
		{"---\nid: 1\n---\n# nothing\n---\nid: 2", "1 - 2"},
		{"id: 1\n...\nid: 2\n", "1 2"},
		{"id: 1\n...\n---\nid: 2\n... # the end\n", "1 2"},
		{"--- {id: 1}\n--- {id: 2}\n", "1 2"},
		{"id: 1\r\n---\r\nid: 2\r\n...\r\nid: 3", "1 2 3"},
		{`{"id": 1}{"id": 2}` + "\n\n" + `{"id": 3}`, "1 2 3"},
		{`{"id": 1}` + "\n---\n" + `{"id": 2} {"id": 3}`, "1 2 3"},
		{"id: |\n  ---\n  ...\n", "---\n...\n"},
		{"id: 1 ...\n---x: 2\n", "1 ..."},
		{"id: 1\n---\n{id: 2,\n m: [a, b]}\n", "1 2"},
		{`{"id": 1}` + "\nid: 2\n", "!"},
		{"{id: 1}\n{id: 2}\n", "!"},
		{"  id: 1\nid: 2\n", "!"},
		{"id: 1\n---\n- x\n---\nid: 3", "1 ! 3"},
		{"", ""},
	} {
		var got []string
		for document, err := range (&files.Input{Content: []byte(test.input)}).Documents() {
			switch {
			case err != nil:
				got = append(got, "!")
			case document.Fields == nil:
				got = append(got, "-")
			default:
				got = append(got, fmt.Sprint(document.Fields["id"]))
			}
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%q has %q, want %q", test.input, got, test.want)
		}
	}
}

// Whatever is wrong with a document, the error quotes nothing of its content.
func TestErrorsQuoteNothing(t *testing.T) {
	for _, input := range []string{
		"password: *hunter2", "password: !!float hunter2", "password: !!int hunter2", "? {password: hunter2}\n: 1",
		"{{ hunter2 }}: 1", "hunter2", "- hunter2", "~: hunter2", "~: 20252026",
		"password: \"hunter2\\q\"", "password: {hunter2", "password: 'hunter2", "&hunter2 a: [*hunter2]",
		"a: &hunter2 [*hunter2]", "%hunter2 1\n---\na: 1", "!hunter2!x a", "{\"password\": 20252026e9999}",
		"a: 1\na: !!binary hunter2!", "password: hunter2: hunter2", "\thunter2",
	} {
		var told []string
		for _, err := range (&files.Input{Content: []byte(input)}).Documents() {
			if err != nil {
				told = append(told, err.Error())
			}
		}
		secret := func(text string) bool {
			return strings.Contains(text, "hunter2") || strings.Contains(text, "20252026")
		}
		if slices.ContainsFunc(told, secret) {
			t.Errorf("%q: %q", input, told)
		}
	}
}
