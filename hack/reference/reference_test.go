package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const exampleDefinition = `
spec:
  names: {kind: Example, shortNames: [ex]}
  versions:
    - additionalPrinterColumns:
        - {name: Seen, jsonPath: .status.seen, priority: 1}
      schema:
        openAPIV3Schema:
          description: Example is one of many.
          properties:
            spec:
              description: ExampleSpec is what is asked for.
              x-kubernetes-validations: [{fieldPath: .least, message: must not be greater than most, rule: "true"}]
              required: [least]
              properties:
                least: {type: integer, minimum: 0, description: "At least."}
                wait: {type: string, pattern: "^([0-9]+(m|h))+$", description: "How long. Default 10m. Not in ARC."}
                first: {type: object, description: First., properties: {url: {type: string, description: "An a|b."}}}
                second: {type: object, description: Second., properties: {url: {type: string, description: Another.}}}
                many: {type: array, description: Many., items: {type: object, properties: {name: {type: string, description: Its name.}}}}
                metadata: {type: object, description: Metadata., properties: {labels: {}, annotations: {}}}
                template: {type: object, description: Pod., properties: {spec: {type: object, properties: {containers: {}}}}}
            status:
              description: ExampleStatus is what came of it.
              properties:
                conditions: {type: array, description: State., items: {type: object, properties: {lastTransitionTime: {}}}}
                seen: {type: integer, default: 0, description: Seen.}
`

const examplePage = `
## Example

One of many. Short name: $ex$.

### Example: spec

What is asked for. $least$ must not be greater than most.

| field | type | default |  |
|---|---|---|---|
| $spec.first$ | object |  | First. |
| $spec.first.url$ | string |  | An a\|b. |
| $spec.least$ | integer, at least 0 | required | At least. |
| $spec.many$ | list of object |  | Many. |
| $spec.many[].name$ | string |  | Its name. |
| $spec.metadata$ | object of $annotations$, $labels$ |  | Metadata. |
| $spec.second$ | object |  | Second. Fields as in $spec.first$ of Example. |
| $spec.template$ | pod template |  | Pod. |
| $spec.wait$ | duration, such as $10m$ | $10m$ | How long. Not in ARC. |

### Example: status

What came of it.

| field | type | default |  |
|---|---|---|---|
| $status.conditions$ | list of [conditions](#conditions) |  | State. |
| $status.seen$ | integer | $0$ | Seen. |

### Example: columns

| column | shows |  |
|---|---|---|
| SEEN | $status.seen$ | with $-o wide$ |
`

func TestDefinition(t *testing.T) {
	page := &strings.Builder{}
	if err := (descriptions{}).write(page, []byte(exampleDefinition)); err != nil {
		t.Fatal(err)
	}
	if difference := cmp.Diff(strings.ReplaceAll(examplePage, "$", "`"), page.String()); difference != "" {
		t.Errorf("page (-want +got):\n%s", difference)
	}
}

// A field without a description must not get into the reference.
func TestDefinitionWantsDescriptions(t *testing.T) {
	definition := strings.Replace(exampleDefinition, "description: First.,", "", 1)
	err := (descriptions{}).write(&strings.Builder{}, []byte(definition))
	if err == nil || !strings.Contains(err.Error(), "spec.first is not described") {
		t.Errorf("got %v, want a complaint about spec.first", err)
	}
}

func TestMeaning(t *testing.T) {
	for comment, want := range map[string]string{
		"X: it works.": "It works.", "X is the word.": "The word.",
		"X: githubConfigUrl is wrong.": "githubConfigUrl is wrong.", "Both work.": "Both work.",
	} {
		if got := explanation(comment, "X"); got != want {
			t.Errorf("meaning of %q is %q, want %q", comment, got, want)
		}
	}
}

func TestParseUsage(t *testing.T) {
	const usage = "Usage of x:\n  -n string\n    \tits name (default \"all\")\n  -old value\n    \taccepted for " +
		"ARC's command lines and ignored\n  -v\tsay more\n  -wait duration\n    \thow long (default 10s)\n"
	rows, ignored, err := parseUsage(usage, "--")
	if err != nil {
		t.Fatal(err)
	}
	want := [][]string{{"`--n`", "string", "`all`", "its name"}, {"`--v`", "boolean", "", "say more"},
		{"`--wait`", "duration", "`10s`", "how long"}}
	if difference := cmp.Diff(want, rows); difference != "" {
		t.Errorf("rows (-want +got):\n%s", difference)
	}
	if difference := cmp.Diff([]string{"`--old`"}, ignored); difference != "" {
		t.Errorf("ignored (-want +got):\n%s", difference)
	}
	if _, _, err := parseUsage("\n  -X what\n", "-"); err == nil {
		t.Error("a flag that was not understood was passed over")
	}
}
