package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const exampleValues = `# Values of an example.
# Two lines.

# What b is.
b: 1
# a: shown in a comment

# An object.
nested:
  list: []
  # inner: {}
`

const exampleSchema = `{
  "properties": {
    "a": {"description": "A.", "type": ["string", "null"]},
    "b": {"description": "B.", "type": ["integer", "string", "null"]},
    "nested": {"description": "N.", "type": "object", "properties": {
      "list": {"description": "L.", "type": "array"},
      "inner": {"description": "I.", "allOf": [{"$ref": "#/definitions/pair"}]},
      "again": {"description": "J.", "allOf": [{"$ref": "#/definitions/pair"}]}
    }},
    "hidden": {"description": "H."}
  },
  "patternProperties": {"^x-": {"description": "Yours."}},
  "definitions": {"pair": {"type": ["object", "null"], "properties": {"key": {"description": "K.", "type": "string"}}}}
}`

const examplePage = `# Values of example

Values of an example.
Two lines.

## b, a

| value | type | default | |
|---|---|---|---|
| $a$ | string |  | A. |
| $b$ | integer or string | $1$ | B. |

$$$yaml
# What b is.
b: 1
# a: shown in a comment
$$$

## nested

| value | type | default | |
|---|---|---|---|
| $nested$ | object |  | N. |
| $nested.list$ | array | $[]$ | L. |
| $nested.inner$ | object |  | I. |
| $nested.inner.key$ | string |  | K. |
| $nested.again$ | object |  | J. Keys as in $nested.inner$. |

$$$yaml
# An object.
nested:
  list: []
  # inner: {}
$$$

## Also accepted

| value | type | default | |
|---|---|---|---|
| $hidden$ | any |  | H. |
| $x-…$ | any |  | Yours. |
`

func TestReference(t *testing.T) {
	page, err := reference("example", []byte(exampleValues), []byte(exampleSchema))
	if err != nil {
		t.Fatal(err)
	}
	_, got, _ := strings.Cut(page, "-->\n\n")
	if difference := cmp.Diff(strings.ReplaceAll(examplePage, "$", "`"), got); difference != "" {
		t.Errorf("page (-want +got):\n%s", difference)
	}
}

// A value without a description must not get into the reference.
func TestReferenceWantsDescriptions(t *testing.T) {
	_, err := reference("example", []byte("a: 1\n"),
		[]byte(`{"properties": {"a": {"description": "A.", "properties": {"b": {}}}}}`))
	if err == nil || !strings.Contains(err.Error(), "doesn't describe a.b") {
		t.Errorf("got %v, want a complaint about a.b", err)
	}
}
