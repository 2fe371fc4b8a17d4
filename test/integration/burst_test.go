package integration

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

const (
	burst      = 100
	jitLatency = 300 * time.Millisecond
	// The manager prepares inFlight runners at the same time.
	inFlight = 128
)

// A hundred jobs at the same time, while tokens expire: a runner each, none too many, nothing left, and the listener
// keeps running. The log has the time until all pods existed, and that of a client that only creates the same objects.
func TestBurst(t *testing.T) {
	cluster := testkube.Borrow(t)
	plainCreation(t, cluster) // the API server is slow with the first objects of a kind
	plain := plainCreation(t, cluster)
	r := rig.Start(t, cluster, rig.Options{GitHub: fakegithub.Options{JITLatency: jitLatency}})
	before, began := r.Requests(), time.Now()
	ids := r.QueueJobs(burst, 2*time.Second)
	r.AwaitCompleted(ids, 1)
	r.GitHub.ExpireAdminTokens()
	r.GitHub.ExpireQueueTokens()
	jobs := r.WaitDone(ids)
	r.AwaitQuiet()

	requests := r.Requests().Minus(before)
	if created := requests.Created["ephemeralrunners"]; created != burst {
		t.Errorf("%d runners were created for %d jobs", created, burst)
	}
	r.WaitDone(r.QueueJobs(1, 0))
	checkOneListener(t, r)
	pods := r.LastCreation("pods", burst).Sub(began)
	t.Logf("%d pods after %s; a plain client needs %s: ratio %.2f", burst, pods, plain, pods.Seconds()/plain.Seconds())
	t.Log(rig.TimingOf(jobs))
	t.Logf("%.1f requests a runner:\n%s", float64(requests.Total())/burst, requests)
}

// checkOneListener fails the test unless the listener that was started first still runs and is ready. Its node asks it
// only every 5 s, so one that has polled for seconds may not be called ready yet.
func checkOneListener(t *testing.T, r *rig.Rig) {
	t.Helper()
	var status corev1.ContainerStatus
	gomega.NewWithT(t).Eventually(func() bool {
		if pod := r.ListenerPod(); pod != nil && len(pod.Status.ContainerStatuses) == 1 {
			status = pod.Status.ContainerStatuses[0]
		}
		return status.Ready
	}, rig.Patience).Should(gomega.BeTrue(), "the listener is not ready")
	if status.RestartCount != 0 {
		t.Errorf("the listener has not lived through the burst: %d restarts", status.RestartCount)
	}
}

// plainCreation measures the creation of a burst's objects without decisions: a runner object, a wait for GitHub's
// answer, a Secret and a pod.
func plainCreation(t *testing.T, cluster *testkube.Cluster) time.Duration {
	t.Helper()
	namespace := cluster.NewNamespace(t)
	c := cluster.Client()
	began := time.Now()
	var creations sync.WaitGroup
	places := make(chan struct{}, inFlight)
	for i := range burst {
		creations.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			if err := createRunner(t.Context(), c, namespace, fmt.Sprintf("plain-%d", i)); err != nil {
				t.Error(err)
			}
		})
	}
	creations.Wait()
	took := time.Since(began)
	for _, kind := range []client.Object{&v1alpha1.EphemeralRunner{}, &corev1.Pod{}} {
		if err := c.DeleteAllOf(t.Context(), kind, client.InNamespace(namespace), client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
	}
	return took
}

func createRunner(ctx context.Context, c client.Client, namespace, name string) error {
	runner := &v1alpha1.EphemeralRunner{}
	secret := &corev1.Secret{Data: map[string][]byte{"jitToken": make([]byte, 2000)}}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "runner", Image: "runner"}}}}
	for _, object := range []client.Object{runner, secret, pod} {
		object.SetNamespace(namespace)
		object.SetName(name)
	}
	runner.Spec.PodSpec = pod.Spec
	if err := c.Create(ctx, runner); err != nil {
		return err
	}
	answer := time.NewTimer(jitLatency)
	defer answer.Stop()
	select {
	case <-answer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := c.Create(ctx, secret); err != nil {
		return err
	}
	return c.Create(ctx, pod)
}
