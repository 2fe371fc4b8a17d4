package arc

import (
	"bytes"
	_ "embed" // the Deployment
	"text/template"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

//go:embed controller.yaml
var controller string

// Controller returns the Deployment of ARC's controller in a namespace, for a release that is called arc.
func Controller(namespace string, replicas int) (*unstructured.Unstructured, error) {
	var text bytes.Buffer
	err := template.Must(template.New("controller").Parse(controller)).Execute(&text, struct {
		Namespace string
		Replicas  int
	}{namespace, replicas})
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict(text.Bytes(), &object.Object); err != nil {
		return nil, err
	}
	object.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	return object, nil
}
