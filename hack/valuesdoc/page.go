package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// A default of at most longestDefault characters fits into a line of a table. Longer defaults are only in the excerpt
// below it.
const longestDefault = 60

// key finds top-level values of values.yaml, both those that are set and those that are shown in a comment.
var key = regexp.MustCompile(`(?m)^(?:# )?([A-Za-z]+):(?: |$)`)

// reference returns the page about a chart's values. It fails if the files can't be read or a value has no description.
func reference(chart string, values, schemaFile []byte) (string, error) {
	var root schema
	if err := json.Unmarshal(schemaFile, &root); err != nil {
		return "", fmt.Errorf("read values.schema.json: %w", err)
	}
	var defaults map[string]any
	if err := yaml.Unmarshal(values, &defaults); err != nil {
		return "", fmt.Errorf("read values.yaml: %w", err)
	}
	for _, pattern := range root.Patterns {
		if strings.HasSuffix(pattern.key, "$") { // whole keys, which the chart knows only to refuse them
			continue
		}
		root.Properties = append(root.Properties,
			property{key: strings.TrimPrefix(pattern.key, "^") + "…", schema: pattern.schema})
	}
	intro, blocks := sections(string(values), root.Properties)
	page := &strings.Builder{}
	fmt.Fprintf(page, "<!-- Written by `go run ./hack/valuesdoc`; edit values.yaml or values.schema.json of "+
		"the chart. -->\n\n# Values of %s\n\n%s\n", chart, intro)
	flat := flattener{definitions: root.Definitions, spelledOut: map[string]string{}}
	for _, block := range append(blocks, unshown(root.Properties, blocks)) {
		if err := block.write(page, flat, root.Properties, defaults); err != nil {
			return "", err
		}
	}
	return page.String(), nil
}

// section is a block of values.yaml and the values it shows.
type section struct {
	title string
	keys  []string
	text  string
}

// sections splits values.yaml at blank lines. The text of a block without values, which is the first one, is the
// introduction.
func sections(values string, known properties) (intro string, result []section) {
	for block := range strings.SplitSeq(strings.TrimSpace(values), "\n\n") {
		var keys []string
		for _, match := range key.FindAllStringSubmatch(block, -1) {
			isKnown := slices.ContainsFunc(known, func(p property) bool { return p.key == match[1] })
			if isKnown && !slices.Contains(keys, match[1]) {
				keys = append(keys, match[1])
			}
		}
		if len(keys) == 0 {
			intro = strings.TrimPrefix(strings.ReplaceAll(block, "\n# ", "\n"), "# ")
			continue
		}
		result = append(result, section{title: strings.Join(keys, ", "), keys: keys, text: block})
	}
	return intro, result
}

// unshown returns a section with the values that no other section has.
func unshown(known properties, shown []section) section {
	rest := section{title: "Also accepted"}
	for _, property := range known {
		if !slices.ContainsFunc(shown, func(s section) bool { return slices.Contains(s.keys, property.key) }) {
			rest.keys = append(rest.keys, property.key)
		}
	}
	return rest
}

func (s section) write(page *strings.Builder, flat flattener, known properties, defaults map[string]any) error {
	fmt.Fprintf(page, "\n## %s\n\n| value | type | default | |\n|---|---|---|---|\n", s.title)
	for _, property := range known {
		if !slices.Contains(s.keys, property.key) {
			continue
		}
		rows, err := flat.rows(property.key, property.schema)
		if err != nil {
			return err
		}
		for _, row := range rows {
			fmt.Fprintf(page, "| `%s` | %s | %s | %s |\n", row.path, row.kind, defaultAt(defaults, row.path),
				row.description)
		}
	}
	if s.text != "" {
		fmt.Fprintf(page, "\n```yaml\n%s\n```\n", s.text)
	}
	return nil
}

// defaultAt returns the value that values.yaml sets at the path. It is empty for a value that is not set, and for an
// object whose keys have rows of their own.
func defaultAt(defaults map[string]any, path string) string {
	var value any = defaults
	for name := range strings.SplitSeq(path, ".") {
		object, _ := value.(map[string]any)
		value = object[name]
	}
	if object, isObject := value.(map[string]any); value == nil || (isObject && len(object) > 0) {
		return ""
	}
	text, err := json.Marshal(value)
	if err != nil || len(text) > longestDefault {
		return "below"
	}
	return "`" + string(text) + "`"
}
