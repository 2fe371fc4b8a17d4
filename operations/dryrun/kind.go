package dryrun

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	openapierrors "k8s.io/kube-openapi/pkg/validation/errors"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/charts"
)

// Checks by the CustomResourceDefinition of the kind, with the API server's own packages.

// definition is the schema that a CustomResourceDefinition has for its objects.
type definition struct {
	schema *schema.Structural
	// whole and pod check an object and the spec of its pods, without the rules. To make one of them takes longer than
	// to check an object with it, and it may check several at a time, as the API server's does.
	whole, pod *validate.SchemaValidator
	// rules are the schema's rules in CEL.
	rules *cel.Validator
}

func checkSet(content []byte) ([]Fault, error) {
	kind, err := setDefinition()
	if err != nil {
		return nil, err
	}
	var given map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(content, &given); err != nil {
		return nil, err
	}
	dropNulls(given)
	var faults []Fault
	metadata := struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}{}
	unknown, err := kjson.UnmarshalStrict(content, &metadata, kjson.DisallowUnknownFields)
	if err != nil {
		faults = append(faults, Fault{Message: err.Error()})
	}
	for _, fault := range unknownFields(unknown) {
		if strings.HasPrefix(fault.Path, "metadata.") {
			faults = append(faults, fault)
		}
	}
	for _, path := range pruning.PruneWithOptions(given, kind.schema, true,
		schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}) {
		faults = append(faults, Fault{Path: path, Message: dropped, Unknown: true})
	}
	refused := kind.refuses(given)
	return append(faults, append(refused, kind.breaks(given, refused)...)...), nil
}

// refuses returns the faults that the schema finds in an object, without those of its rules.
func (d *definition) refuses(object map[string]any) (faults []Fault) {
	for _, duplicate := range listtype.ValidateListSetsAndMaps(nil, d.schema, object) {
		faults = append(faults, Fault{Path: duplicate.Field, Message: duplicate.ErrorBody()})
	}
	invalid := d.whole.Validate(object).Errors
	if slices.ContainsFunc(invalid, isPlaced) {
		// Errors without a place only say that there are others, as in "must validate at least one schema".
		invalid = slices.DeleteFunc(invalid, func(err error) bool { return !isPlaced(err) })
	}
	for _, err := range invalid {
		faults = append(faults, faultOf(err))
	}
	return faults
}

// breaks returns the rules that an object breaks. If the schema refuses a place or a part of it, a rule about the place
// only says that it can't be evaluated: such rules are left out.
func (d *definition) breaks(object map[string]any, refused []Fault) (faults []Fault) {
	broken, _ := d.rules.Validate(context.Background(), nil, d.schema, object, nil, celconfig.RuntimeCELCostBudget)
	for _, rule := range broken {
		around := func(fault Fault) bool { return within(fault.Path, rule.Field) || within(rule.Field, fault.Path) }
		if !slices.ContainsFunc(refused, around) {
			faults = append(faults, Fault{Path: rule.Field, Message: rule.ErrorBody()})
		}
	}
	return faults
}

// within reports whether a path leads to a place or to a part of it.
func within(path, place string) bool {
	rest, found := strings.CutPrefix(path, place)
	return found && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// isPlaced reports whether an error is about one place.
func isPlaced(err error) bool {
	var invalid *openapierrors.Validation
	return errors.As(err, &invalid) && invalid.Name != ""
}

func faultOf(err error) Fault {
	var invalid *openapierrors.Validation
	if !errors.As(err, &invalid) {
		return Fault{Message: err.Error()}
	}
	path := strings.TrimPrefix(invalid.Name, ".")
	return Fault{Path: path, Message: strings.TrimPrefix(err.Error(), invalid.Name+" in body ")}
}

// dropNulls removes fields that are null, as the API server does: no field of the kind may be null.
func dropNulls(value any) {
	switch given := value.(type) {
	case map[string]any:
		for key, part := range given {
			if part == nil {
				delete(given, key)
			}
			dropNulls(part)
		}
	case []any:
		for _, part := range given {
			dropNulls(part)
		}
	}
}

// setDefinition returns the kind's definition, from the chart that installs it.
var setDefinition = sync.OnceValues(func() (*definition, error) {
	written, err := readDefinition()
	if err != nil {
		return nil, err
	}
	for _, version := range written.Spec.Versions {
		if version.Name != v1alpha1.GroupVersion.Version || version.Schema == nil {
			continue
		}
		internal := &apiextensions.JSONSchemaProps{}
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(version.Schema.OpenAPIV3Schema,
			internal, nil); err != nil {
			return nil, err
		}
		structural, err := schema.NewStructural(internal)
		if err != nil {
			return nil, err
		}
		pod := structural.Properties["spec"].Properties["template"].Properties["spec"]
		return &definition{
			schema: structural,
			whole:  validate.NewSchemaValidator(structural.ToKubeOpenAPI(), nil, "", strfmt.Default),
			pod:    validate.NewSchemaValidator(pod.ToKubeOpenAPI(), nil, "", strfmt.Default),
			rules:  cel.NewValidator(structural, true, celconfig.PerCallLimit),
		}, nil
	}
	return nil, fmt.Errorf("the CustomResourceDefinition of %s has no version %s", setKind, v1alpha1.GroupVersion.Version)
})

// setTemplate is the template of the kind's CustomResourceDefinition.
const setTemplate = "templates/crds/actions.github.com_autoscalingrunnersets.yaml"

// readDefinition renders only this template of the chart, which takes a third of the time.
func readDefinition() (*apiextensionsv1.CustomResourceDefinition, error) {
	whole, err := loaded[charts.Controller]()
	if err != nil {
		return nil, err
	}
	part := &chartv2.Chart{Metadata: whole.Metadata, Values: whole.Values}
	for _, file := range whole.Templates {
		if file.Name == setTemplate || strings.HasSuffix(file.Name, ".tpl") {
			part.Templates = append(part.Templates, file)
		}
	}
	values, err := util.ToRenderValuesWithSchemaValidation(part, nil, common.ReleaseOptions{}, capabilities(nil), true)
	if err != nil {
		return nil, err
	}
	texts, err := engine.Render(part, values)
	if err != nil {
		return nil, err
	}
	found := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal([]byte(texts[charts.Controller+"/"+setTemplate]), found); err != nil {
		return nil, fmt.Errorf("read the CustomResourceDefinition of %s: %w", setKind, err)
	}
	return found, nil
}
