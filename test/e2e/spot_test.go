package e2e

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/hack/site"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/fakegithub/state"
)

// The pods of two jobs are deleted, as a handler of spot interruptions deletes them. The job that ends within the grace
// period succeeds, with its Docker daemon there until after its end. The other goes on as long, and is canceled then.
func TestJobsOutliveTheNoticeOfTheirEnd(t *testing.T) {
	t.Parallel()
	const grace, short = 40 * time.Second, 20 * time.Second
	s := prepare(t, serve(t, fakegithub.Options{}), "spot", 0, 2)
	s.values["containerMode"] = site.Values{"type": "dind"}
	s.values["jobGracePeriod"] = grace.String()
	s.caused = []state.AnomalyKind{state.RunnerStoppedBusy}
	s.useStandIn()
	s.giveShell()
	env := s.container()["env"].([]site.Values)
	env[len(env)-1]["value"] = "/bin:/usr/local/bin" // the client of Docker, too
	s.install()
	ends, goesOn := s.queue(1, short), s.queue(1, longJob)
	running := s.awaitJobs(append(ends, goesOn...), state.Running)
	told := time.Now()
	for _, job := range running {
		pod := s.podNamed(job.Runner)
		if err := kube.Delete(t.Context(), &pod); err != nil {
			t.Fatal(err)
		}
	}
	s.awaitSuccess(ends)
	if took := time.Since(told); took > grace {
		t.Errorf("the short job has ended %s after the notice", took)
	}
	canceled := s.awaitJobs(goesOn, state.Completed)[0]
	if took := time.Since(told); took < grace || canceled.Result != state.ResultCanceled {
		t.Errorf("the long job was ended %s after the notice: %s", took, canceled.Result)
	}
	s.awaitEvent("JobLost", "PodDeleted")
}

// A container that ignores SIGTERM keeps its pod for seconds after the runner's end, and not for the hour that the pod
// gives its job.
func TestASidecarThatWillNotDie(t *testing.T) {
	t.Parallel()
	s := prepare(t, serve(t, fakegithub.Options{}), "stubborn", 0, 1)
	s.giveShell()
	s.podSpec()["terminationGracePeriodSeconds"] = 3600
	containers := s.podSpec()["containers"].([]site.Values)
	s.podSpec()["containers"] = append(containers, site.Values{"name": "stubborn", "image": s.container()["image"],
		"imagePullPolicy": "Never", "volumeMounts": s.container()["volumeMounts"],
		"command": []string{"/bin/sh", "-c", "trap '' TERM; while :; do /bin/sleep 1; done"}})
	s.install()
	ids := s.queue(1, 5*time.Second)
	pod := s.podNamed(s.awaitJobs(ids, state.Running)[0].Runner)
	s.awaitSuccess(ids)
	began := time.Now()
	s.await(t.Context(), "the pod to be gone", func() (string, error) {
		err := kube.Get(t.Context(), client.ObjectKeyFromObject(&pod), &corev1.Pod{})
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		return "it is there", err
	})
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("the pod was gone %s after the end of its job, want 30 s at most", took)
	} else {
		t.Logf("the pod was gone %s after the end of its job", took)
	}
}
