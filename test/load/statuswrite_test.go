package load

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// BenchmarkStatusWrite measures the cost of one write of a status to the API server, in today's and in other ways:
// decision 0023 has the outcome. A busy API server has 16 at the same time, so this has, too.
//
//	go test ./test/load -run '^$' -bench StatusWrite -benchtime 1600x
func BenchmarkStatusWrite(b *testing.B) {
	for name, rules := range map[string]bool{"with the CRDs' rules": true, "without": false} {
		b.Run(name, func(b *testing.B) {
			cluster := testkube.Start(b, testkube.Options{
				AddToScheme: []func(*runtime.Scheme) error{v1alpha1.AddToScheme},
				CRDs:        crds(b, rules),
				AsShipped:   true,
			})
			namespace := cluster.NewNamespace(b)
			template := runnerTemplate()
			// One for each writer: two that write the same object make the API server repeat one.
			var sets, runnerSets, runners []client.Object
			for i := range atOnce {
				meta := metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("object-%d", i)}
				set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: *meta.DeepCopy()}
				set.Spec.GitHubConfigUrl, set.Spec.GitHubConfigSecret, set.Spec.Template = "https://github.com/my-org",
					"secret", template
				runnerSet := &v1alpha1.EphemeralRunnerSet{ObjectMeta: *meta.DeepCopy()}
				runnerSet.Spec.EphemeralRunnerSpec.PodSpec = template.Spec
				runner := &v1alpha1.EphemeralRunner{ObjectMeta: meta}
				runner.Spec.PodSpec = template.Spec
				sets, runnerSets, runners = append(sets, set), append(runnerSets, runnerSet), append(runners, runner)
			}
			for _, object := range slices.Concat(sets, runnerSets, runners) {
				if err := cluster.Client().Create(b.Context(), object); err != nil {
					b.Fatal(err)
				}
			}
			for _, kind := range []struct {
				name, field string
				objects     []client.Object
			}{{"AutoscalingRunnerSet", "currentRunners", sets}, {"EphemeralRunnerSet", "currentReplicas", runnerSets},
				{"EphemeralRunner", "runnerId", runners}} {
				b.Run(kind.name, func(b *testing.B) {
					writeStatuses(b, cluster, kind.objects, `{"status":{"`+kind.field+`":%d}}`)
				})
				b.Run(kind.name+" clearing managedFields", func(b *testing.B) {
					writeStatuses(b, cluster, kind.objects,
						`{"metadata":{"managedFields":[{}]},"status":{"`+kind.field+`":%d}}`)
				})
			}
		})
	}
}

const atOnce = 16

// writeStatuses patches objects b.N times, all at the same time, and reports the API server's processor time for each.
func writeStatuses(b *testing.B, cluster *testkube.Cluster, objects []client.Object, patch string) {
	before, err := rig.APIServerUsage(cluster)
	if err != nil {
		b.Fatal(err)
	}
	failures := make(chan error, len(objects))
	for worker, object := range objects {
		go func() {
			var err error
			for i := worker; i < b.N && err == nil; i += len(objects) {
				err = cluster.Client().Status().Patch(b.Context(), object,
					client.RawPatch(types.MergePatchType, fmt.Appendf(nil, patch, i+1)))
			}
			failures <- err
		}()
	}
	for range objects {
		if err := <-failures; err != nil {
			b.Error(err)
		}
	}
	after, err := rig.APIServerUsage(cluster)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64((after.CPU-before.CPU).Microseconds())/1000/float64(b.N), "ms-of-apiserver/op")
}

// crds returns the project's CRDs, or a copy without validation rules: the API server checks them for status writes,
// too.
func crds(b *testing.B, rules bool) []string {
	if rules {
		return nil
	}
	directory := b.TempDir()
	files, err := filepath.Glob("../../apis/crds/*.yaml")
	if err != nil || len(files) == 0 {
		b.Fatalf("%d CRDs: %v", len(files), err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			b.Fatal(err)
		}
		var crd any
		if err := yaml.Unmarshal(content, &crd); err != nil {
			b.Fatal(err)
		}
		if content, err = yaml.Marshal(withoutRules(crd)); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(directory, filepath.Base(file)), content, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	return []string{directory}
}

func withoutRules(value any) any {
	switch value := value.(type) {
	case map[string]any:
		delete(value, "x-kubernetes-validations")
		for key, each := range value {
			value[key] = withoutRules(each)
		}
	case []any:
		for i, each := range value {
			value[i] = withoutRules(each)
		}
	}
	return value
}

// runnerTemplate returns a template as large as one of a runner with Docker beside it.
func runnerTemplate() corev1.PodTemplateSpec {
	container := func(name string) corev1.Container {
		c := corev1.Container{
			Name: name, Image: "registry.example.com/team/runner:1.0.0", Command: []string{"/home/runner/run.sh"},
			SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: new(false), RunAsNonRoot: new(true)},
		}
		for i := range 8 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", i),
				Value: "some value of a usual length"})
		}
		for _, volume := range []string{"work", "dind-sock", "dind-externals"} {
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: volume, MountPath: "/" + volume})
		}
		return c
	}
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{container("runner")}}}
	template.Spec.InitContainers = []corev1.Container{container("init-dind-externals"), container("dind")}
	for _, volume := range []string{"work", "dind-sock", "dind-externals"} {
		template.Spec.Volumes = append(template.Spec.Volumes, corev1.Volume{
			Name:         volume,
			VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		})
	}
	return template
}
