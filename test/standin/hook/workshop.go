package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	// runnerPodLabel is what the real hook puts on all it makes; the controller cleans up by it.
	runnerPodLabel = "runner-pod"
	jobContainer   = "job"

	startLimit = 2 * time.Minute
	askEvery   = 200 * time.Millisecond
)

// workshop is a job's containers as pods, worked on with the rights of the runner pod's ServiceAccount.
type workshop struct {
	config    *rest.Config
	client    kubernetes.Interface
	namespace string
	// runner is the runner pod's name.
	runner string
}

// runJob does what the real hook does for a job with a container: a Secret with its environment, a pod, a command in it, its
// log, its end. The Secret stays, as after a runner that was lost: the controller has to find it.
func runJob(ctx context.Context) error {
	w, err := newWorkshop()
	if err != nil {
		return err
	}
	name := w.runner + "-workflow"
	if err := w.makeSecret(ctx, name); err != nil {
		return err
	}
	if err := w.makePod(ctx, name); err != nil {
		return err
	}
	if err := w.awaitRunning(ctx, name); err != nil {
		return err
	}
	if err := errors.Join(w.execute(ctx, name), w.readLog(ctx, name), w.listJobs(ctx)); err != nil {
		return err
	}
	return w.remove(ctx, name)
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
	return &workshop{config: config, client: client, namespace: string(namespace), runner: runner}, nil
}

func (w *workshop) metadata(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: map[string]string{runnerPodLabel: w.runner}}
}

func (w *workshop) makeSecret(ctx context.Context, name string) error {
	secret := &corev1.Secret{ObjectMeta: w.metadata(name), StringData: map[string]string{"NAME": "value"}}
	secrets := w.client.CoreV1().Secrets(w.namespace)
	if _, err := secrets.Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err := secrets.List(ctx, metav1.ListOptions{LabelSelector: runnerPodLabel + "=" + w.runner})
	return err
}

func (w *workshop) makePod(ctx context.Context, name string) error {
	_, err := w.client.CoreV1().Pods(w.namespace).Create(ctx, &corev1.Pod{ObjectMeta: w.metadata(name), Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		Containers: []corev1.Container{{
			Name: jobContainer, Image: os.Getenv("JOB_IMAGE"), ImagePullPolicy: corev1.PullNever, Command: []string{os.Args[0], "job"},
			EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}},
		}},
	}}, metav1.CreateOptions{})
	return err
}

func (w *workshop) awaitRunning(ctx context.Context, name string) error {
	var phase corev1.PodPhase
	err := wait.PollUntilContextTimeout(ctx, askEvery, startLimit, true, func(ctx context.Context) (bool, error) {
		pod, err := w.client.CoreV1().Pods(w.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		phase = pod.Status.Phase
		return phase == corev1.PodRunning, nil
	})
	if err != nil {
		return fmt.Errorf("pod %s is %s: %w", name, phase, err)
	}
	return nil
}

func (w *workshop) readLog(ctx context.Context, name string) error {
	stream, err := w.client.CoreV1().Pods(w.namespace).GetLogs(name, &corev1.PodLogOptions{Container: jobContainer}).Stream(ctx)
	if err != nil {
		return err
	}
	defer stream.Close()
	content, err := io.ReadAll(stream)
	if err != nil {
		return err
	}
	return expect(jobLine, string(content))
}

// listJobs asks for what the hook of the mode kubernetes may see too.
func (w *workshop) listJobs(ctx context.Context) error {
	if strings.Contains(os.Args[0], "novolume") {
		return nil
	}
	_, err := w.client.BatchV1().Jobs(w.namespace).List(ctx, metav1.ListOptions{})
	return err
}

func (w *workshop) remove(ctx context.Context, name string) error {
	if err := w.client.CoreV1().Pods(w.namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	_, err := w.client.CoreV1().Pods(w.namespace).List(ctx, metav1.ListOptions{LabelSelector: runnerPodLabel + "=" + w.runner})
	return err
}
