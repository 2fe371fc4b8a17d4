package ephemeralrunnerset

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/creations"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/departures"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
)

// start is when every scenario in these tests begins.
var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// scenario takes a set's history through passes at chosen moments, the way Reconcile does.
type scenario struct {
	*history
	now       time.Time
	patchID   int
	runners   []*roster.Runner
	configURL roster.ConfigURL
	// departing has the runners on nodes that are about to go away.
	departing map[types.UID]departures.Departure
	want      demand
	out       creations.Unseen
	made      int
}

func newScenario(replicas int) *scenario {
	return &scenario{
		history: newHistory(&creations.Memory{}), now: start, patchID: 1,
		want: demand{
			replicas: replicas, assignedJobs: replicas, maxRunners: 1000,
			failedHistoryLimit: defaultFailedHistoryLimit, registrationTimeout: defaultRegistrationTimeout,
		},
	}
}

// add adds n runners in the given state and returns the last one.
func (s *scenario) add(n int, shape roster.Runner) *roster.Runner {
	var last *roster.Runner
	for range n {
		s.made++
		r := shape
		r.Name = fmt.Sprintf("runner-%d", s.made)
		r.UID = types.UID(r.Name)
		if r.CreatedAt.IsZero() {
			r.CreatedAt = s.now
		}
		s.runners = append(s.runners, &r)
		last = &r
	}
	return last
}

// pass notes and plans at the present moment.
func (s *scenario) pass() *plan {
	s.note(s.seen())
	p := s.history.plan(s.runners, s.want, s.out)
	s.follow(p)
	return p
}

// seen returns what a pass sees at the present moment.
func (s *scenario) seen() seen {
	return seen{now: s.now, runners: s.runners, patchID: s.patchID, template: "template", configURL: s.configURL, departing: s.departing}
}

// later lets time pass.
func (s *scenario) later(d time.Duration) *scenario {
	s.now = s.now.Add(d)
	return s
}

// publish makes the listener publish a figure.
func (s *scenario) publish(replicas int) *scenario {
	s.patchID++
	s.want.replicas, s.want.assignedJobs = replicas, replicas
	return s
}

// Runners in the states that matter.
var (
	starting  = roster.Runner{}
	idle      = roster.Runner{Phase: v1alpha1.EphemeralRunnerPhaseRunning, RegistrationID: 7}
	busyOne   = roster.Runner{Phase: v1alpha1.EphemeralRunnerPhaseRunning, RegistrationID: 7, HadJob: true, JobPatchID: 1}
	succeeded = roster.Runner{Phase: v1alpha1.EphemeralRunnerPhaseSucceeded, RegistrationID: 7, HadJob: true}
	failedJob = roster.Runner{Phase: v1alpha1.EphemeralRunnerPhaseFailed, RegistrationID: 7, HadJob: true}
	failedOne = roster.Runner{Phase: v1alpha1.EphemeralRunnerPhaseFailed, Reason: "ErrImagePull", Message: "no such image"}
	outdated  = roster.Runner{Phase: v1alpha1.EphemeralRunnerPhaseOutdated}
	lingering = roster.Runner{Phase: v1alpha1.EphemeralRunnerPhaseRunning, RegistrationID: 7, HadJob: true, Completed: true, JobPatchID: 1}
)

// going returns the runners that the plan removes.
func (p *plan) going() []*roster.Runner {
	return slices.Concat(p.with(actionDelete), p.with(actionDeleteUnregistered), p.with(actionDeregister))
}

func names(runners []*roster.Runner) []string {
	var all []string
	for _, r := range runners {
		all = append(all, r.Name)
	}
	return all
}
