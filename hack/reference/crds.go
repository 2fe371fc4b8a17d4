package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

const resourcesHead = `<!-- Written by hack/generate.sh from the code; don't edit. -->

# Custom resources

Group ` + "`actions.github.com`, version `v1alpha1`" + `, all namespaced. Users write AutoscalingRunnerSets, usually with the chart
[gha-runner-scale-set](values-gha-runner-scale-set.md); the manager creates the other kinds. ` + "`kubectl explain`" + ` shows the same in a
terminal. "Not in ARC" marks what actions-runner-controller does not have.
`

// kinds are the plurals in the order of the page: later sections refer to earlier ones.
var kinds = []string{"autoscalingrunnersets", "ephemeralrunners", "ephemeralrunnersets", "autoscalinglisteners"}

// resources returns the page about the kinds, their conditions and their reasons.
func resources() (string, error) {
	page := &strings.Builder{}
	page.WriteString(resourcesHead)
	described := descriptions{}
	for _, plural := range kinds {
		raw, err := os.ReadFile(filepath.Join("apis", "crds", "actions.github.com_"+plural+".yaml"))
		if err != nil {
			return "", err
		}
		if err := described.write(page, raw); err != nil {
			return "", fmt.Errorf("%s: %w", plural, err)
		}
	}
	if err := writeConstants(page); err != nil {
		return "", err
	}
	return page.String(), nil
}

// write appends the section of a definition: spec, status, and the columns of kubectl get.
func (d descriptions) write(page *strings.Builder, raw []byte) error {
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(raw, definition); err != nil {
		return err
	}
	kind, version := definition.Spec.Names.Kind, definition.Spec.Versions[0]
	root := version.Schema.OpenAPIV3Schema
	fmt.Fprintf(page, "\n## %s\n\n%s Short name: %s.\n", kind, cell(explanation(root.Description, kind)),
		code(definition.Spec.Names.ShortNames[0]))
	for _, part := range []string{"spec", "status"} {
		rows, err := d.rows(kind, part, root.Properties[part])
		if err != nil {
			return err
		}
		object := root.Properties[part]
		fmt.Fprintf(page, "\n### %s: %s\n\n%s\n", kind, part,
			cell(explanation(object.Description, kind+strings.ToUpper(part[:1])+part[1:])+rules(object)))
		table(page, []string{"field", "type", "default", ""}, rows)
	}
	fmt.Fprintf(page, "\n### %s: columns\n", kind)
	table(page, []string{"column", "shows", ""}, columns(version.AdditionalPrinterColumns))
	return nil
}

func columns(defined []apiextensionsv1.CustomResourceColumnDefinition) [][]string {
	var rows [][]string
	for _, column := range defined {
		note := ""
		if column.Priority > 0 {
			note = "with `-o wide`"
		}
		rows = append(rows, []string{strings.ToUpper(column.Name), code(strings.TrimPrefix(column.JSONPath, ".")),
			note})
	}
	return rows
}

// descriptions remembers, by the fields of an object, where these have been described, so that those of a proxy are
// spelled out a single time and not seven times.
type descriptions map[string]string

// rows returns the rows of everything below an object. It fails if a field has no description.
func (d descriptions) rows(kind, path string, object apiextensionsv1.JSONSchemaProps) ([][]string, error) {
	var rows [][]string
	for _, name := range sortedKeys(object.Properties) {
		field, at := object.Properties[name], path+"."+name
		if field.Description == "" {
			return nil, fmt.Errorf("%s is not described: add a comment to its Go field", at)
		}
		text, preset := split(field)
		if slices.Contains(object.Required, name) {
			preset = "required"
		}
		below, where := d.below(kind, at, field)
		rows = append(rows, []string{code(at), kindOf(field), preset, cell(text + rules(field) + where)})
		more, err := d.rows(kind, below.path, below.schema)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// object is a schema whose fields have rows of their own.
type object struct {
	path   string
	schema apiextensionsv1.JSONSchemaProps
}

// below returns the object whose fields are to be spelled out below a field, or a reference to where they have been.
func (d descriptions) below(kind, path string, field apiextensionsv1.JSONSchemaProps) (object, string) {
	found := object{path: path, schema: field}
	switch {
	case field.Items != nil && field.Items.Schema != nil:
		found = object{path: path + "[]", schema: *field.Items.Schema}
	case field.AdditionalProperties != nil && field.AdditionalProperties.Schema != nil:
		found = object{path: path + ".NAME", schema: *field.AdditionalProperties.Schema}
	}
	// An object that may contain anything has properties only for its limits.
	if len(found.schema.Properties) == 0 || summed(found.schema) ||
		ptr.Deref(found.schema.XPreserveUnknownFields, false) {
		return object{}, ""
	}
	content := fingerprint(found.schema)
	if where, known := d[content]; known {
		return object{}, " Fields as in " + where + "."
	}
	d[content] = code(path) + " of " + kind
	return found, ""
}

// fingerprint returns the same text for objects with the same fields.
func fingerprint(schema apiextensionsv1.JSONSchemaProps) string {
	parts := make([]string, 0, len(schema.Properties))
	for _, name := range sortedKeys(schema.Properties) {
		parts = append(parts, name+"("+fingerprint(schema.Properties[name])+")")
	}
	return strings.Join(parts, ",")
}
