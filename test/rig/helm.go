package rig

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// helm runs Helm against the cluster.
type helm struct{ program, kubeconfig string }

// newHelm finds the helm that hack/kubernetes.sh builds, or that of the directory HARRIER_KUBERNETES names.
func newHelm(t testing.TB, kubeconfig string) helm {
	t.Helper()
	directory := os.Getenv("HARRIER_KUBERNETES")
	if directory == "" {
		output, err := exec.Command(filepath.Join(root, "hack", "kubernetes.sh")).Output()
		if err != nil {
			t.Fatalf("build helm with hack/kubernetes.sh: %v", err)
		}
		directory = strings.TrimSpace(string(output))
	}
	return helm{program: filepath.Join(directory, "helm"), kubeconfig: kubeconfig}
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

// run doesn't use the test's context: charts are uninstalled when it has ended.
func (h helm) run(t testing.TB, arguments ...string) {
	t.Helper()
	command := exec.Command(h.program, append(arguments, "--kubeconfig", h.kubeconfig)...)
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	if err := command.Run(); err != nil {
		t.Fatalf("helm %s: %v\n%s", strings.Join(arguments, " "), err, output.String())
	}
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
