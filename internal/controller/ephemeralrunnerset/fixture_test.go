package ephemeralrunnerset

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// start is when every history in these tests begins.
var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// history drives a memory through passes at chosen moments, the way Reconcile does.
type history struct {
	*memory
	now     time.Time
	patchID int
	runners []*runner
	want    demand
	made    int
}

func newHistory(replicas int) *history {
	return &history{
		memory: newMemory(), now: start, patchID: 1,
		want: demand{
			replicas: replicas, assignedJobs: replicas, maxRunners: 1000,
			failedHistory: defaultFailedHistory, registrationTimeout: defaultRegistrationTimeout,
		},
	}
}

// add makes runners in the given state and returns the last.
func (h *history) add(n int, shape runner) *runner {
	var last *runner
	for range n {
		h.made++
		r := shape
		r.name = fmt.Sprintf("runner-%d", h.made)
		r.uid = types.UID(r.name)
		if r.created.IsZero() {
			r.created = h.now
		}
		h.runners = append(h.runners, &r)
		last = &r
	}
	return last
}

// pass notes and plans at the present moment.
func (h *history) pass() *plan {
	h.memory.note(h.runners, h.patchID, "template", h.now)
	return h.memory.plan(h.runners, h.want, 0)
}

// later lets time pass.
func (h *history) later(d time.Duration) *history {
	h.now = h.now.Add(d)
	return h
}

// publish lets the listener publish a figure.
func (h *history) publish(replicas int) *history {
	h.patchID++
	h.want.replicas, h.want.assignedJobs = replicas, replicas
	return h
}

// Runners in the states that matter.
var (
	starting  = runner{}
	idle      = runner{phase: v1alpha1.EphemeralRunnerPhaseRunning, registration: 7}
	busyOne   = runner{phase: v1alpha1.EphemeralRunnerPhaseRunning, registration: 7, hasJob: true, jobPatchID: 1}
	succeeded = runner{phase: v1alpha1.EphemeralRunnerPhaseSucceeded, registration: 7, hasJob: true}
	failedJob = runner{phase: v1alpha1.EphemeralRunnerPhaseFailed, registration: 7, hasJob: true}
	failedOne = runner{phase: v1alpha1.EphemeralRunnerPhaseFailed, reason: "ErrImagePull", message: "no such image"}
	outdated  = runner{phase: v1alpha1.EphemeralRunnerPhaseOutdated}
	lingering = runner{phase: v1alpha1.EphemeralRunnerPhaseRunning, registration: 7, hasJob: true, completed: true, jobPatchID: 1}
)

func names(runners []*runner) []string {
	var all []string
	for _, r := range runners {
		all = append(all, r.name)
	}
	return all
}
