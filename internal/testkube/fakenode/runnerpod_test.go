package fakenode_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/internal/testkube/fakenode"
)

func TestRunnerPodGetsItsEnvironmentAndItsExitCodeBecomesTheOutcome(t *testing.T) {
	for code, want := range map[int]corev1.PodPhase{0: corev1.PodSucceeded, 7: corev1.PodFailed} {
		t.Run(string(want), func(t *testing.T) {
			got := make(chan map[string]string, 1)
			s := newStage(t, testkube.Shared(t), fakenode.Options{Runners: map[string]fakenode.Runner{
				"runner": fakenode.WithEnvironment(func(_ context.Context, environment map[string]string) int {
					got <- environment
					return code
				}),
			}})
			pod := s.pod("runner")
			// Gives the pod a QoS class other than the default: the API server refuses statuses that report another
			// class than its own.
			pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
			pod.Spec.Containers[0].Env = []corev1.EnvVar{
				{Name: "NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
				{Name: "JIT", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
					LocalObjectReference: corev1.LocalObjectReference{Name: "jit"}, Key: "config"}}},
				{Name: "BOTH", Value: "$(NAME)/$(JIT)/$(NEITHER)/$$"},
			}
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "jit"},
				Data: map[string][]byte{"config": []byte("secret")}}
			s.create(secret, pod)
			s.awaitsPhase(pod, want)
			environment := map[string]string{"NAME": "runner", "JIT": "secret", "BOTH": "runner/secret/$(NEITHER)/$"}
			if difference := cmp.Diff(environment, <-got); difference != "" {
				t.Error(difference)
			}
			if ended := pod.Status.ContainerStatuses[0].State.Terminated; ended == nil || int(ended.ExitCode) != code {
				t.Errorf("the container's state is %v, want exit code %d", pod.Status.ContainerStatuses[0].State, code)
			}
		})
	}
}

func TestAMissingSecretKeepsTheContainerWaitingUntilItComes(t *testing.T) {
	s := newStage(t, testkube.Shared(t), fakenode.Options{
		Runners: map[string]fakenode.Runner{"runner": fakenode.Exit(0)}})
	pod := s.pod("runner")
	pod.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: "late"}}}}
	s.create(pod)
	s.awaits(pod, "CreateContainerConfigError", waitingFor("CreateContainerConfigError"))
	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "late"}})
	s.awaitsPhase(pod, corev1.PodSucceeded)
}

func waitingFor(reason string) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool {
		for _, status := range pod.Status.ContainerStatuses {
			if status.State.Waiting != nil && status.State.Waiting.Reason == reason {
				return true
			}
		}
		return false
	}
}

func TestDeletionStopsContainersBeforeTheObjectGoes(t *testing.T) {
	stopped := make(chan struct{})
	s := newStage(t, testkube.Shared(t), fakenode.Options{Runners: map[string]fakenode.Runner{
		"runner": fakenode.RunnerFunc(func(ctx context.Context, _ *fakenode.Container) int {
			<-ctx.Done()
			close(stopped)
			return 0
		}),
	}})
	pod := s.pod("runner")
	s.create(pod)
	s.awaits(pod, "Ready", func(pod *corev1.Pod) bool {
		return conditionOf(pod, corev1.PodReady) == corev1.ConditionTrue
	})
	s.delete(pod)
	s.awaitsGone(pod)
	select {
	case <-stopped:
	default:
		t.Error("the object went before the container stopped")
	}
}

func TestAContainerThatIgnoresItsStopIsKilledAfterTheGracePeriod(t *testing.T) {
	s := newStage(t, testkube.Shared(t), fakenode.Options{Runners: map[string]fakenode.Runner{
		"runner": fakenode.RunnerFunc(func(_ context.Context, c *fakenode.Container) int { <-c.Killed(); return 0 }),
	}})
	for name, options := range map[string][]client.DeleteOption{
		"grace": {client.GracePeriodSeconds(1)}, "force": {client.GracePeriodSeconds(0)},
	} {
		pod := s.pod(name)
		s.create(pod)
		s.awaitsPhase(pod, corev1.PodRunning)
		s.delete(pod, options...)
		s.awaitsGone(pod)
	}
}

// countingClock advances by a second each time it is read, so that times show the order of events.
type countingClock struct {
	clock.RealClock
	seconds atomic.Int64
}

func (c *countingClock) Now() time.Time { return time.Unix(c.seconds.Add(1), 0) }

func (c *countingClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// The order is that of the node's reports. What the programs themselves observe may differ: a program that was started
// first may take its first step later than the next program.
func TestInitContainersComeFirstAndSidecarsEndLast(t *testing.T) {
	s := newStage(t, testkube.Shared(t), fakenode.Options{
		Runners: map[string]fakenode.Runner{"init": fakenode.Exit(0), "dind": fakenode.UntilStopped(),
			"runner": fakenode.Exit(0)},
		Clock: &countingClock{},
	})
	pod := s.pod("runner")
	always := corev1.ContainerRestartPolicyAlways
	pod.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "init"},
		{Name: "dind", Image: "dind", RestartPolicy: &always}}
	s.create(pod)
	s.awaitsPhase(pod, corev1.PodSucceeded)
	first, sidecar := pod.Status.InitContainerStatuses[0].State.Terminated,
		pod.Status.InitContainerStatuses[1].State.Terminated
	main := pod.Status.ContainerStatuses[0].State.Terminated
	if first == nil || sidecar == nil || main == nil {
		t.Fatalf("not all containers are terminated: %v", pod.Status)
	}
	order := []metav1.Time{first.StartedAt, first.FinishedAt, sidecar.StartedAt, main.StartedAt, main.FinishedAt,
		sidecar.FinishedAt}
	if !slices.IsSortedFunc(order, func(a, b metav1.Time) int { return a.Compare(b.Time) }) {
		t.Errorf("init container, sidecar and runner started and ended at %v", order)
	}
}

func TestManyPodsAreCheap(t *testing.T) {
	const pods = 150
	s := newStage(t, testkube.Shared(t), fakenode.Options{
		Runners: map[string]fakenode.Runner{"runner": fakenode.Exit(0)}})
	for i := range pods {
		s.create(s.pod(fmt.Sprintf("runner-%d", i)))
	}
	s.Eventually(func() (int, error) {
		var list corev1.PodList
		err := s.client.List(t.Context(), &list, client.InNamespace(s.namespace))
		succeeded := 0
		for _, pod := range list.Items {
			if pod.Status.Phase == corev1.PodSucceeded {
				succeeded++
			}
		}
		return succeeded, err
	}, patience, "100ms").Should(Equal(pods))
}

func TestAnOutageOfTheAPIServerLosesNoOutcome(t *testing.T) {
	cluster := testkube.Start(t, testkube.Options{CRDs: []string{}})
	finish := make(chan struct{})
	s := newStage(t, cluster, fakenode.Options{Runners: map[string]fakenode.Runner{
		"runner": fakenode.RunnerFunc(func(context.Context, *fakenode.Container) int { <-finish; return 7 }),
	}})
	pod := s.pod("runner")
	s.create(pod)
	s.awaitsPhase(pod, corev1.PodRunning)
	if err := cluster.StopAPIServer(); err != nil {
		t.Fatal(err)
	}
	close(finish)
	if err := cluster.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.awaitsPhase(pod, corev1.PodFailed)
	s.delete(pod)
	s.awaitsGone(pod)
}
