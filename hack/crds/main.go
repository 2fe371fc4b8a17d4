// Command crds makes the CustomResourceDefinitions that controller-gen wrote small and forgiving enough to be used.
//
// A pod template's schema is 99 % of an AutoscalingRunnerSet's, and most of that is descriptions: with them the object is
// over the 256 KiB that `kubectl apply` can keep in its annotation. They say what `kubectl explain pod.spec` says as well,
// so they go; types, enums and required fields stay.
//
//	crds DIR    rewrites every *.yaml in DIR
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// maxSize is the largest compact JSON form of a CRD in bytes: client-side apply has 262,144 for all annotations, and the
// chart adds some of its own.
const maxSize = 200 << 10

// podTemplates are the fields of a spec that hold a whole pod template.
var podTemplates = []string{"template", "listenerTemplate"}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: crds DIR")
		os.Exit(2)
	}
	if err := rewriteAll(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "crds:", err)
		os.Exit(1)
	}
}

func rewriteAll(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := rewrite(file); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

func rewrite(file string) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(raw, crd); err != nil {
		return err
	}
	trim(crd)
	encoded, err := encode(crd)
	if err != nil {
		return err
	}
	return os.WriteFile(file, encoded, 0o644)
}

// encode returns the definition as YAML, and fails where it is too large to be applied.
func encode(crd *apiextensionsv1.CustomResourceDefinition) ([]byte, error) {
	encoded, err := yaml.Marshal(crd)
	if err != nil {
		return nil, err
	}
	// The zero status that the Go type always carries would be applied over the API server's.
	encoded = bytes.Split(encoded, []byte("\nstatus:\n"))[0]
	encoded = append([]byte("---\n"), append(encoded, '\n')...)
	compact, err := yaml.YAMLToJSON(encoded)
	if err != nil {
		return nil, err
	}
	if len(compact) > maxSize {
		return nil, fmt.Errorf("%d bytes as JSON, at most %d can be applied", len(compact), maxSize)
	}
	return encoded, nil
}

// trim removes from the pod templates of the definition what only costs space or refuses too much.
func trim(crd *apiextensionsv1.CustomResourceDefinition) {
	for _, version := range crd.Spec.Versions {
		spec := version.Schema.OpenAPIV3Schema.Properties["spec"]
		for _, name := range podTemplates {
			if template, found := spec.Properties[name]; found {
				for field, schema := range template.Properties {
					template.Properties[field] = trimmed(schema)
				}
				spec.Properties[name] = template
			}
		}
	}
}

// trimmed returns the schema without descriptions and without rules: the API server judges the pod itself, and a set
// must not become impossible to change because of what is in its template.
func trimmed(schema apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
	schema.Description = ""
	schema.XValidations = nil
	for name, property := range schema.Properties {
		if name == "claims" {
			property = withoutListType(property)
		}
		schema.Properties[name] = trimmed(property)
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		*schema.Items.Schema = trimmed(*schema.Items.Schema)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		*schema.AdditionalProperties.Schema = trimmed(*schema.AdditionalProperties.Schema)
	}
	return schema
}

// withoutListType lets a list hold an entry twice. ARC does so for resource claims, so stored objects may need it.
func withoutListType(schema apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
	schema.XListType = nil
	schema.XListMapKeys = nil
	return schema
}
