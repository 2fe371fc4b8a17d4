package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	// The hooks put runnerPodLabel on everything they make, except on the pods of Jobs.
	runnerPodLabel = "runner-pod"
	jobContainer   = "job"
	workVolume     = "work"

	// maxName bounds the length of the hooks' names. Some end with stepDigits random characters.
	maxName    = 63
	stepDigits = 8

	// The hooks wait up to startLimit for a pod.
	startLimit = 10 * time.Minute
	// A printed line is in the container's log within logLimit.
	logLimit = 20 * time.Second
	askEvery = 200 * time.Millisecond
)

// workshop works on a job's containers as pods, with the rights of the runner pod's ServiceAccount.
type workshop struct {
	config    *rest.Config
	client    kubernetes.Interface
	namespace string
	// runner is the runner pod's name.
	runner string
	// extension is the template that is merged into each pod, nil without one.
	extension template
	image     string
}

// runJob does what the hooks do for a job with a container: a pod, a command in it, its log, a step in a container of
// its own, and the cleanup. A step's Job is left until its time limit.
func runJob(ctx context.Context) error {
	w, err := newWorkshop()
	if err != nil {
		return err
	}
	copies := strings.Contains(os.Args[0], "novolume")
	job, err := w.jobPod(ctx, copies)
	if err != nil {
		return err
	}
	if err := w.create(ctx, job); err != nil {
		return err
	}
	if err := w.awaitPhase(ctx, job.Name, corev1.PodRunning); err != nil {
		return errors.Join(err, w.prune(ctx))
	}
	if err := errors.Join(w.execute(ctx, job.Name, "step"), w.readLog(ctx, job.Name, jobLine)); err != nil {
		return err
	}
	step, long := w.stepAsJob, os.Getenv("STEP_SLEEPS")
	if copies {
		step = w.stepAsPod
	}
	if err := step(ctx, long); err != nil || long != "" {
		return err
	}
	return w.prune(ctx)
}

func newWorkshop() (*workshop, error) {
	config, err := rest.InClusterConfig()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	namespace, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err != nil {
		return nil, err
	}
	runner := os.Getenv("ACTIONS_RUNNER_POD_NAME")
	if runner == "" {
		return nil, errors.New("ACTIONS_RUNNER_POD_NAME is not set")
	}
	extension, err := readTemplate(os.Getenv("ACTIONS_RUNNER_CONTAINER_HOOK_TEMPLATE"))
	if err != nil {
		return nil, err
	}
	return &workshop{
		config: config, client: client, namespace: string(namespace), runner: runner, extension: extension,
		image: os.Getenv("JOB_IMAGE"),
	}, nil
}

// named returns a name that begins with the runner's, as much of it as fits.
func (w *workshop) named(suffix string) string {
	return w.runner[:min(len(w.runner), maxName-len(suffix))] + suffix
}

// random returns a name with random characters at its end.
func (w *workshop) random(infix string) string { return w.named(infix + rand.String(stepDigits)) }

func (w *workshop) metadata(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:        name,
		Labels:      map[string]string{runnerPodLabel: w.runner},
		Annotations: map[string]string{},
	}
}

// container runs this program as one of the hooks' containers.
func (w *workshop) container(words ...string) corev1.Container {
	return corev1.Container{
		Name: jobContainer, Image: w.image, ImagePullPolicy: corev1.PullNever,
		Command:      append([]string{os.Args[0]}, words...),
		VolumeMounts: []corev1.VolumeMount{{Name: workVolume, MountPath: "/__w"}},
	}
}

// environment makes a Secret with the variables of a step and gives them to its container.
func (w *workshop) environment(ctx context.Context, container *corev1.Container) error {
	secret := &corev1.Secret{
		ObjectMeta: w.metadata(w.random("-secret-")),
		StringData: map[string]string{"GITHUB_ACTIONS": "true"},
	}
	container.EnvFrom = []corev1.EnvFromSource{
		{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: secret.Name}}}}
	_, err := w.client.CoreV1().Secrets(w.namespace).Create(ctx, secret, metav1.CreateOptions{})
	return err
}

func (w *workshop) create(ctx context.Context, pod *corev1.Pod) error {
	if err := w.extension.into(pod); err != nil {
		return err
	}
	_, err := w.client.CoreV1().Pods(w.namespace).Create(ctx, pod, metav1.CreateOptions{})
	return err
}

// awaitPhase waits while a pod is pending, and fails if it then has another phase than those wanted.
func (w *workshop) awaitPhase(ctx context.Context, name string, wanted ...corev1.PodPhase) error {
	var phase corev1.PodPhase
	err := wait.PollUntilContextTimeout(ctx, askEvery, startLimit, true, func(ctx context.Context) (bool, error) {
		pod, err := w.client.CoreV1().Pods(w.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		phase = pod.Status.Phase
		return phase != corev1.PodPending, nil
	})
	if err != nil || !slices.Contains(wanted, phase) {
		return fmt.Errorf("pod %s is unhealthy with phase status %s: %w", name, phase, err)
	}
	return nil
}

// readLog reads a container's log until it has the line: a container that has started need not have printed it yet.
func (w *workshop) readLog(ctx context.Context, name, line string) error {
	options := &corev1.PodLogOptions{Container: jobContainer}
	missing := error(nil)
	err := wait.PollUntilContextTimeout(ctx, askEvery, logLimit, true, func(ctx context.Context) (bool, error) {
		content, err := w.client.CoreV1().Pods(w.namespace).GetLogs(name, options).DoRaw(ctx)
		missing = expect(line, string(content))
		return missing == nil, err
	})
	return errors.Join(err, missing)
}

// prune deletes the pods and Secrets of the job, found by their label.
func (w *workshop) prune(ctx context.Context) error {
	labelled := metav1.ListOptions{LabelSelector: runnerPodLabel + "=" + w.runner}
	pods, err := w.client.CoreV1().Pods(w.namespace).List(ctx, labelled)
	if err != nil {
		return err
	}
	secrets, err := w.client.CoreV1().Secrets(w.namespace).List(ctx, labelled)
	if err != nil {
		return err
	}
	var errs []error
	for i := range pods.Items {
		errs = append(errs, w.client.CoreV1().Pods(w.namespace).Delete(ctx, pods.Items[i].Name,
			metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	}
	for i := range secrets.Items {
		errs = append(errs, w.client.CoreV1().Secrets(w.namespace).
			Delete(ctx, secrets.Items[i].Name, metav1.DeleteOptions{}))
	}
	return errors.Join(errs...)
}
