package scaling_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/departures"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/scaling"
	"github.com/harrier-ci/harrier/internal/kube/nodes"
	"github.com/harrier-ci/harrier/internal/registrations"
)

var (
	cordon    = nodes.SignsOf(&corev1.Node{Spec: corev1.NodeSpec{Unschedulable: true}})
	disrupted = nodes.SignsOf(&corev1.Node{Spec: corev1.NodeSpec{
		Taints: []corev1.Taint{{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoSchedule}},
	}})
)

func TestWhichRunnersLeaveANode(t *testing.T) {
	tolerant := func(r *roster.Runner) { r.Tolerates = cordon }
	for name, test := range map[string]struct {
		runner roster.Runner
		signs  nodes.Signs
		want   scaling.Action
	}{
		"idle":                                {idle, cordon, scaling.Deregister},
		"idle, another sign":                  {idle, disrupted, scaling.Deregister},
		"not registered yet":                  {starting, cordon, scaling.DeleteUnregistered},
		"idle, came with the sign":            {with(idle, func(r *roster.Runner) { r.Arrival = 5 }), cordon, scaling.Deregister},
		"came after the sign":                 {with(idle, func(r *roster.Runner) { r.Arrival = 6 }), cordon, scaling.None},
		"not registered, came after the sign": {with(starting, func(r *roster.Runner) { r.Arrival = 6 }), cordon, scaling.None},
		"tolerates the sign":                  {with(idle, tolerant), cordon, scaling.None},
		"tolerates one of two":                {with(idle, tolerant), cordon | disrupted, scaling.Deregister},
		"its template names the node":         {with(idle, func(r *roster.Runner) { r.Pinned = true }), cordon, scaling.None},
		"has a job":                           {busyOne, cordon, scaling.None},
		"GitHub refused once":                 {with(idle, func(r *roster.Runner) { r.Draining = true }), cordon, scaling.None},
		"has ended its job":                   {with(lingering, func(r *roster.Runner) { r.JobPatchID = 2 }), cordon, scaling.None},
		"is being deleted":                    {with(idle, func(r *roster.Runner) { r.Deleting = true }), cordon, scaling.None},
		"failed":                              {failedOne, cordon, scaling.None},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScenario(1)
			r := s.add(1, test.runner)
			other := s.add(1, idle) // elsewhere
			s.spec.Replicas = 2
			s.departing = map[types.UID]departures.Departure{r.UID: {Node: "n", Signs: test.signs, Arrivals: 5}}
			p := s.pass()
			if p.decided(r) != test.want || p.decided(other) != scaling.None {
				t.Errorf("decided %v, want %v; about a runner elsewhere %v", p.decided(r), test.want, p.decided(other))
			}
			if moved := slices.Contains(p.Moved, r); moved != (test.want != scaling.None) {
				t.Errorf("moved: %t", moved)
			}
		})
	}
}

// GitHub says that a runner has a job: it stays, and counts as working. Another one goes: it is deleted and replaced in
// the same pass, unless there would be more than maxRunners while it ends.
func TestGitHubDecidesWhoLeaves(t *testing.T) {
	for most, create := range map[int]int{3: 1, 2: 0} {
		s := newScenario(2)
		s.spec.MaxRunners = new(most)
		busy, free := s.add(1, idle), s.add(1, idle)
		s.departing = map[types.UID]departures.Departure{busy.UID: {Signs: cordon}, free.UID: {Signs: cordon}}
		if p := s.pass(); len(p.With(scaling.Deregister)) != 2 || p.create != 0 {
			t.Errorf("asked about %v, create %d; want both asked about, and nobody created",
				names(p.With(scaling.Deregister)), p.create)
		}
		s.answer(busy, registrations.Busy)
		s.answer(free, registrations.Removed)
		p := s.later(time.Second).pass()
		if p.decided(busy) != scaling.None || p.decided(free) != scaling.Delete || s.working(p) != 1 ||
			p.create != create {
			t.Errorf("decided %v about the busy one, %v about the other; %d working, create %d of %d",
				p.decided(busy), p.decided(free), s.working(p), p.create, create)
		}
		s.out.Expected = create
		*free = with(*free, func(r *roster.Runner) { r.Deleting = true })
		if p := s.pass(); p.create != 0 || len(p.going()) != 0 {
			t.Errorf("create %d and remove %v more", p.create, names(p.going()))
		}
	}
}

// Whoever leaves a node counts as a victim of the surplus; nobody else goes for it.
func TestRunnerThatLeavesIsTheSurplus(t *testing.T) {
	s := newScenario(0)
	s.add(2, idle)
	s.pass()
	s.later(surplusPatience).publish(1)
	s.departing = map[types.UID]departures.Departure{s.runners[1].UID: {Signs: cordon}}
	if p := s.pass(); !slices.Equal(names(p.going()), []string{"runner-2"}) {
		t.Errorf("%v go, want only the one on the node", names(p.going()))
	}
}
