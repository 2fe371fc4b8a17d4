package charts

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/operations/commands"
)

// Helm and the API server take the output of `manager convert` for manifests of ARC's legacy mode: every object, and
// the runner's pod.
func TestConvertedValues(t *testing.T) {
	t.Parallel()
	manifests, err := filepath.Glob("../../operations/convert/testdata/*.yaml")
	if err != nil || len(manifests) < 25 {
		t.Fatalf("%d manifests, %v", len(manifests), err)
	}
	cluster := testkube.Shared(t)
	namespace := cluster.NewNamespace(t)
	for _, file := range manifests {
		directory := t.TempDir()
		var output bytes.Buffer
		if code := commands.Main(context.Background(), []string{"convert", "-f", file, "-d", directory}, &output,
			&output); code == commands.ExitUnable {
			t.Errorf("%s: %s", file, output.String())
			continue
		}
		converted, err := filepath.Glob(filepath.Join(directory, "*.yaml"))
		if err != nil || len(converted) == 0 {
			t.Errorf("%s: no values, %v", file, err)
		}
		for _, values := range converted {
			t.Run(filepath.Base(file)+" "+filepath.Base(values), func(t *testing.T) {
				t.Parallel()
				content, err := os.ReadFile(values)
				if err != nil {
					t.Fatal(err)
				}
				// No controller is looked up, and validate is asked as usual.
				rendered := render(t, scaleSet, string(content),
					"controllerServiceAccount: {name: arc, namespace: arc-system}")
				admitAll(t, cluster, namespace, rendered)
				spec := one[v1alpha1.AutoscalingRunnerSet](t, rendered, "autoscalingrunnerset.yaml").Spec
				for _, template := range spec.VolumeClaimTemplates { // a claim of each is a volume of the pod
					volume := corev1.Volume{Name: template.Metadata.Name}
					volume.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}
					spec.Template.Spec.Volumes = append(spec.Template.Spec.Volumes, volume)
				}
				admitPod(t, cluster, namespace, spec.Template)
			})
		}
	}
}
