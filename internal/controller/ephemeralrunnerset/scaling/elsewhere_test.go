package scaling_test

import (
	"testing"
	"time"
	"unique"

	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/scaling"
)

// outcome has the plan for the set's only runner, and its time.
type outcome struct {
	after time.Duration
	what  string
}

// outcomeOf plans every 15 s for the length of the longest pause, and publishes a figure each time.
func (s *scenario) outcomeOf() outcome {
	for began := s.now; s.now.Sub(began) <= askWorkingInterval+heldTimeout; s.later(15 * time.Second).
		publish(s.spec.Replicas) {
		p := s.pass()
		for what, list := range map[string][]*roster.Runner{
			"delete": p.With(scaling.Delete), "delete unregistered": p.With(scaling.DeleteUnregistered),
			"deregister": p.With(scaling.Deregister), "look up": p.With(scaling.LookUp),
		} {
			if len(list) == 1 {
				return outcome{s.now.Sub(began), what}
			}
		}
	}
	return outcome{what: "nothing"}
}

func TestRunnerOfAFormerAddress(t *testing.T) {
	shaped := func(shape roster.Runner, registration int, template string) roster.Runner {
		shape.RegistrationID, shape.Template = registration, template
		return shape
	}
	for name, test := range map[string]struct {
		shape roster.Runner
		want  outcome // elsewhere
		here  outcome // the same runner at the set's own address
	}{
		"not registered":  {shaped(starting, 0, "former"), outcome{what: "delete unregistered"}, outcome{what: "delete unregistered"}},
		"registered":      {shaped(starting, 7, "former"), outcome{what: "delete"}, outcome{what: "deregister"}},
		"idle":            {shaped(idle, 7, "former"), outcome{what: "delete"}, outcome{what: "deregister"}},
		"idle, ARC's":     {shaped(idle, 7, ""), outcome{what: "delete"}, outcome{idleGrace, "look up"}},
		"busy":            {shaped(busyOne, 7, "former"), outcome{askWorkingInterval, "delete"}, outcome{askWorkingInterval, "look up"}},
		"completed":       {shaped(lingering, 7, "former"), outcome{lingerGrace, "delete"}, outcome{lingerGrace, "deregister"}},
		"failed in a job": {shaped(failedJob, 7, "former"), outcome{what: "delete"}, outcome{what: "deregister"}},
	} {
		t.Run(name, func(t *testing.T) {
			for where, want := range map[string]outcome{"https://github.com/old": test.want,
				"https://github.com/new": test.here} {
				s := newScenario(1)
				s.configURL = unique.Make("https://github.com/new")
				shape := test.shape
				shape.ConfigURL = unique.Make(where)
				s.add(1, shape)
				if got := s.outcomeOf(); got != want {
					t.Errorf("registered at %s: %v, want %v", where, got, want)
				}
			}
		})
	}
}
