package podtrial_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/podtrial"
)

const (
	volumeHooks  = "/home/runner/k8s/index.js"
	copyingHooks = "/home/runner/k8s-novolume/index.js"
	templateFile = "/harrier-hook-template/template.yaml"
)

// runner returns the pod of a runner with container hooks, and what changes make of it.
func runner(hooks string, changes ...func(*corev1.PodSpec, *corev1.Container)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "runners", Name: "set-runner-check",
			Labels: map[string]string{v1alpha1.LabelScaleSetName: "set", v1alpha1.LabelScaleSetNamespace: "runners"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "runner", Image: "runner:1", Env: []corev1.EnvVar{
			{Name: "ACTIONS_RUNNER_CONTAINER_HOOKS", Value: hooks},
			{Name: "ACTIONS_RUNNER_REQUIRE_JOB_CONTAINER", Value: "true"},
			{Name: "ACTIONS_RUNNER_IMAGE", Value: "runner:1"},
		}}}},
	}
	for _, change := range changes {
		change(&pod.Spec, &pod.Spec.Containers[0])
	}
	return pod
}

func env(name, value string) func(*corev1.PodSpec, *corev1.Container) {
	return func(_ *corev1.PodSpec, c *corev1.Container) {
		c.Env = append([]corev1.EnvVar{{Name: name, Value: value}}, c.Env...)
	}
}

// mounted gives the runner a ConfigMap as a volume.
func mounted(at, subPath string, items ...corev1.KeyToPath) func(*corev1.PodSpec, *corev1.Container) {
	return func(s *corev1.PodSpec, c *corev1.Container) {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "t", MountPath: at, SubPath: subPath})
		s.Volumes = append(s.Volumes, corev1.Volume{Name: "t", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: "templates"}, Items: items}}})
	}
}

// Where it can't be known what the hooks will do, nothing is said of it.
func TestWhichRunnersMakePodsForJobs(t *testing.T) {
	named := env("ACTIONS_RUNNER_CONTAINER_HOOK_TEMPLATE", templateFile)
	variables := func(prefix string) func(*corev1.PodSpec, *corev1.Container) {
		return func(_ *corev1.PodSpec, c *corev1.Container) { c.EnvFrom = []corev1.EnvFromSource{{Prefix: prefix}} }
	}
	for name, test := range map[string]struct {
		pod      *corev1.Pod
		none     bool
		optional bool
		template podtrial.Source
	}{
		"with a volume":                 {pod: runner(volumeHooks)},
		"with copies":                   {pod: runner(copyingHooks)},
		"no hooks":                      {pod: runner(""), none: true},
		"hooks of the user's":           {pod: runner("/opt/hooks.js"), none: true},
		"elsewhere":                     {pod: runner(volumeHooks, env("ACTIONS_RUNNER_KUBERNETES_NAMESPACE", "jobs")), none: true},
		"here, by name":                 {pod: runner(volumeHooks, env("ACTIONS_RUNNER_KUBERNETES_NAMESPACE", "runners"))},
		"jobs need none":                {pod: runner(volumeHooks, env("ACTIONS_RUNNER_REQUIRE_JOB_CONTAINER", "false")), optional: true},
		"a variable may name it":        {pod: runner(volumeHooks, variables("")), none: true},
		"no variable names it":          {pod: runner(volumeHooks, variables("MY_"))},
		"an empty name":                 {pod: runner(volumeHooks, variables(""), env("ACTIONS_RUNNER_CONTAINER_HOOK_TEMPLATE", ""))},
		"a file of the image":           {pod: runner(volumeHooks, named), none: true},
		"the chart's file":              {pod: runner(volumeHooks, named, mounted(templateFile, "extension")), template: podtrial.Source{ConfigMap: "templates", Key: "extension"}},
		"a file of a mounted volume":    {pod: runner(volumeHooks, named, mounted("/harrier-hook-template", "")), template: podtrial.Source{ConfigMap: "templates", Key: "template.yaml"}},
		"a file with a name of its own": {pod: runner(volumeHooks, named, mounted("/harrier-hook-template/", "", corev1.KeyToPath{Key: "k", Path: "template.yaml"})), template: podtrial.Source{ConfigMap: "templates", Key: "k"}},
	} {
		hooks := podtrial.HooksOf(test.pod)
		if (hooks == nil) != test.none {
			t.Errorf("%s: %+v", name, hooks)
		} else if hooks != nil && (hooks.Required == test.optional || hooks.Template != test.template) {
			t.Errorf("%s: %+v", name, hooks)
		}
	}
}

// typed reads the job's pod as the API server does.
func typed(t *testing.T, of *corev1.Pod, template string) (*corev1.Pod, error) {
	t.Helper()
	made, err := podtrial.HooksOf(of).JobPod(of, template)
	if err != nil {
		return nil, err
	}
	pod := &corev1.Pod{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(made.Object, pod); err != nil {
		t.Fatal(err)
	}
	return pod, nil
}

func TestThePodOfAJobHasTheRunnersClaim(t *testing.T) {
	pod, err := typed(t, runner(volumeHooks), "")
	if err != nil {
		t.Fatal(err)
	}
	if claim := pod.Spec.Volumes[0].PersistentVolumeClaim; claim == nil || claim.ClaimName != "set-runner-check-work" {
		t.Errorf("volumes %+v", pod.Spec.Volumes)
	}
}

func TestThePodOfAJobIsAsItsTemplateSays(t *testing.T) {
	pod, err := typed(t, runner(copyingHooks), `
metadata:
  labels: {team: platform, actions.github.com/runner-busy: "no"}
  annotations: {a: b}
spec:
  securityContext: {runAsNonRoot: true}
  volumes: [{name: cache, emptyDir: {}}]
  containers:
    - {name: $job, image: other, env: [{name: A, value: b}], volumeMounts: [{name: cache, mountPath: /cache}]}
    - {name: $postgres, env: [{name: A, value: b}]}
    - {name: side, image: side:1}
`)
	if err != nil {
		t.Fatal(err)
	}
	wantLabels := map[string]string{"runner-pod": "set-runner-check", "actions.github.com/runner-busy": "no",
		"team": "platform", v1alpha1.LabelScaleSetName: "set", v1alpha1.LabelScaleSetNamespace: "runners"}
	if diff := cmp.Diff(wantLabels, pod.Labels); diff != "" {
		t.Error(diff)
	}
	job := pod.Spec.Containers[0]
	if len(pod.Spec.Containers) != 2 || job.Name != "job" || job.Image != "runner:1" || len(job.VolumeMounts) != 4 ||
		job.Env[0].Name != "A" || pod.Spec.Containers[1].Name != "side" {
		t.Errorf("containers %+v", pod.Spec.Containers)
	}
	if len(pod.Spec.Volumes) != 4 || pod.Spec.SecurityContext.FSGroup != nil || !*pod.Spec.SecurityContext.RunAsNonRoot ||
		len(pod.Spec.InitContainers) != 1 {
		t.Errorf("spec %+v", pod.Spec)
	}
}

func TestATemplateThatHooksCannotUseIsRefused(t *testing.T) {
	for name, template := range map[string]string{
		"no YAML":      "spec: [",
		"a list":       "spec: []",
		"a long text":  "# " + strings.Repeat("x", 1<<17),
		"wrong labels": "metadata: {labels: {a: {}}}",
	} {
		if _, err := typed(t, runner(volumeHooks), template); !errors.Is(err, podtrial.ErrTemplate) {
			t.Errorf("%s: %v", name, err)
		} else if _, refused := podtrial.Refuses(err); !refused {
			t.Errorf("%s is not a refusal", name)
		}
	}
}
