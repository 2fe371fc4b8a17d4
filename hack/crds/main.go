// Command crds makes the CustomResourceDefinitions that controller-gen writes small enough to be applied and lenient
// enough for stored objects. hack/generate.sh runs it between controller-gen and the copying of the CRDs into the
// chart.
//
// The schema of a pod template is 99 % of that of an AutoscalingRunnerSet, and most of it is descriptions. With them
// the CRD exceeds the 256 KiB that `kubectl apply` can keep in its annotation. `kubectl explain pod.spec` has the same
// descriptions, so they are removed; types, enums and required fields stay.
//
//	crds DIR    rewrites every *.yaml in DIR
package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// maxSize is the largest compact JSON form of a CRD in bytes: client-side apply allows 262,144 for all annotations, and
// the chart adds some of its own.
const maxSize = 200 << 10

// quantityPattern matches what Go reads as a quantity. controller-gen's pattern does not limit the exponent: with one
// of 19 digits, Go can't decode the object, so that nobody can list its kind any more, and with one of nine digits it
// computes for minutes.
const quantityPattern = `^(\+|-)?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE](\+|-)?[0-9]{1,2})?$`

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
	definitions := map[string]*apiextensionsv1.CustomResourceDefinition{}
	var pod apiextensionsv1.JSONSchemaProps
	for _, file := range files {
		crd, err := readDefinition(file)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		definitions[file] = crd
		if crd.Spec.Names.Kind == "AutoscalingRunnerSet" {
			pod = crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["template"].Properties["spec"]
		}
	}
	for file, crd := range definitions {
		limitQuantities(crd, pod)
		if err := write(file, crd); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

// readDefinition returns the trimmed definition in a file.
func readDefinition(file string) (*apiextensionsv1.CustomResourceDefinition, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(raw, crd); err != nil {
		return nil, err
	}
	trim(crd)
	return crd, nil
}

func write(file string, crd *apiextensionsv1.CustomResourceDefinition) error {
	encoded, err := encode(crd)
	if err != nil {
		return err
	}
	return os.WriteFile(file, encoded, 0o644)
}

// encode returns the definition as YAML. It fails if the definition is too large to be applied.
func encode(crd *apiextensionsv1.CustomResourceDefinition) ([]byte, error) {
	encoded, err := yaml.Marshal(crd)
	if err != nil {
		return nil, err
	}
	// The Go type always has a status. If it were applied, its zero value would overwrite the API server's.
	encoded = bytes.Split(encoded, []byte("\nstatus:\n"))[0]
	encoded = append([]byte("---\n"), append(encoded, '\n')...)
	compact, err := yaml.YAMLToJSON(encoded)
	if err != nil {
		return nil, err
	}
	if len(compact) > maxSize {
		return nil, fmt.Errorf("%d bytes as JSON, at most %d are allowed so that it can be applied", len(compact),
			maxSize)
	}
	return encoded, nil
}

// trim removes from the definition's pod and claim templates what only takes up space or refuses too much.
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
		if templates, found := spec.Properties["volumeClaimTemplates"]; found {
			properties := templates.Items.Schema.Properties
			ours := properties["spec"]
			claim := trimmed(ours)
			claim.Description, claim.XValidations = ours.Description, ours.XValidations
			properties["spec"] = claim
		}
	}
}

// trimmed returns the schema without descriptions and validation rules. The API server validates the pods themselves,
// and a set must not become impossible to change because of what its template contains.
func trimmed(schema apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
	schema.Description = ""
	schema.XValidations = nil
	schema = readable(schema)
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

// readable returns the schema without values that the API server would accept and Go can't decode. In Go, a port or a
// percentage is an int32 or a string, and a quantity is a string or any number.
func readable(schema apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
	switch {
	case schema.XIntOrString && schema.Pattern != "":
		schema.Pattern = quantityPattern
	case schema.Minimum == nil && (schema.XIntOrString || schema.Format == "int32"):
		schema.Minimum, schema.Maximum = ptr.To[float64](math.MinInt32), ptr.To[float64](math.MaxInt32)
	}
	return schema
}

// withoutListType allows duplicate entries in a list. ARC does so for resource claims, so stored objects may have some.
func withoutListType(schema apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
	schema.XListType = nil
	schema.XListMapKeys = nil
	return schema
}
