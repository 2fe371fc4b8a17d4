package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// The hooks leave a step's Job for finishedJobSeconds after its end.
const finishedJobSeconds = 300

// jobPod returns the pod of the job's container. Where files are copied, its volumes are empty and an init container of
// the runner's image fills one; otherwise it uses the runner's claim on the runner's node.
func (w *workshop) jobPod(ctx context.Context, copies bool) (*corev1.Pod, error) {
	pod := &corev1.Pod{ObjectMeta: w.metadata(w.named("-workflow")), Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{w.container("job")},
	}}
	if !copies {
		return pod, w.onClaim(ctx, &pod.Spec)
	}
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(1001))}
	pod.Spec.Volumes = []corev1.Volume{{
		Name:         workVolume,
		VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
	}}
	pod.Spec.InitContainers = []corev1.Container{{
		Name: "fs-init", Image: os.Getenv("ACTIONS_RUNNER_IMAGE"), ImagePullPolicy: corev1.PullNever,
		Command:         []string{os.Args[0], "step"},
		SecurityContext: &corev1.SecurityContext{RunAsUser: new(int64(1001)), RunAsGroup: new(int64(1001))},
		VolumeMounts:    []corev1.VolumeMount{{Name: workVolume, MountPath: "/mnt/work"}},
	}}
	return pod, nil
}

// onClaim puts a pod on the runner's node, with the runner's claim. The scheduler is not asked, unless the runner's
// variable says so: then the pod waits for that node.
func (w *workshop) onClaim(ctx context.Context, spec *corev1.PodSpec) error {
	runner, err := w.client.CoreV1().Pods(w.namespace).Get(ctx, w.runner, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if os.Getenv("ACTIONS_RUNNER_USE_KUBE_SCHEDULER") == "true" {
		spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn,
						Values: []string{runner.Spec.NodeName}},
				}}},
			}}}
	} else {
		spec.NodeName = runner.Spec.NodeName
	}
	claim := cmp.Or(os.Getenv("ACTIONS_RUNNER_CLAIM_NAME"), w.runner+"-work")
	spec.Volumes = []corev1.Volume{{Name: workVolume, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}}
	return nil
}

// stepAsJob runs a step in a container of its own as a Job. The Job's pod has the template's labels only. It doesn't
// wait for a step that sleeps.
func (w *workshop) stepAsJob(ctx context.Context, sleeps string) error {
	container := w.container(words(sleeps)...)
	if err := w.environment(ctx, &container); err != nil {
		return err
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		Containers:    []corev1.Container{container},
	}}
	if err := w.onClaim(ctx, &pod.Spec); err != nil {
		return err
	}
	job := &batchv1.Job{ObjectMeta: w.metadata(w.random("-step-")), Spec: batchv1.JobSpec{
		TTLSecondsAfterFinished: new(int32(finishedJobSeconds)), BackoffLimit: new(int32),
	}}
	if err := errors.Join(w.extension.into(pod), w.extension.intoMetadata(&job.ObjectMeta)); err != nil {
		return err
	}
	job.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}
	if _, err := w.client.BatchV1().Jobs(w.namespace).Create(ctx, job, metav1.CreateOptions{}); err != nil {
		return err
	}
	name, err := w.podOf(ctx, job.Name)
	if err != nil {
		return err
	}
	if err := w.awaitPhase(ctx, name, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed); err != nil ||
		sleeps != "" {
		return err
	}
	return errors.Join(w.awaitJob(ctx, job.Name), w.readLog(ctx, name, stepLine))
}

// podOf waits for the pod of a Job.
func (w *workshop) podOf(ctx context.Context, job string) (name string, err error) {
	err = wait.PollUntilContextTimeout(ctx, askEvery, startLimit, true, func(ctx context.Context) (bool, error) {
		pods, err := w.client.CoreV1().Pods(w.namespace).List(ctx,
			metav1.ListOptions{LabelSelector: batchv1.JobNameLabel + "=" + job})
		if err != nil || len(pods.Items) == 0 {
			return false, err
		}
		name = pods.Items[0].Name
		return true, nil
	})
	return name, err
}

// awaitJob waits until a Job has succeeded.
func (w *workshop) awaitJob(ctx context.Context, name string) error {
	return wait.PollUntilContextTimeout(ctx, askEvery, startLimit, true, func(ctx context.Context) (bool, error) {
		job, err := w.client.BatchV1().Jobs(w.namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && job.Status.Failed > 0 {
			err = fmt.Errorf("job %s has failed", name)
		}
		return err == nil && job.Status.Succeeded > 0, err
	})
}

// stepAsPod runs a step in a pod of its own. The pod sleeps while a command is executed in it.
func (w *workshop) stepAsPod(ctx context.Context, sleeps string) error {
	pod := &corev1.Pod{ObjectMeta: w.metadata(w.random("-step-")), Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{w.container("job")},
		Volumes: []corev1.Volume{{
			Name:         workVolume,
			VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		}},
	}}
	if err := w.create(ctx, pod); err != nil {
		return err
	}
	if err := w.awaitPhase(ctx, pod.Name, corev1.PodRunning); err != nil || sleeps != "" {
		return err
	}
	return errors.Join(w.execute(ctx, pod.Name, "step"),
		w.client.CoreV1().Pods(w.namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
}

// words returns the arguments with which this program plays a step.
func words(sleeps string) []string {
	if sleeps == "" {
		return []string{"step"}
	}
	return []string{"step", sleeps}
}
