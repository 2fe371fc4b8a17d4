package rig

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/hack/installation"
	"github.com/harrier-ci/harrier/internal/testkube"
)

// tools returns kubectl and helm of hack/kubernetes.sh for a cluster.
func tools(t testing.TB, kubeconfig string) installation.Tools {
	t.Helper()
	directory, err := testkube.Programs()
	if err != nil {
		t.Fatal(err)
	}
	return installation.Tools{
		Programs: directory, Kubeconfig: kubeconfig,
		// They end before it would pay to collect their garbage, which is a third of helm's CPU time.
		Environment: []string{"GOGC=off"},
	}
}

// Kubectl runs kubectl as the cluster's administrator and returns its stdout. If it fails, the error
// contains its stderr.
func (r *Rig) Kubectl(arguments ...string) (string, error) {
	r.t.Helper()
	return r.tools.Kubectl(r.t.Context(), arguments...)
}

// HelmAs runs Helm with another account's kubeconfig and returns its output.
func (r *Rig) HelmAs(kubeconfig string, arguments ...string) (string, error) {
	r.t.Helper()
	return tools(r.t, kubeconfig).Helm(context.Background(), arguments...)
}

// SetChart returns the directory of the chart of scale sets.
func (r *Rig) SetChart() string { return r.options.Product.Set }

// helm runs Helm and returns its output. The test fails if Helm does. It does not use the test's context: charts are
// uninstalled after that has ended.
func (r *Rig) helm(arguments ...string) string {
	r.t.Helper()
	output, err := r.tools.Helm(context.Background(), arguments...)
	if err != nil {
		r.t.Fatal(err)
	}
	return output
}

// helmWith does the same with values.
func (r *Rig) helmWith(values Values, arguments ...string) string {
	r.t.Helper()
	output, err := r.tools.HelmWith(context.Background(), values, arguments...)
	if err != nil {
		r.t.Fatal(err)
	}
	return output
}

// template returns the objects that a chart renders, without hooks.
func (r *Rig) template(release, chart, namespace string, values Values) []*unstructured.Unstructured {
	r.t.Helper()
	return decode(r.t, r.helmWith(values, "template", release, chart, "--namespace", namespace, "--no-hooks"))
}

// decode reads the objects in what Helm has rendered.
func decode(t testing.TB, rendered string) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	for document := range strings.SplitSeq(rendered, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatalf("decode what helm has rendered: %v\n%s", err, document)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
	return objects
}
