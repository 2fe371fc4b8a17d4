package dryrun

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
	"helm.sh/helm/v4/pkg/chart/common"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/charts"
)

// compiled has the schemas of the charts' values by chart, as Helm's own library for schemas reads them.
var compiled sync.Map

func compile(chart string, text []byte) (*jsonschema.Schema, error) {
	if schema, done := compiled.Load(chart); done {
		return schema.(*jsonschema.Schema), nil //nolint:forcetypeassert // stored below
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(chart, document); err != nil {
		return nil, err
	}
	schema, err := compiler.Compile(chart)
	if err != nil {
		return nil, err
	}
	compiled.Store(chart, schema)
	return schema, nil
}

// checkSchema returns everything that the schema of a chart's values refuses.
func checkSchema(chart string, text []byte, values common.Values) ([]Fault, error) {
	schema, err := compile(chart, text)
	if err != nil {
		return nil, fmt.Errorf("read the schema of the chart %s: %w", chart, err)
	}
	var invalid *jsonschema.ValidationError
	if err := schema.Validate(values.AsMap()); !errors.As(err, &invalid) {
		return nil, err
	}
	faults := leaves(invalid)
	slices.SortFunc(faults, func(a, b Fault) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(faults), nil
}

var english = message.NewPrinter(language.English)

// leaves returns the errors without a cause; the others only name the part of the schema they are in.
func leaves(invalid *jsonschema.ValidationError) (faults []Fault) {
	if len(invalid.Causes) > 0 {
		for _, cause := range invalid.Causes {
			faults = append(faults, leaves(cause)...)
		}
		return faults
	}
	unknown, isUnknown := invalid.ErrorKind.(*kind.AdditionalProperties)
	if !isUnknown {
		return []Fault{{Path: dotted(invalid.InstanceLocation), Message: invalid.ErrorKind.LocalizedString(english)}}
	}
	for _, key := range unknown.Properties {
		one := &kind.AdditionalProperties{Properties: []string{key}}
		faults = append(faults, Fault{
			Path:    dotted(append(slices.Clone(invalid.InstanceLocation), key)),
			Message: one.LocalizedString(english),
			Unknown: true,
		})
	}
	return faults
}

// dotted writes a path in the usual form: template.spec.containers[0].name.
func dotted(location []string) string {
	var path strings.Builder
	for i, part := range location {
		switch {
		case isIndex(part):
			path.WriteString("[" + part + "]")
		case i > 0:
			path.WriteString("." + part)
		default:
			path.WriteString(part)
		}
	}
	return path.String()
}

func isIndex(part string) bool {
	return part != "" && strings.Trim(part, "0123456789") == ""
}

// Knows reports whether a chart has a value of that name at the top, or refuses it as one of ARC's experimental chart.
func Knows(chart, key string) bool {
	known, err := topKeys[chart]()
	return err == nil && known[key]
}

var topKeys = map[string]func() (map[string]bool, error){
	charts.ScaleSet:   sync.OnceValues(func() (map[string]bool, error) { return readKeys(charts.ScaleSet) }),
	charts.Controller: sync.OnceValues(func() (map[string]bool, error) { return readKeys(charts.Controller) }),
}

func readKeys(chart string) (map[string]bool, error) {
	read, err := loaded[chart]()
	if err != nil {
		return nil, err
	}
	var schema struct {
		Properties map[string]any `json:"properties"`
	}
	if err := json.Unmarshal(read.Schema, &schema); err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for key := range schema.Properties {
		known[key] = true
	}
	for _, file := range read.Files {
		if file.Name != "experimental-keys.yaml" {
			continue
		}
		var replaced map[string]string
		if err := yaml.Unmarshal(file.Data, &replaced); err != nil {
			return nil, err
		}
		for path := range replaced {
			key, _, _ := strings.Cut(path, ".")
			known[key] = true
		}
	}
	return known, nil
}
