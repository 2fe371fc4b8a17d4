package dryrun

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
	openapierrors "k8s.io/kube-openapi/pkg/validation/errors"
	kjson "sigs.k8s.io/json"
)

// dropped is the message about a field that the API server doesn't know. Unless it is asked to be strict, it accepts
// the object and drops the field.
const dropped = "Kubernetes has no such field and drops it"

// setKind is the kind that is checked by its CustomResourceDefinition.
const setKind = "AutoscalingRunnerSet"

// CheckObject returns the faults that the API server, asked to be strict, would find in an object: fields it doesn't
// know, wrong types, names, and for an AutoscalingRunnerSet everything else that its schema refuses. If it finds none
// of these, CheckObject goes on with the pods that are made of the object. Of kinds that aren't Kubernetes' own it
// knows only AutoscalingRunnerSet.
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

// templates has, by kind, the paths of an object's pod templates.
var templates = map[string][]struct {
	path    []string
	partial bool
}{
	setKind:       {{path: []string{"spec", "template"}}, {path: []string{"spec", "listenerTemplate"}, partial: true}},
	"DaemonSet":   {{path: []string{"spec", "template"}}},
	"Deployment":  {{path: []string{"spec", "template"}}},
	"PodTemplate": {{path: []string{"template"}, partial: true}},
}

// checkPods returns the faults that the API server would find in the pods that are made of an object.
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
		pod := podSpec{partial: template.partial}
		if !decode(given, &pod.PodSpec) { // its types are wrong: checkSet or decodeStrictly has said so
			continue
		}
		if claims, found, err := unstructured.NestedFieldNoCopy(object, "spec", "volumeClaimTemplates"); found &&
			err == nil && !pod.partial {
			decode(claims, &pod.claims)
		}
		refused, err := pod.refused(at)
		if err != nil {
			return nil, err
		}
		faults = append(faults, refused...)
	}
	slices.SortFunc(faults, func(a, b Fault) int { return strings.Compare(a.String(), b.String()) })
	return faults, nil
}

// decode reports whether a part of an object has its types of the API.
func decode(part, into any) bool {
	content, err := json.Marshal(part)
	return err == nil && json.Unmarshal(content, into) == nil
}

// checkQuantities returns the quantities in the spec of a pod that Go, and so the API server, would compute for
// minutes.
func checkQuantities(spec any, at *field.Path) (faults []Fault, err error) {
	kind, err := setDefinition()
	if err != nil {
		return nil, err
	}
	for _, err := range kind.pod.Validate(spec).Errors {
		var invalid *openapierrors.Validation
		if errors.As(err, &invalid) && invalid.Code() == openapierrors.PatternFailCode {
			fault := faultOf(err)
			fault.Path = at.String() + "." + fault.Path
			faults = append(faults, fault)
		}
	}
	return faults, nil
}

// checkMetadata checks names, labels and annotations: the object's own, and those in its templates.
func checkMetadata(object map[string]any) (faults []Fault) {
	if own, _ := object["metadata"].(map[string]any); text(own["name"]) == "" && text(own["generateName"]) == "" &&
		object["kind"] != "PodTemplate" {
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
