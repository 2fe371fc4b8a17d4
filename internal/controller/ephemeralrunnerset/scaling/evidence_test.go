package scaling_test

import (
	"slices"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/scaling"
	"github.com/harrier-ci/harrier/internal/feedback"
)

// lostIn returns a runner whose job of a workflow run was lost.
func lostIn(run int64, decision v1alpha1.RerunState) roster.Runner {
	return with(failedJob, func(r *roster.Runner) {
		r.LostJob = &feedback.Lost{
			Cause: v1alpha1.LostCauseEvicted, Run: feedback.Run{Repository: "acme/web", ID: run},
			Rerun: v1alpha1.RerunStatus{State: decision},
		}
	})
}

// The newest hundred runners with a lost job stay for an hour, to be looked at. With reruns a runner stays for longer
// while something is undecided about its workflow run, and takes room from the others.
func TestLostRunnersStayAsEvidence(t *testing.T) {
	const limit = 100
	decided, undecided := lostIn(1, v1alpha1.RerunGivenUp), lostIn(2, "")
	decidedBesideUndecided := lostIn(2, v1alpha1.RerunDone)
	type group struct {
		runner roster.Runner
		count  int
	}
	tests := map[string]struct {
		reruns    bool
		groups    []group // the oldest first
		gone      int     // of the oldest
		goneLater int     // after an hour
	}{
		"as many as may stay":       {false, []group{{decided, limit}}, 0, limit},
		"one more":                  {false, []group{{decided, limit + 1}}, 1, limit + 1},
		"undecided without reruns":  {false, []group{{undecided, limit + 1}}, 1, limit + 1},
		"undecided":                 {true, []group{{undecided, limit + 1}}, 0, 0},
		"undecided and newer":       {true, []group{{decided, limit}, {undecided, 1}}, 1, limit},
		"of a run that is":          {true, []group{{decided, limit}, {decidedBesideUndecided, 1}, {undecided, 1}}, 2, limit},
		"more than there is room":   {true, []group{{decided, 1}, {undecided, limit + 1}}, 1, 1},
		"decided, and reruns there": {true, []group{{decided, limit + 1}}, 1, limit + 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newScenario(0)
			s.reruns = test.reruns
			for _, g := range test.groups {
				s.add(g.count, g.runner)
			}
			all := slices.Clone(s.runners)
			if got := names(s.pass().With(scaling.Delete)); len(got) > 0 {
				t.Errorf("it deletes %v while GitHub counts their jobs to them", got)
			}
			// GitHub never tells what became of the jobs.
			p := s.later(heldTimeout).publish(0).pass()
			if got, want := names(p.With(scaling.Delete)), names(all[:test.gone]); !sameNames(got, want) {
				t.Errorf("it deletes %d, want the oldest %d: %v", len(got), len(want), got)
			}
			later := start.Add(time.Hour)
			if test.goneLater > test.gone && !p.RequeueAt.Equal(later) {
				t.Errorf("again at %s, want %s", p.RequeueAt, later)
			}
			s.now = later
			if got, want := names(s.pass().With(scaling.Delete)), names(all[:test.goneLater]); !sameNames(got, want) {
				t.Errorf("after an hour it deletes %d, want the oldest %d: %v", len(got), len(want), got)
			}
		})
	}
}

// sameNames reports whether two lists have the same names, in any order.
func sameNames(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
