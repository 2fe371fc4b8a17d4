package commands

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What runners will wait for is known before the first job, if the cluster's StorageClasses are.
func TestValidateComparesClaimsWithStorageClasses(t *testing.T) {
	const (
		set      = "githubConfigUrl: https://github.com/acme\ngithubConfigSecret: github\n"
		work     = "containerMode:\n  type: kubernetes\n  kubernetesModeWorkVolumeClaim:\n    accessModes: [ReadWriteOnce]\n    resources: {requests: {storage: 1Gi}}\n"
		class    = "    storageClassName: fast\n"
		list     = "apiVersion: v1\nkind: List\nitems:\n"
		fast     = "- {apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: fast}}\n"
		standard = "- {apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: fast, annotations: {storageclass.kubernetes.io/is-default-class: 'true'}}}\n"
	)
	for title, test := range map[string]struct {
		set, classes string
		code         int
		want         string
	}{
		"no default":     {set + work, list + fast, ExitProblems, "VolumeUnbound: runners will wait for a volume unless somebody makes it by hand: work names no storageClassName"},
		"none at all":    {set + work, "apiVersion: v1\nkind: List\nitems: []\n", ExitProblems, "VolumeUnbound"},
		"a default":      {set + work, list + standard, ExitFine, "Nothing is wrong"},
		"its class":      {set + work + class, list + fast, ExitFine, "Nothing is wrong"},
		"one object":     {set + work + class, "kind: StorageClass\nmetadata: {name: fast}\n", ExitFine, "Nothing is wrong"},
		"no such class":  {set + work + "    storageClassName: slow\n", list + standard, ExitProblems, "work names StorageClass slow, which doesn't exist"},
		"no claim":       {set, list, ExitFine, "Nothing is wrong"},
		"something else": {set, "kind: List\nitems: [{kind: Secret, metadata: {name: a}}]\n", ExitUnable, "kubectl get storageclasses -o yaml"},
		"values":         {set, set, ExitUnable, "kubectl get storageclasses -o yaml"},
		"nothing":        {set, "", ExitUnable, "kubectl get storageclasses -o yaml"},
	} {
		t.Run(title, func(t *testing.T) {
			directory := t.TempDir()
			values, classes := filepath.Join(directory, "values.yaml"), filepath.Join(directory, "classes.yaml")
			for path, content := range map[string]string{values: test.set, classes: test.classes} {
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			said := &bytes.Buffer{}
			code := Main(t.Context(), []string{"validate", "-f", values, "--storage-classes", classes}, said, said)
			if code != test.code || !strings.Contains(said.String(), test.want) {
				t.Errorf("it ends with %d, and says:\n%s", code, said)
			}
			if code := Main(t.Context(), []string{"validate", "-f", values}, said, said); code != ExitFine {
				t.Errorf("without them it ends with %d", code)
			}
		})
	}
}
