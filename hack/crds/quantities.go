package main

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// schemaless has, by kind, the field that holds a pod's spec without a schema, and the path from that field to the
// pod's spec.
var schemaless = map[string]struct{ field, pod []string }{
	"EphemeralRunner":     {field: []string{"spec", "spec"}},
	"EphemeralRunnerSet":  {field: []string{"spec", "ephemeralRunnerSpec", "spec"}},
	"AutoscalingListener": {field: []string{"spec", "template"}, pod: []string{"spec"}},
}

// limitQuantities makes the API server refuse quantities that Go would compute for minutes, wherever a pod's spec has
// no schema otherwise. pod is the schema of a pod's spec.
func limitQuantities(crd *apiextensionsv1.CustomResourceDefinition, pod apiextensionsv1.JSONSchemaProps) {
	place, found := schemaless[crd.Spec.Names.Kind]
	quantities := quantitiesOf(pod)
	if !found || quantities == nil {
		return
	}
	for i := len(place.pod) - 1; i >= 0; i-- {
		quantities = open(apiextensionsv1.JSONSchemaProps{
			Properties: map[string]apiextensionsv1.JSONSchemaProps{place.pod[i]: *quantities},
		})
	}
	for _, version := range crd.Spec.Versions {
		set(version.Schema.OpenAPIV3Schema, place.field, quantities.Properties)
	}
}

// set sets the properties of the field at the path.
func set(
	schema *apiextensionsv1.JSONSchemaProps, path []string, properties map[string]apiextensionsv1.JSONSchemaProps,
) {
	if len(path) == 0 {
		schema.Properties = properties
		return
	}
	below := schema.Properties[path[0]]
	set(&below, path[1:], properties)
	schema.Properties[path[0]] = below
}

// quantitiesOf returns the part of a schema that leads to quantities, nil if there is none. Everything else is allowed,
// null included, because Go writes it for an empty list.
func quantitiesOf(schema apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	if schema.XIntOrString && schema.Pattern == quantityPattern {
		return &schema
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		if items := quantitiesOf(*schema.Items.Schema); items != nil {
			return &apiextensionsv1.JSONSchemaProps{
				Type:     "array",
				Nullable: true,
				Items:    &apiextensionsv1.JSONSchemaPropsOrArray{Schema: items},
			}
		}
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		if values := quantitiesOf(*schema.AdditionalProperties.Schema); values != nil {
			return &apiextensionsv1.JSONSchemaProps{Type: "object", Nullable: true,
				AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Schema: values}}
		}
	}
	properties := map[string]apiextensionsv1.JSONSchemaProps{}
	for name, property := range schema.Properties {
		if below := quantitiesOf(property); below != nil {
			properties[name] = *below
		}
	}
	if len(properties) == 0 {
		return nil
	}
	return open(apiextensionsv1.JSONSchemaProps{Properties: properties})
}

// open returns the schema of an object that may have other fields as well.
func open(schema apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	schema.Type, schema.Nullable, schema.XPreserveUnknownFields = "object", true, new(true)
	return &schema
}
