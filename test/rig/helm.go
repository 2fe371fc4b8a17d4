package rig

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/internal/testkube"
)

// helm runs Helm against the cluster.
type helm struct{ program, kubeconfig string }

func newHelm(t testing.TB, kubeconfig string) helm {
	t.Helper()
	return helm{program: kubernetesProgram(t, "helm"), kubeconfig: kubeconfig}
}

// Kubectl runs kubectl as the cluster's administrator and returns what it writes to stdout. If it fails, the error contains its
// stderr.
func (r *Rig) Kubectl(arguments ...string) (string, error) {
	r.t.Helper()
	command := exec.CommandContext(r.t.Context(), kubernetesProgram(r.t, "kubectl"), append(arguments, "--kubeconfig", r.Cluster.AdminKubeconfig())...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	stdout, err := command.Output()
	if err != nil {
		return string(stdout), fmt.Errorf("kubectl %s: %w: %s", strings.Join(arguments, " "), err, stderr.String())
	}
	return string(stdout), nil
}

// HelmAs runs Helm with another account's kubeconfig and returns what it prints.
func (r *Rig) HelmAs(kubeconfig string, arguments ...string) (string, error) {
	r.t.Helper()
	return helm{program: r.helm.program, kubeconfig: kubeconfig}.attempt(arguments...)
}

// SetChart is the directory of the chart that scale sets are installed with.
func (r *Rig) SetChart() string { return r.options.Product.Set }

// kubernetesProgram returns the path of a program that hack/kubernetes.sh builds.
func kubernetesProgram(t testing.TB, name string) string {
	t.Helper()
	directory, err := testkube.Programs()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(directory, name)
}

func (h helm) install(t testing.TB, release, chart, namespace string, values Values) {
	t.Helper()
	h.run(t, "install", release, chart, "--namespace", namespace, "--values", valuesFile(t, values))
}

func (h helm) upgrade(t testing.TB, release, chart, namespace string, values Values) {
	t.Helper()
	h.run(t, "upgrade", release, chart, "--namespace", namespace, "--values", valuesFile(t, values))
}

func (h helm) uninstall(t testing.TB, release, namespace string, more ...string) {
	t.Helper()
	h.run(t, append([]string{"uninstall", release, "--namespace", namespace}, more...)...)
}

// template returns the objects that a chart renders, without hooks.
func (h helm) template(t testing.TB, release, chart, namespace string, values Values) []*unstructured.Unstructured {
	t.Helper()
	return decode(t, h.run(t, "template", release, chart, "--namespace", namespace, "--no-hooks", "--values", valuesFile(t, values)))
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

// run returns what helm prints. The test fails if helm does.
func (h helm) run(t testing.TB, arguments ...string) string {
	t.Helper()
	output, err := h.attempt(arguments...)
	if err != nil {
		t.Fatal(err)
	}
	return output
}

// attempt returns what helm prints or, if helm fails, an error that contains it. It does not use the test's context, because
// charts are uninstalled after that has ended.
func (h helm) attempt(arguments ...string) (string, error) {
	command := exec.Command(h.program, append(arguments, "--kubeconfig", h.kubeconfig)...)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("helm %s: %w\n%s%s", strings.Join(arguments, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String(), nil
}

func valuesFile(t testing.TB, values Values) string {
	t.Helper()
	content, err := yaml.Marshal(values)
	if err != nil {
		t.Fatalf("write values: %v", err)
	}
	file, err := os.CreateTemp("", "rig-values-*.yaml")
	if err != nil {
		t.Fatalf("write values: %v", err)
	}
	t.Cleanup(func() { _ = os.Remove(file.Name()) })
	if _, err := file.Write(content); err != nil {
		t.Fatalf("write values: %v", err)
	}
	if err := file.Close(); err != nil {
		t.Fatalf("write values: %v", err)
	}
	return file.Name()
}
