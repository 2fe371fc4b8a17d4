package main

import (
	"context"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/yaml"
)

// inWorkshop returns a workshop whose runner has the longest possible name.
func inWorkshop(t *testing.T, extension string) *workshop {
	t.Helper()
	runner := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: strings.Repeat("r", maxName)},
		Spec:       corev1.PodSpec{NodeName: "node"},
	}
	w := &workshop{client: fake.NewClientset(runner), namespace: "n", runner: runner.Name, image: "job"}
	if err := yaml.Unmarshal([]byte(extension), &w.extension); err != nil {
		t.Fatal(err)
	}
	return w
}

const extension = `
metadata: {labels: {team: ci}, annotations: {keep: "true"}}
spec:
  serviceAccountName: jobs
  volumes: [{name: cache, emptyDir: {}}]
  containers:
    - {name: $job, image: other, env: [{name: A, value: a}], resources: {requests: {cpu: 3}}}
    - {name: $redis, image: no}
    - {name: beside, image: side}`

// Version 0.7 makes a pod with the runner's claim as its volume. It needs no scheduler, or waits for the runner's node.
func TestJobPodOfTheModeWithAVolume(t *testing.T) {
	w := inWorkshop(t, extension)
	pod, err := w.jobPod(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	checkMetadata(t, pod, w.runner)
	spec, job := pod.Spec, pod.Spec.Containers[0]
	checkSpec(t, &spec, w.runner)
	if job.Name != jobContainer || job.Image != "job" || job.Env[0].Value != "a" ||
		job.Resources.Requests.Cpu().String() != "3" {
		t.Errorf("container %+v", job)
	}
	t.Setenv("ACTIONS_RUNNER_USE_KUBE_SCHEDULER", "true")
	if pod, err = w.jobPod(t.Context(), false); err != nil || pod.Spec.NodeName != "" || pod.Spec.Affinity == nil {
		t.Errorf("with the scheduler: %+v, %v", pod, err)
	}
}

// checkMetadata checks the name of a job's pod and its metadata from hooks and template.
func checkMetadata(t *testing.T, pod *corev1.Pod, runner string) {
	t.Helper()
	named := len(pod.Name) == maxName && strings.HasSuffix(pod.Name, "r-workflow")
	if !named || pod.Labels[runnerPodLabel] != runner || pod.Labels["team"] != "ci" ||
		pod.Annotations["keep"] != "true" {
		t.Errorf("metadata %+v", pod.ObjectMeta)
	}
}

// checkSpec checks where a job's pod runs, and on which volume.
func checkSpec(t *testing.T, spec *corev1.PodSpec, runner string) {
	t.Helper()
	if spec.NodeName != "node" || spec.Affinity != nil || spec.ServiceAccountName != "jobs" ||
		len(spec.Containers) != 2 || len(spec.Volumes) != 2 ||
		spec.Volumes[0].PersistentVolumeClaim.ClaimName != runner+"-work" {
		t.Errorf("spec %+v", spec)
	}
}

// A step's Job has the label of the hooks, its pod only the template's metadata.
func TestStepOfTheModeWithAVolumeIsAJob(t *testing.T) {
	w := inWorkshop(t, extension)
	ctx, stop := context.WithCancel(t.Context())
	stop() // nobody makes the Job's pod
	if err := w.stepAsJob(ctx, "1m"); err == nil {
		t.Error("a step without a pod is done")
	}
	jobs, err := w.client.BatchV1().Jobs("n").List(t.Context(),
		metav1.ListOptions{LabelSelector: runnerPodLabel + "=" + w.runner})
	if err != nil || len(jobs.Items) != 1 {
		t.Fatalf("%d Jobs, %v", len(jobs.Items), err)
	}
	job := jobs.Items[0]
	template := job.Spec.Template
	if len(job.Name) != maxName || job.Labels["team"] != "ci" || template.Labels["team"] != "ci" ||
		template.Labels[runnerPodLabel] != "" || template.Spec.NodeName != "node" {
		t.Errorf("Job %s with labels %v, its pod with %v on %q",
			job.Name, job.Labels, template.Labels, template.Spec.NodeName)
	}
	if _, stray := template.Labels[batchv1.JobNameLabel]; stray {
		t.Error("the Job controller sets that label")
	}
}

// Version 0.8 makes pods on any node, for steps too, with volumes of their own.
func TestPodsOfTheModeWithoutAVolume(t *testing.T) {
	w := inWorkshop(t, "metadata: {labels: {team: ci}}")
	pod, err := w.jobPod(t.Context(), true)
	if err != nil || pod.Spec.NodeName != "" || len(pod.Spec.InitContainers) != 1 ||
		pod.Spec.Volumes[0].EmptyDir == nil || *pod.Spec.SecurityContext.FSGroup != 1001 {
		t.Errorf("pod %+v, %v", pod, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop() // no kubelet starts it
	if err := w.stepAsPod(ctx, ""); err == nil {
		t.Error("a step whose pod doesn't run is done")
	}
	pods, err := w.client.CoreV1().Pods("n").List(t.Context(),
		metav1.ListOptions{LabelSelector: runnerPodLabel + "=" + w.runner})
	if err != nil || len(pods.Items) != 1 || pods.Items[0].Labels["team"] != "ci" ||
		!strings.Contains(pods.Items[0].Name, "-step-") {
		t.Errorf("%+v, %v", pods.Items, err)
	}
}

func TestTemplateMustBeReadable(t *testing.T) {
	if none, err := readTemplate(""); none != nil || err != nil {
		t.Errorf("without one: %v, %v", none, err)
	}
	if _, err := readTemplate("/nowhere"); err == nil {
		t.Error("a missing file is no template")
	}
}
