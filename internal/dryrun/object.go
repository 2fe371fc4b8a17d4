package dryrun

import (
	"encoding/json"
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
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
	openapierrors "k8s.io/kube-openapi/pkg/validation/errors"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/charts"
)

// dropped is what is said of a field that the API server doesn't know: unless it is asked to be strict, it accepts the object without it.
const dropped = "Kubernetes has no such field and drops it"

// setKind is the kind that is checked by the schema of its CustomResourceDefinition, other than by the rules that it has in CEL.
const setKind = "AutoscalingRunnerSet"

// CheckObject returns what the API server, asked to be strict, would say of an object: fields it doesn't know, wrong types, names, and for an
// AutoscalingRunnerSet whatever else its schema refuses. If nothing of that is wrong, it goes on with what would be said of the pods that are
// made of the object. It knows nothing of other kinds that aren't Kubernetes' own.
func CheckObject(object map[string]any) (faults []Fault, err error) {
	content, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	if object["kind"] == setKind {
		faults, err = checkSet(content)
	} else {
		faults = decodeStrictly(content)
	}
	faults = append(faults, checkMetadata(object)...)
	if err != nil || slices.ContainsFunc(faults, func(f Fault) bool { return !f.Unknown }) {
		return faults, err
	}
	ofPods, err := checkPods(object)
	return append(faults, ofPods...), err
}

// templates are where objects have templates of pods, by kind.
var templates = map[string][]struct {
	path    []string
	partial bool
}{
	setKind:       {{path: []string{"spec", "template"}}, {path: []string{"spec", "listenerTemplate"}, partial: true}},
	"DaemonSet":   {{path: []string{"spec", "template"}}},
	"Deployment":  {{path: []string{"spec", "template"}}},
	"PodTemplate": {{path: []string{"template"}, partial: true}},
}

// checkPods returns what the API server would say of the pods that are made of an object.
func checkPods(object map[string]any) (faults []Fault, err error) {
	for _, template := range templates[text(object["kind"])] {
		given, found, err := unstructured.NestedFieldNoCopy(object, append(slices.Clone(template.path), "spec")...)
		if !found || err != nil {
			continue
		}
		at := field.NewPath(template.path[0], append(template.path[1:], "spec")...)
		beyond, err := checkQuantities(given, at)
		if err != nil || len(beyond) > 0 {
			return append(faults, beyond...), err
		}
		content, err := json.Marshal(given)
		if err != nil {
			return nil, err
		}
		pod := podSpec{partial: template.partial}
		claims, _, _ := unstructured.NestedSlice(object, "spec", "volumeClaimTemplates") // the schema says what is none
		for _, claim := range claims {
			if fields, is := claim.(map[string]any); is {
				name, _, _ := unstructured.NestedString(fields, "metadata", "name")
				pod.claims = append(pod.claims, name)
			}
		}
		if json.Unmarshal(content, &pod.PodSpec) != nil { // which has been said
			continue
		}
		for _, rule := range podRules {
			for _, refused := range rule(pod, at) {
				faults = append(faults, Fault{Path: refused.Field, Message: refused.ErrorBody()})
			}
		}
	}
	slices.SortFunc(faults, func(a, b Fault) int { return strings.Compare(a.String(), b.String()) })
	return faults, nil
}

// checkQuantities returns the quantities in the spec of a pod that Go, and so the API server, would compute for minutes.
func checkQuantities(spec any, at *field.Path) (faults []Fault, err error) {
	structural, err := setSchema()
	if err != nil {
		return nil, err
	}
	pod := structural.Properties["spec"].Properties["template"].Properties["spec"]
	for _, err := range validate.NewSchemaValidator(pod.ToKubeOpenAPI(), nil, at.String(), strfmt.Default).Validate(spec).Errors {
		var invalid *openapierrors.Validation
		if errors.As(err, &invalid) && invalid.Code() == openapierrors.PatternFailCode {
			faults = append(faults, faultOf(err))
		}
	}
	return faults, nil
}

// checkMetadata checks names, labels and annotations: the object's own, and those of what is made of it.
func checkMetadata(object map[string]any) (faults []Fault) {
	if own, _ := object["metadata"].(map[string]any); text(own["name"]) == "" && text(own["generateName"]) == "" && object["kind"] != "PodTemplate" {
		faults = append(faults, Fault{Path: "metadata.name", Message: "Required value: name or generateName is required"})
	}
	visit(object, nil, func(at []string, value any) {
		if len(at) < 2 || !strings.HasSuffix(strings.ToLower(at[len(at)-2]), "metadata") {
			return
		}
		path := joinSteps(at)
		var invalid field.ErrorList
		switch given, texts := text(value), textsOf(value); at[len(at)-1] {
		case "labels":
			invalid = metavalidation.ValidateLabels(texts, field.NewPath(path))
		case "annotations":
			invalid = apivalidation.ValidateAnnotations(texts, field.NewPath(path))
		case "name", "namespace":
			rule := apivalidation.NameIsDNSSubdomain
			if at[len(at)-1] == "namespace" {
				rule = apivalidation.ValidateNamespaceName
			}
			for _, message := range rule(given, false) {
				if given != "" && len(at) == 2 && !named[text(object["kind"])] {
					invalid = append(invalid, field.Invalid(field.NewPath(path), given, message))
				}
			}
		}
		for _, one := range invalid {
			faults = append(faults, Fault{Path: path, Message: one.ErrorBody()})
		}
	})
	return faults
}

// named are kinds whose names have other rules.
var named = map[string]bool{"Role": true, "RoleBinding": true, "ClusterRole": true, "ClusterRoleBinding": true}

func text(value any) string {
	is, _ := value.(string)
	return is
}

func textsOf(value any) map[string]string {
	given, _ := value.(map[string]any)
	texts := make(map[string]string, len(given))
	for key, one := range given {
		texts[key] = text(one)
	}
	return texts
}

var strictCodecs = sync.OnceValue(func() runtime.Decoder {
	return serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
})

func decodeStrictly(content []byte) []Fault {
	_, _, err := strictCodecs().Decode(content, nil, nil)
	if err == nil || runtime.IsNotRegisteredError(err) || runtime.IsMissingKind(err) {
		return nil
	}
	if strict, is := runtime.AsStrictDecodingError(err); is {
		return unknownFields(strict.Errors())
	}
	return []Fault{{Message: err.Error()}}
}

func unknownFields(found []error) (faults []Fault) {
	for _, err := range found {
		var at kjson.FieldError
		if errors.As(err, &at) {
			faults = append(faults, Fault{Path: at.FieldPath(), Message: dropped, Unknown: true})
			continue
		}
		faults = append(faults, Fault{Message: err.Error()})
	}
	return faults
}

// CheckPodTemplate checks a pod template that isn't part of an object, and that needn't be complete.
func CheckPodTemplate(template any) ([]Fault, error) {
	return CheckObject(map[string]any{"apiVersion": "v1", "kind": "PodTemplate", "template": template})
}

func checkSet(content []byte) ([]Fault, error) {
	structural, err := setSchema()
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
	for _, path := range pruning.PruneWithOptions(given, structural, true, schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}) {
		faults = append(faults, Fault{Path: path, Message: dropped, Unknown: true})
	}
	for _, duplicate := range listtype.ValidateListSetsAndMaps(nil, structural, given) {
		faults = append(faults, Fault{Path: duplicate.Field, Message: duplicate.ErrorBody()})
	}
	invalid := validate.NewSchemaValidator(structural.ToKubeOpenAPI(), nil, "", strfmt.Default).Validate(given).Errors
	if slices.ContainsFunc(invalid, isPlaced) { // the others only say that there is one: "must validate at least one schema"
		invalid = slices.DeleteFunc(invalid, func(err error) bool { return !isPlaced(err) })
	}
	for _, err := range invalid {
		faults = append(faults, faultOf(err))
	}
	return faults, nil
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

// dropNulls removes the fields that are null, as the API server does: none of the kind's may be.
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

// setSchema is the schema of the kind, from the chart that installs it.
var setSchema = sync.OnceValues(func() (*schema.Structural, error) {
	definition, err := definition()
	if err != nil {
		return nil, err
	}
	for _, version := range definition.Spec.Versions {
		if version.Name != v1alpha1.GroupVersion.Version || version.Schema == nil {
			continue
		}
		internal := &apiextensions.JSONSchemaProps{}
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(version.Schema.OpenAPIV3Schema, internal, nil); err != nil {
			return nil, err
		}
		return schema.NewStructural(internal)
	}
	return nil, fmt.Errorf("the CustomResourceDefinition of %s has no version %s", setKind, v1alpha1.GroupVersion.Version)
})

// setTemplate is the template of its CustomResourceDefinition.
const setTemplate = "templates/crds/actions.github.com_autoscalingrunnersets.yaml"

// definition renders nothing else of the chart, which takes a third of the time.
func definition() (*apiextensionsv1.CustomResourceDefinition, error) {
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
	values, err := util.ToRenderValuesWithSchemaValidation(part, nil, common.ReleaseOptions{}, capabilities(), true)
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
