package ephemeralrunner_test

import (
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/registrations"
)

// With 1000 simulations, and half as many with strange statuses, every planted fault was found that 2000 found: a JIT
// config that is reused after a blocked start, a pod on a node that is taken for one that has not started, a failed
// removal that is taken for a success, of a runner that goes and of one that is tried again, and a pod that is not
// waited for. One of the two tests found each by seed 167.
const (
	simulations = 1000
	length      = 60
)

// Whatever happens to a runner, no running job's pod is deleted, no JIT config starts two containers, and in the end
// pod, Secret and registration are gone.
func TestAnySimulationEndsWell(t *testing.T) {
	t.Logf("%d simulations of %d events, seeds 0 to %d", simulations, length, simulations-1)
	for seed := range uint64(simulations) {
		controllertest.InBubble(t, func(t *testing.T, workers *pool.Pool) {
			s := newSimulation(t, workers, seed)
			for range length {
				s.happen()
				s.passesDue()
			}
			s.end()
		})
		if t.Failed() {
			return
		}
	}
}

// happen makes one thing happen.
func (s *simulation) happen() {
	s.later(time.Duration(s.random.IntN(5000)) * time.Millisecond)
	switch what := s.random.IntN(30); {
	case what < 12:
		s.kubelet()
	case what < 16:
		s.assign()
	case what < 19:
		s.report()
	case what < 21:
		s.finish()
	case what == 21:
		s.restart()
	default:
		s.happenSeldom(what)
	}
	s.show(s.chance(2), s.chance(2))
}

// happenSeldom sometimes makes the thing of that number happen.
func (s *simulation) happenSeldom(what int) {
	one := map[int]struct {
		oneIn int
		do    func()
	}{
		22: {3, s.deleteRunner},
		23: {2, func() { s.secret = nil }}, // by hand
		24: {2, s.befall},
		25: {3, s.evict},
		26: {3, func() { s.later(time.Duration(s.random.IntN(900)) * time.Second) }},
		27: {4, s.removeBySet},
		28: {1, s.keepOrRelease},
		29: {3, s.callFailed},
	}[what]
	if s.chance(one.oneIn) {
		one.do()
	}
}

// evict evicts the pod, or deletes it by hand.
func (s *simulation) evict() {
	if s.pod != nil {
		s.terminate(gracePeriod)
	}
}

// removeBySet makes GitHub remove the registration of an idle runner at the request of its set, whose manager may be
// another by now.
func (s *simulation) removeBySet() {
	if s.busy || !s.node.running || s.runner == nil || s.runnerID == 0 || s.runner.Status.RunnerID != s.runnerID {
		return
	}
	if s.chance(2) {
		s.verdicts.Give(runnerKey, registrations.Registration{Runner: s.runner.UID, ID: s.runnerID},
			registrations.Removed)
	}
	s.runnerID, s.setRemoved = 0, true
}

// keepOrRelease adds or removes a foreign finalizer that keeps the pod, or deletes the runner that GitHub has removed,
// as its set would.
func (s *simulation) keepOrRelease() {
	switch {
	case s.pod != nil && s.chance(3) && s.node.kept:
		s.release()
	case s.pod != nil && s.chance(3):
		s.node.kept = true
	case s.setRemoved && s.chance(2):
		s.deleteRunner()
	}
}

// callFailed marks a runner that has exited without a job as failed, as its set would.
func (s *simulation) callFailed() {
	if s.runner != nil && s.runner.Status.Phase == v1alpha1.EphemeralRunnerPhaseSucceeded && !s.runner.Status.HadJob() {
		s.runner.Status.Phase = v1alpha1.EphemeralRunnerPhaseFailed
		s.write(s.runner)
	}
}

// kubelet binds, starts, reports, or ends the pod; what has lost its owner is collected.
func (s *simulation) kubelet() {
	switch {
	case s.runner == nil:
		if s.node.running && s.busy {
			s.wrong("the pod of a running job is collected")
		}
		s.losePod()
		s.secret = nil
	case s.pod == nil || s.node.lost:
	case s.pod.Spec.NodeName == "":
		s.pod.Spec.NodeName = "node"
		s.write(s.pod)
	case s.pod.DeletionTimestamp != nil:
		s.endPod()
	case !s.node.running && !s.node.ended && s.pod.Status.Phase == "":
		s.start()
	case !s.node.reported:
		s.reportPod()
	case s.node.running && s.runnerID == 0:
		s.stop(0) // GitHub does not know it
	}
}

// endPod takes a step in the graceful end of a pod: a runner ends when it is asked to, a runner with a job later or not
// at all.
func (s *simulation) endPod() {
	switch {
	case s.node.running && !s.busy:
		s.stop(int32(143 * s.random.IntN(2)))
	case s.node.running && time.Now().Before(s.pod.DeletionTimestamp.Time):
		if s.chance(2) {
			s.stop(143)
		}
	case s.node.ended && !s.node.reported && s.chance(2):
		s.reportPod()
	default:
		s.losePod()
	}
}

// endGracePeriod kills the container of a pod whose time is over.
func (s *simulation) endGracePeriod() {
	if s.pod == nil || s.node.lost || s.pod.DeletionTimestamp == nil || !time.Now().
		After(s.pod.DeletionTimestamp.Time) {
		return
	}
	if s.node.running {
		s.stop(137)
	}
	if s.node.ended && !s.node.reported {
		s.reportPod()
	}
}

// start starts the container, or fails to.
func (s *simulation) start() {
	switch {
	case s.fault(8):
		s.setStatus(corev1.PodFailed, corev1.ContainerState{})
	case s.fault(5):
		s.setStatus("", waitingFor("ImagePullBackOff"))
	case s.secret == nil:
		s.setStatus("", waitingFor("CreateContainerConfigError"))
	default:
		token := string(s.secret.Data[secretKeyJITConfig])
		if s.used[token] {
			s.wrong("a second container starts with registration %s", token)
		}
		s.used[token], s.node.running, s.node.reported = true, true, false
	}
}

// reportPod reports the truth to the API server.
func (s *simulation) reportPod() {
	s.node.reported = true
	switch {
	case s.node.running:
		s.setStatus(corev1.PodRunning, running)
	case s.node.code == 0:
		s.setStatus(corev1.PodSucceeded, exited(0, "Completed"))
	default:
		s.setStatus(corev1.PodFailed, exited(s.node.code, "Error"))
	}
}

func (s *simulation) setStatus(phase corev1.PodPhase, state corev1.ContainerState) {
	s.pod.Status = corev1.PodStatus{Phase: phase,
		ContainerStatuses: []corev1.ContainerStatus{{Name: v1alpha1.RunnerContainerName, State: state}}}
	s.write(s.pod)
}

func (s *simulation) stop(code int32) {
	s.node.running, s.node.ended, s.node.code, s.node.reported = false, true, code, false
}

// losePod removes the pod, or begins to if a finalizer keeps it.
func (s *simulation) losePod() {
	if s.pod == nil || !s.node.kept {
		s.pod, s.node = nil, node{}
		return
	}
	if s.node.running {
		s.stop(137)
	}
	s.terminate(gracePeriod)
	s.node.gone = true
}

// release removes the finalizer that keeps the pod.
func (s *simulation) release() {
	s.node.kept = false
	if s.node.gone {
		s.losePod()
	}
}

// assign makes GitHub give a listening runner its one job.
func (s *simulation) assign() {
	s.busy = s.busy || (s.node.running && s.runnerID != 0 && s.used[strconv.Itoa(s.runnerID)])
}

// report makes the listener report that the job has started or, late, that one has ended.
func (s *simulation) report() {
	switch {
	case s.runner == nil:
	case s.late > 0:
		s.reportEnd()
	case s.busy:
		s.runner.Status.JobID = "job"
		s.write(s.runner)
	}
}

func (s *simulation) reportEnd() {
	s.late = 0
	s.runner.Status.JobID, s.runner.Status.JobResult = "job", "succeeded"
	s.write(s.runner)
}

// finish ends the job, or makes GitHub give up a job that has lost its pod; the report of that may be late or get lost.
func (s *simulation) finish() {
	if !s.busy {
		return
	}
	s.busy, s.runnerID = false, 0
	if s.node.running {
		s.stop(0)
	}
	switch what := s.random.IntN(4); {
	case s.runner == nil || what == 0:
	case what == 1:
		s.late = 1
	default:
		s.reportEnd()
	}
}

// befall hits the container, the pod, or its node.
func (s *simulation) befall() {
	switch {
	case s.pod == nil:
	case s.chance(3) && s.node.running:
		s.stop(137)
	case s.chance(3):
		s.losePod() // deleted by hand, immediately
	case s.chance(2) && s.pod.Spec.NodeName != "":
		s.node.lost, s.node.running = true, false
		s.terminate(gracePeriod)
	}
}

// end makes everything go well from now on, so the runner ends or waits for a job. Then the set deletes it.
func (s *simulation) end() {
	s.calm = true
	s.goOn(100)
	s.release() // whoever keeps pods gives them up
	s.goOn(60)
	if s.runner != nil && !s.atRest() {
		s.wrong("stuck: status %+v, pod %t, node %+v, registration %d", s.runner.Status, s.pod != nil, s.node,
			s.runnerID)
	}
	s.deleteRunner()
	s.goOn(60)
	if s.runner != nil || s.pod != nil || s.secret != nil || s.runnerID != 0 {
		s.wrong("left: runner %t, pod %t, Secret %t, registration %d",
			s.runner != nil, s.pod != nil, s.secret != nil, s.runnerID)
	}
}

// atRest reports whether the runner has ended, waits for a job, or waits for its set, which deletes it after its job is
// reported completed.
func (s *simulation) atRest() bool {
	waits := s.node.running && (s.busy || s.runnerID != 0)
	return waits || s.runner.Status.Done() || s.runner.Status.JobCompleted()
}

// goOn lets everything continue for n times ten seconds.
func (s *simulation) goOn(n int) {
	for range n {
		s.later(10 * time.Second)
		s.kubelet()
		s.finish()
		s.show(true, true)
		s.passesDue()
	}
}
