package volumeclaims_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

func TestAClaimReplacesTheVolumeOfItsName(t *testing.T) {
	claim := func(name string) corev1.VolumeSource {
		return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
	}
	empty := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	pod := &corev1.PodSpec{Volumes: []corev1.Volume{
		{Name: "docker", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}}}, {Name: "work", VolumeSource: empty},
	}}
	volumeclaims.Mount(pod, map[string]string{"docker": "linux-docker-22222", "npm": "", "go": "linux-go-22222"})
	want := []corev1.Volume{
		{Name: "docker", VolumeSource: claim("linux-docker-22222")}, {Name: "work", VolumeSource: empty},
		{Name: "go", VolumeSource: claim("linux-go-22222")}, {Name: "npm", VolumeSource: empty},
	}
	if diff := cmp.Diff(want, pod.Volumes); diff != "" {
		t.Errorf("volumes (-want +got):\n%s", diff)
	}
	for phase, mounted := range map[corev1.PodPhase]int{"": 2, corev1.PodPending: 2, corev1.PodRunning: 2,
		corev1.PodSucceeded: 0, corev1.PodFailed: 0} {
		if names := volumeclaims.MountedBy(&corev1.Pod{Spec: *pod,
			Status: corev1.PodStatus{Phase: phase}}); len(names) != mounted {
			t.Errorf("a pod that is %q mounts %v", phase, names)
		}
	}
}

func TestWhichJobsSpoilAClaim(t *testing.T) {
	both := &v1alpha1.KeepClaimsAfter{Events: []string{"push", "schedule"}, Results: []string{"succeeded"}}
	for name, test := range map[string]struct {
		keep    *v1alpha1.KeepClaimsAfter
		runner  volumeclaims.Runner
		returns bool
		why     string
	}{
		"every claim returns":                  {nil, volumeclaims.Runner{Started: true}, true, ""},
		"its container never started":          {both, volumeclaims.Runner{}, true, ""},
		"it is not known whether it had a job": {both, volumeclaims.Runner{Started: true}, false, "the job's event is unknown"},
		"the right job":                        {both, volumeclaims.Runner{Started: true, Job: volumeclaims.Job{Event: "push", Result: "succeeded"}}, true, ""},
		"another event": {both, volumeclaims.Runner{Started: true,
			Job: volumeclaims.Job{Event: "pull_request_target", Result: "succeeded"}}, false,
			"the job's event is pull_request_target"},
		"another result": {both, volumeclaims.Runner{Started: true, Job: volumeclaims.Job{Event: "push", Result: "failed"}}, false, "the job's result is failed"},
		"no result":      {both, volumeclaims.Runner{Started: true, Job: volumeclaims.Job{Event: "push"}}, false, "the job's result is unknown"},
		"only results matter": {&v1alpha1.KeepClaimsAfter{Results: []string{"succeeded"}},
			volumeclaims.Runner{Started: true, Job: volumeclaims.Job{Result: "succeeded"}}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			set := newSet("docker")
			set.Spec.VolumeClaimPool.KeepAfter = test.keep
			verdict, why, _ := volumeclaims.Returns(set, &test.runner, start)
			if (verdict == volumeclaims.Kept) != test.returns || (verdict == volumeclaims.Spoiled) == test.returns ||
				why != test.why {
				t.Errorf("%s: %q", verdict, why)
			}
		})
	}
}

// Container hooks mount the claim with the work directory in the pods of a job, by the name that they are told.
func TestContainerHooksAreToldOfTheWorkDirectorysClaim(t *testing.T) {
	for name, test := range map[string]struct {
		claim string
		env   []corev1.EnvVar
		want  string
	}{
		"leased":             {"linux-work-22222", []corev1.EnvVar{{Name: kube.EnvContainerHooks, Value: "/hooks"}}, "linux-work-22222"},
		"the user knows":     {"linux-work-22222", []corev1.EnvVar{{Name: kube.EnvContainerHooks, Value: "/hooks"}, {Name: kube.EnvWorkClaim, Value: "own"}}, "own"},
		"an empty directory": {"", []corev1.EnvVar{{Name: kube.EnvContainerHooks, Value: "/hooks"}}, ""},
		"no hooks":           {"linux-work-22222", nil, ""},
	} {
		pod := &corev1.PodSpec{Containers: []corev1.Container{{Name: v1alpha1.RunnerContainerName, Env: test.env}}}
		volumeclaims.Mount(pod, map[string]string{"work": test.claim})
		if got, _ := kube.RunnerEnv(pod, kube.EnvWorkClaim); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestTemplatesThatNoContainerMountsAreKnown(t *testing.T) {
	set := newSet("docker", "go", "npm")
	mounts := func(name string) []corev1.VolumeMount { return []corev1.VolumeMount{{Name: name, MountPath: "/x"}} }
	set.Spec.Template.Spec = corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "dind", VolumeMounts: mounts("docker")}},
		Containers:     []corev1.Container{{Name: "runner", VolumeMounts: mounts("npm")}},
	}
	if got := volumeclaims.UnmountedTemplates(&set.Spec); len(got) != 1 || got[0] != "go" {
		t.Errorf("%v, want go", got)
	}
}
