package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube"
)

const (
	// The plain client creates floorInFlight runners at a time, as the manager does.
	floorInFlight = 128
	// jitConfigSize is the size in bytes of the simulated GitHub's JIT configs, about that of real ones.
	jitConfigSize = 2000
	// Before anything is measured, warmUp runners are created, because the first objects of a kind are slow.
	warmUp = 100
)

// plain has the time that a plain client takes, and the CPU time that it costs the API server.
type plain struct{ took, apiServer time.Duration }

// floor measures the creation of the objects of n runners without decisions: the runner object, a wait of one JIT
// latency, the Secret and the pod.
func floor(t *testing.T, cluster *testkube.Cluster, n int, jit time.Duration) plain {
	t.Helper()
	namespace := cluster.NewNamespace(t)
	used, began := apiServerUsage(t, cluster), time.Now()
	places, errs := make(chan struct{}, floorInFlight), make(chan error, n)
	var runners sync.WaitGroup
	for i := range n {
		runners.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			errs <- makeRunner(t.Context(), cluster.Client(), namespace, fmt.Sprintf("plain-%05d", i), jit)
		})
	}
	runners.Wait()
	result := plain{took: time.Since(began), apiServer: apiServerUsage(t, cluster).CPU - used.CPU}
	close(errs)
	for err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	removeFloor(t, cluster.Client(), namespace)
	return result
}

func makeRunner(ctx context.Context, c client.Client, namespace, name string, jit time.Duration) error {
	metadata := metav1.ObjectMeta{
		Namespace: namespace, Name: name,
		Labels: map[string]string{"load": "floor"}, Annotations: map[string]string{"load": "floor"},
	}
	spec := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{
		Name: v1alpha1.RunnerContainerName, Image: "runner", Command: []string{"/home/runner/run.sh"},
		Env: []corev1.EnvVar{{Name: "ACTIONS_RUNNER_INPUT_JITCONFIG", Value: "floor"}},
	}}}
	runner := &v1alpha1.EphemeralRunner{ObjectMeta: metadata}
	runner.Spec.PodSpec = spec
	if err := c.Create(ctx, runner); err != nil {
		return fmt.Errorf("create the floor's runner %s: %w", name, err)
	}
	answer := time.NewTimer(jit)
	defer answer.Stop()
	select {
	case <-answer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	secret := &corev1.Secret{ObjectMeta: metadata, Data: map[string][]byte{"jitToken": make([]byte, jitConfigSize)}}
	return errors.Join(c.Create(ctx, secret), c.Create(ctx, &corev1.Pod{ObjectMeta: metadata, Spec: spec}))
}

// removeFloor deletes the objects of the floor, so that they cost nothing during the measurement.
func removeFloor(t *testing.T, c client.Client, namespace string) {
	t.Helper()
	for _, kind := range []client.Object{&v1alpha1.EphemeralRunner{}, &corev1.Secret{}, &corev1.Pod{}} {
		if err := c.DeleteAllOf(t.Context(), kind, client.InNamespace(namespace),
			client.GracePeriodSeconds(0)); err != nil {
			t.Fatalf("delete the floor's objects: %v", err)
		}
	}
}
