// Package charts has what programs and charts must agree on: files of a chart that its templates read, too.
package charts

import (
	"embed"
	"fmt"

	"sigs.k8s.io/yaml"
)

//go:embed */experimental-keys.yaml
var files embed.FS

// ExperimentalKeys returns keys of ARC's experimental version of a chart, as paths with dots, with what replaces each in the chart. It
// takes the chart's name.
func ExperimentalKeys(chart string) (map[string]string, error) {
	content, err := files.ReadFile(chart + "/experimental-keys.yaml")
	if err != nil {
		return nil, err
	}
	var keys map[string]string
	if err := yaml.UnmarshalStrict(content, &keys); err != nil {
		return nil, fmt.Errorf("read experimental-keys.yaml of %s: %w", chart, err)
	}
	return keys, nil
}
