// Package charts has what programs and charts must agree on: files of a chart that its templates read, too.
package charts

import (
	_ "embed"
	"fmt"

	"sigs.k8s.io/yaml"
)

//go:embed gha-runner-scale-set/experimental-keys.yaml
var experimentalKeys []byte

// ExperimentalKeys returns the keys of ARC's chart gha-runner-scale-set-experimental, as paths with dots, with what replaces each in the
// chart gha-runner-scale-set.
func ExperimentalKeys() (map[string]string, error) {
	var keys map[string]string
	if err := yaml.UnmarshalStrict(experimentalKeys, &keys); err != nil {
		return nil, fmt.Errorf("read experimental-keys.yaml: %w", err)
	}
	return keys, nil
}
