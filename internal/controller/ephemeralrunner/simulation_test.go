package ephemeralrunner

import (
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/pool"
)

const (
	simulations = 2000
	length      = 60
)

// Whatever happens to a runner, no running job's pod is deleted, no JIT config starts two containers, and in the end pod,
// Secret and registration are gone.
func TestAnySimulationEndsWell(t *testing.T) {
	t.Logf("%d simulations of %d events, seeds 0 to %d", simulations, length, simulations-1)
	for seed := range uint64(simulations) {
		controllertest.InBubble(t, func(t *testing.T, workers *pool.Pool) {
			s := newSimulation(t, workers, seed)
			for range length {
				s.happen()
				s.pass()
			}
			s.end()
		})
		if t.Failed() {
			return
		}
	}
}

// happen lets one thing happen.
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
	case what == 22 && s.chance(3):
		s.deleteRunner()
	case what == 23 && s.chance(2):
		s.secret = nil // by hand
	case what == 24 && s.chance(2):
		s.befall()
	}
	s.show(s.chance(2), s.chance(2))
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
		s.losePod()
	case !s.node.running && !s.node.ended && s.pod.Status.Phase == "":
		s.start()
	case !s.node.reported:
		s.reportPod()
	case s.node.running && s.runnerID == 0:
		s.stop(0) // GitHub does not know it
	}
}

// start: the container starts, or does not.
func (s *simulation) start() {
	switch {
	case s.fault(8):
		s.setStatus(corev1.PodFailed, corev1.ContainerState{})
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

// reportPod brings what is true to the API server.
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
	s.pod.Status = corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{{Name: v1alpha1.RunnerContainerName, State: state}}}
	s.write(s.pod)
}

func (s *simulation) stop(code int32) {
	s.node.running, s.node.ended, s.node.code, s.node.reported = false, true, code, false
}

func (s *simulation) losePod() { s.pod, s.node = nil, node{} }

// assign: GitHub gives a runner that listens its one job.
func (s *simulation) assign() {
	s.busy = s.busy || s.node.running && s.runnerID != 0 && s.used[strconv.Itoa(s.runnerID)]
}

// report: the listener reports that the job has started, or, late, that one has ended.
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

// finish: the job ends, or GitHub gives one up that has lost its pod; the report of that may be late, or get lost.
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

// befall takes the container, the pod, or its node.
func (s *simulation) befall() {
	switch {
	case s.pod == nil:
	case s.chance(3) && s.node.running:
		s.stop(137)
	case s.chance(3):
		s.losePod() // deleted by hand, at once
	case s.chance(2) && s.pod.Spec.NodeName != "":
		s.node.lost, s.node.running = true, false
		s.terminate()
	}
}

// end: the set deletes the runner, and from now on everything goes well.
func (s *simulation) end() {
	s.calm = true
	for range 60 {
		s.later(10 * time.Second)
		s.kubelet()
		s.finish()
		s.show(true, true)
		s.pass()
	}
	s.deleteRunner()
	for range 60 {
		s.later(10 * time.Second)
		s.kubelet()
		s.finish()
		s.show(true, true)
		s.pass()
	}
	if s.runner != nil || s.pod != nil || s.secret != nil || s.runnerID != 0 {
		s.wrong("left: runner %t, pod %t, Secret %t, registration %d",
			s.runner != nil, s.pod != nil, s.secret != nil, s.runnerID)
	}
}
