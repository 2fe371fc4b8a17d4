package hooktemplate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/hooktemplate"
	"github.com/harrier-ci/harrier/internal/testkube"
)

func TestMain(m *testing.M) { os.Exit(testkube.Main(m, testkube.Options{})) }

const variable = "ACTIONS_RUNNER_CONTAINER_HOOK_TEMPLATE"

var hooks = corev1.EnvVar{Name: "ACTIONS_RUNNER_CONTAINER_HOOKS", Value: "/home/runner/k8s/index.js"}

// newPod returns a pod whose runner has hooks, and what changes make of it.
func newPod(changes ...func(*corev1.PodSpec, *corev1.Container)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "runners", Name: "runner",
		Annotations: map[string]string{}}}
	pod.Spec.Containers = []corev1.Container{{Name: "log", Image: "log"}, {Name: "runner", Image: "runner",
		Env: []corev1.EnvVar{hooks}}}
	for _, change := range changes {
		change(&pod.Spec, &pod.Spec.Containers[1])
	}
	return pod
}

// from gives the runner variables from ConfigMaps and Secrets: "configmap/NAME" or "secret/NAME", with "?" behind an
// optional one and " PREFIX" at the end.
func from(sources ...string) func(*corev1.PodSpec, *corev1.Container) {
	return func(_ *corev1.PodSpec, c *corev1.Container) {
		for _, source := range sources {
			source, prefix, _ := strings.Cut(source, " ")
			name, optional := strings.CutSuffix(source, "?")
			kind, name, _ := strings.Cut(name, "/")
			added := corev1.EnvFromSource{Prefix: prefix}
			if reference := (corev1.LocalObjectReference{Name: name}); kind == "secret" {
				added.SecretRef = &corev1.SecretEnvSource{LocalObjectReference: reference, Optional: &optional}
			} else {
				added.ConfigMapRef = &corev1.ConfigMapEnvSource{LocalObjectReference: reference, Optional: &optional}
			}
			c.EnvFrom = append(c.EnvFrom, added)
		}
	}
}

func env(value string) func(*corev1.PodSpec, *corev1.Container) {
	return func(_ *corev1.PodSpec, c *corev1.Container) {
		c.Env = append(c.Env, corev1.EnvVar{Name: variable, Value: value})
	}
}

func mounts(path string) func(*corev1.PodSpec, *corev1.Container) {
	return func(_ *corev1.PodSpec, c *corev1.Container) {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "own", MountPath: path, ReadOnly: true})
	}
}

// restricted has what such a namespace asks for, and a volume of the user's.
func restricted(s *corev1.PodSpec, _ *corev1.Container) {
	s.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: new(true), RunAsUser: new(int64(1001)),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
	for i := range s.Containers {
		s.Containers[i].SecurityContext = &corev1.SecurityContext{AllowPrivilegeEscalation: new(false),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}
	}
	s.Volumes = []corev1.Volume{{Name: "own",
		VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
}

// What the runner's environment names wins, wherever it does, and what can't be read may.
func TestWhoGetsATemplate(t *testing.T) {
	object := metav1.ObjectMeta{Namespace: "runners"}
	named := func(name string) metav1.ObjectMeta { object.Name = name; return object }
	refused := errors.New("a policy")
	for name, test := range map[string]struct {
		pod    *corev1.Pod
		refuse error
		needs  bool
		reads  int
	}{
		"no template":                  {pod: newPod(), needs: true},
		"no runner":                    {pod: newPod(func(s *corev1.PodSpec, _ *corev1.Container) { s.Containers = s.Containers[:1] })},
		"a variable":                   {pod: newPod(env("/mine.yaml"))},
		"no template, by a variable":   {pod: newPod(env(""), from("configmap/none"))},
		"other variables":              {pod: newPod(from("configmap/other", "secret/other")), needs: true, reads: 2},
		"a ConfigMap":                  {pod: newPod(from("configmap/other", "configmap/names")), reads: 2},
		"a Secret":                     {pod: newPod(from("secret/names")), reads: 1},
		"a ConfigMap, with its prefix": {pod: newPod(from("configmap/names-rest ACTIONS_RUNNER_")), reads: 1},
		"a prefix that leads nowhere":  {pod: newPod(from("configmap/names MY_")), needs: true},
		"one that isn't there yet":     {pod: newPod(from("configmap/none")), reads: 1},
		"one that need not be there":   {pod: newPod(from("configmap/none?", "secret/none?")), needs: true, reads: 2},
		"one that nobody may read":     {pod: newPod(from("configmap/other?")), refuse: refused, reads: 1},
		"too many":                     {pod: newPod(from(strings.Fields(strings.Repeat("configmap/other ", 9))...))},
		"hooks of the user's, read-only": {
			pod: newPod(mounts("/home/runner/k8s"), mounts("/home/runner"), mounts("/harrier-hook-template-of-mine")), needs: true},
		"the place is taken":  {pod: newPod(mounts("/harrier-hook-template/template.yaml"))},
		"the place is taken ": {pod: newPod(mounts("/harrier-hook-template"))},
		"the name is taken": {pod: newPod(func(s *corev1.PodSpec, _ *corev1.Container) {
			s.Volumes = []corev1.Volume{{Name: "harrier-hook-template"}}
		})},
	} {
		reads := 0
		api := fake.NewClientBuilder().WithObjects(
			&corev1.ConfigMap{ObjectMeta: named("names"), Data: map[string]string{variable: ""}},
			&corev1.ConfigMap{ObjectMeta: named("names-rest"), Data: map[string]string{"CONTAINER_HOOK_TEMPLATE": "/mine"}},
			&corev1.ConfigMap{ObjectMeta: named("other"), Data: map[string]string{"HTTP_PROXY": "http://proxy"}},
			&corev1.Secret{ObjectMeta: named("names"), Data: map[string][]byte{variable: []byte("/mine.yaml")}},
			&corev1.Secret{ObjectMeta: named("other")},
		).WithInterceptorFuncs(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey,
			o client.Object, options ...client.GetOption) error {
			reads++
			if test.refuse != nil {
				return test.refuse
			}
			return c.Get(ctx, key, o, options...)
		}}).Build()
		if got := hooktemplate.Needed(t.Context(), api, test.pod); got != test.needs {
			t.Errorf("%s: %t, want %t", name, got, test.needs)
		}
		if reads != test.reads {
			t.Errorf("%s: %d reads, want %d", name, reads, test.reads)
		}
	}
}

// The API server takes the pod with the file, in a restricted namespace, too; only the runner has it, and it is what is
// to be merged.
func TestTheFileOfATemplate(t *testing.T) {
	cluster := testkube.Shared(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: cluster.NewNamespace(t)}}
	if err := cluster.Client().Patch(t.Context(), namespace, client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`))); err != nil {
		t.Fatal(err)
	}
	for i, pod := range []*corev1.Pod{newPod(restricted), newPod(restricted, mounts("/home/runner/k8s"))} {
		pod.Namespace, pod.Name = namespace.Name, fmt.Sprint("runner-", i)
		hooktemplate.Add(pod, map[string]string{"a": "b"}, map[string]string{"c": "\"d: e\"\n"}, 0)
		mounted := len(pod.Spec.Containers[1].VolumeMounts)
		if err := cluster.Client().Create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		runner := pod.Spec.Containers[1]
		mount, named := runner.VolumeMounts[mounted-1], runner.Env[len(runner.Env)-1]
		var file corev1.DownwardAPIVolumeFile
		for _, volume := range pod.Spec.Volumes {
			if volume.Name == mount.Name {
				file = volume.DownwardAPI.Items[0]
			}
		}
		if named.Name != variable || named.Value != mount.MountPath+"/"+file.Path {
			t.Errorf("variable %v, mount %v, file %v", named, mount, file)
		}
		key := strings.TrimSuffix(strings.TrimPrefix(file.FieldRef.FieldPath, "metadata.annotations['"), "']")
		var got corev1.PodTemplateSpec
		if err := json.Unmarshal([]byte(pod.Annotations[key]), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(metav1.ObjectMeta{Labels: map[string]string{"a": "b"},
			Annotations: map[string]string{"c": "\"d: e\"\n"}}, got.ObjectMeta); diff != "" {
			t.Error(diff)
		}
		if len(pod.Spec.Containers[0].VolumeMounts)+len(pod.Spec.Containers[0].Env) > 1 { // the API server adds a token
			t.Errorf("another container has it, too: %+v", pod.Spec.Containers[0])
		}
	}
}

// With a grace period for jobs the job's container is told to end only after it, and its pod has time for that.
func TestTheTemplateOutlivesANotice(t *testing.T) {
	pod := newPod()
	hooktemplate.Add(pod, nil, nil, 110*time.Second)
	for _, annotation := range pod.Annotations {
		var got corev1.PodTemplateSpec
		if err := json.Unmarshal([]byte(annotation), &got); err != nil {
			t.Fatal(err)
		}
		want := corev1.PodSpec{TerminationGracePeriodSeconds: new(int64(120)), Containers: []corev1.Container{{Name: "$job",
			Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{
				Command: []string{"sleep", "110"}}}}}}}
		if diff := cmp.Diff(want, got.Spec); diff != "" {
			t.Error(diff)
		}
	}
}
