package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
)

// kindOf returns a field's type in words for people who write YAML.
func kindOf(field apiextensionsv1.JSONSchemaProps) string {
	switch {
	case isConditions(field):
		return "list of [conditions](#conditions)"
	case isPodTemplate(field):
		return "pod template"
	case summed(field):
		return "object of " + code(strings.Join(sortedKeys(field.Properties), "`, `"))
	case field.Items != nil && field.Items.Schema != nil:
		return "list of " + kindOf(*field.Items.Schema)
	case field.AdditionalProperties != nil && field.AdditionalProperties.Schema != nil:
		return "map to " + kindOf(*field.AdditionalProperties.Schema)
	case field.Format == "date-time":
		return "time"
	case strings.HasPrefix(field.Pattern, "^([0-9]+("):
		return "duration, such as `10m`"
	case field.Minimum != nil:
		return fmt.Sprintf("%s, at least %v", field.Type, *field.Minimum)
	case field.MaxLength != nil:
		return fmt.Sprintf("%s, at most %d characters", field.Type, *field.MaxLength)
	}
	return field.Type
}

// summed reports whether an object is shown in one row. Kubernetes documents its own types, and labels and annotations
// need no more.
func summed(field apiextensionsv1.JSONSchemaProps) bool {
	return isConditions(field) || isPodTemplate(field) || isClaimSpec(field) || field.XMapType != nil ||
		slices.Equal(sortedKeys(field.Properties), []string{"annotations", "labels"})
}

func isPodTemplate(field apiextensionsv1.JSONSchemaProps) bool {
	spec := field.Properties["spec"]
	_, found := spec.Properties["containers"]
	return found && !ptr.Deref(spec.XPreserveUnknownFields, false)
}

func isClaimSpec(field apiextensionsv1.JSONSchemaProps) bool {
	_, found := field.Properties["accessModes"]
	return found
}

// isConditions recognizes a list of conditions, and a condition.
func isConditions(field apiextensionsv1.JSONSchemaProps) bool {
	if field.Items != nil && field.Items.Schema != nil {
		field = *field.Items.Schema
	}
	_, found := field.Properties["lastTransitionTime"]
	return found
}

// stated matches a default in a description, which the manager applies. A default in the schema would be written into
// objects and stay there when the next version has another.
var stated = regexp.MustCompile(` ?\bDefault ([^ ]+)\.`)

// split returns a field's description without its default, and the default, from the schema or the description.
func split(field apiextensionsv1.JSONSchemaProps) (description, preset string) {
	if field.Default != nil {
		return field.Description, code(string(field.Default.Raw))
	}
	if named := stated.FindStringSubmatch(field.Description); named != nil {
		return strings.Replace(field.Description, named[0], "", 1), code(named[1])
	}
	return field.Description, ""
}

// rules returns the conditions that the API server checks besides types, in the words of its refusals.
func rules(field apiextensionsv1.JSONSchemaProps) string {
	text := ""
	for _, rule := range field.XValidations {
		subject := "It"
		if rule.FieldPath != "" {
			subject = code(strings.TrimPrefix(rule.FieldPath, "."))
		}
		text += fmt.Sprintf(" %s %s.", subject, rule.Message)
	}
	return text
}

func sortedKeys[T any](of map[string]T) []string { return slices.Sorted(maps.Keys(of)) }
