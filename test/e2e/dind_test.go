package e2e

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/hack/site"
	"github.com/harrier-ci/harrier/internal/fakegithub"
)

// The pod is exactly the chart's; its image docker:dind plays the daemon (test/standin). The runner fails its pod
// unless the daemon answers before it connects and still after its job. One runner ends after a job, one is ended idle.
func TestDockerIsThereBeforeTheRunnerAndAfter(t *testing.T) {
	t.Parallel()
	s := prepare(t, serve(t, fakegithub.Options{}), "dind", 1, 2)
	s.values["containerMode"] = site.Values{"type": "dind"}
	s.useStandIn()
	pods := recordPods(t, s.namespace)
	s.install()
	s.awaitIdle(1)
	s.awaitSuccess(s.queue(1, 2*time.Second))
	s.awaitIdle(1)
	s.uninstall(t.Context())
	s.await(t.Context(), "the end of one pod for the job and an idle one",
		func() (string, error) { return pods.untold(2) })
	seen := pods.all()
	for i := range seen {
		expectSidecarAround(t, &seen[i])
	}
}

// useStandIn replaces the image of the runners by the one for container modes.
func (s *scaleSet) useStandIn() { s.container()["image"] = site.StandInImage }

// expectSidecarAround: files copied, then the daemon, then the runner; at the end the other way round.
func expectSidecarAround(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	files := statusOf(pod.Status.InitContainerStatuses, "init-dind-externals").State.Terminated
	daemon := statusOf(pod.Status.InitContainerStatuses, "dind").State.Terminated
	runner := statusOf(pod.Status.ContainerStatuses, "runner").State.Terminated
	if files == nil || daemon == nil || runner == nil {
		t.Errorf("pod %s was last seen with %+v, %+v",
			pod.Name, pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
		return
	}
	if runner.ExitCode != 0 || daemon.ExitCode != 0 || files.ExitCode != 0 {
		t.Errorf("pod %s: runner ended with %+v, daemon with %+v, copying with %+v", pod.Name, runner, daemon, files)
	}
	order := []time.Time{
		files.FinishedAt.Time, daemon.StartedAt.Time, runner.StartedAt.Time, runner.FinishedAt.Time, daemon.FinishedAt.Time,
	}
	if !slices.IsSortedFunc(order, time.Time.Compare) {
		t.Errorf("pod %s: files copied, daemon started, runner started, runner ended, daemon ended at %v",
			pod.Name, order)
	}
}

func statusOf(statuses []corev1.ContainerStatus, name string) corev1.ContainerStatus {
	for _, status := range statuses {
		if status.Name == name {
			return status
		}
	}
	return corev1.ContainerStatus{}
}
