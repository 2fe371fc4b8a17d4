package history

import (
	"testing"
	"time"
)

// after is long enough for whoever acts to have seen what came before.
const after = 2 * usualLate

// Each row of the table of decision 0007: a runner of one slot, and another one is created.
func TestSlots(t *testing.T) {
	occupied := []string{"although 1 slots were occupied of 1"}
	row := func(tell func(s *story)) func() *story {
		return func() *story {
			s := newStory(1, 10)
			s.create("a")
			s.wait(after)
			tell(s)
			s.wait(after)
			s.createWithoutPod("b")
			return s
		}
	}
	check(t, map[string]chapter{
		"waiting": {row(func(*story) {}), occupied},
		"working": {row(func(s *story) { s.started("a") }), occupied},
		"completed, its patchID seen, the pod still ends": {row(func(s *story) {
			s.started("a")
			s.patch(1)
			s.completed("a", s.set.PatchID)
		}), nil},
		"completed, its patchID not seen, the pod lives": {row(func(s *story) { s.completed("a", s.set.PatchID+1) }), occupied},
		"completed, its patchID not seen, the pod has ended": {row(func(s *story) {
			s.completed("a", s.set.PatchID+1)
			s.podEnds("a", true)
		}), occupied},
		"completed, a later patchID seen": {row(func(s *story) {
			s.completed("a", s.set.PatchID+1)
			s.podEnds("a", true)
			s.patch(1)
			s.patch(1)
		}), nil},
		"version refused":        {row(func(s *story) { s.report("a", func(r *Runner) { r.Outdated = true }) }), nil},
		"failed without a job":   {row(func(s *story) { s.report("a", func(r *Runner) { r.Failed = true }) }), nil},
		"pod failed, to restart": {row(func(s *story) { s.podEnds("a", false) }), occupied},
		"ended well, no patchID": {row(func(s *story) { s.podEnds("a", true) }), occupied},
		"ended well, a patchID much later": {row(func(s *story) {
			s.podEnds("a", true)
			s.wait(settles)
			s.patch(1)
		}), nil},
		"ended well, a patchID before": {row(func(s *story) {
			s.patch(1)
			s.wait(after)
			s.podEnds("a", true)
		}), occupied},
		"ended well because GitHub removed it": {row(func(s *story) {
			s.podEnds("a", true)
			s.Registrations = []Registration{{ID: 1, Name: "a", Since: beginning, Until: s.now}}
		}), nil},
		"ended well, removed after its job": {row(func(s *story) {
			s.podEnds("a", true)
			s.Jobs = []Job{{ID: 1, Runner: "a", Started: beginning, Completed: s.now}}
			s.Registrations = []Registration{{ID: 1, Name: "a", Since: beginning, Until: s.now}}
		}), occupied},
		"ended well, still registered": {row(func(s *story) {
			s.podEnds("a", true)
			s.Registrations = []Registration{{ID: 1, Name: "a", Since: beginning}}
		}), occupied},
		"being deleted": {row(func(s *story) { s.deleteRunner("a") }), nil},
		"being deleted with its job": {row(func(s *story) {
			s.started("a")
			s.deleteRunner("a")
		}), occupied},
		"gone": {row(func(s *story) { s.gone("a") }), nil},
	})
}

func TestSlotOfRunnerThatFailedWithItsJob(t *testing.T) {
	failed := func(removed time.Duration, then func(s *story)) func() *story {
		return func() *story {
			s := newStory(1, 10)
			s.create("a")
			s.started("a")
			s.podEnds("a", false)
			s.report("a", func(r *Runner) { r.Failed = true })
			registration := Registration{ID: 1, Name: "a", Since: beginning}
			if removed > 0 {
				registration.Until = s.now.Add(removed)
			}
			s.Registrations = []Registration{registration}
			then(s)
			s.createWithoutPod("b")
			return s
		}
	}
	occupied := []string{"although 1 slots were occupied of 1"}
	patchLate := func(s *story) { s.wait(time.Minute); s.patch(1); s.wait(after) }
	check(t, map[string]chapter{
		"GitHub has not let go":                  {failed(0, patchLate), occupied},
		"GitHub has let go, then a patchID":      {failed(10*time.Second, patchLate), nil},
		"GitHub has let go, no patchID since":    {failed(10*time.Second, func(s *story) { s.patch(1); s.wait(time.Minute) }), occupied},
		"GitHub has not let go for a quarter":    {failed(0, func(s *story) { s.wait(heldAtMost); s.patch(1); s.wait(after) }), nil},
		"GitHub has not let go for five minutes": {failed(0, func(s *story) { s.wait(heldAtMost / 3); s.patch(1); s.wait(after) }), occupied},
	})
}

// The listener may have asked for runners before the maximum was raised.
func TestSlotsOfARaisedMaximum(t *testing.T) {
	created := func(names ...string) func() *story {
		return func() *story {
			s := newStory(1, 1)
			s.MinRunners, s.set.AssignedJobs = 1, 1
			s.patch(1)
			s.limit(10)
			for _, name := range names {
				s.createWithoutPod(name)
			}
			return s
		}
	}
	check(t, map[string]chapter{
		"as many as its jobs and minRunners need, since the maximum was raised": {created("a", "b"), nil},
		"and one more": {created("a", "b", "c"), []string{"although 2 slots were occupied of 2"}},
	})
}

// A creation is judged by the knowledge of its maker: a slot that was occupied just now may still have looked free to
// it.
func TestCreations(t *testing.T) {
	tooMany := "although 2 slots were occupied of 2"
	check(t, map[string]chapter{
		"as many as are wanted": {func() *story {
			s := newStory(2, 10)
			s.createWithoutPod("a")
			s.createWithoutPod("b")
			return s
		}, nil},
		"one more, at once": {func() *story {
			s := newStory(2, 10)
			s.createWithoutPod("a")
			s.createWithoutPod("b")
			s.createWithoutPod("c")
			return s
		}, []string{tooMany}},
		"replicas fell a moment ago": {func() *story {
			s := newStory(2, 10)
			s.wait(after)
			s.patch(0)
			s.createWithoutPod("a")
			return s
		}, nil},
		"replicas fell long ago": {func() *story {
			s := newStory(2, 10)
			s.wait(after)
			s.patch(0)
			s.wait(after)
			s.createWithoutPod("a")
			return s
		}, []string{"although 0 slots were occupied of 0"}},
		"replicas fell while requests were held up": {func() *story {
			s := newStory(2, 10)
			s.wait(after)
			s.Disturbed = []Interval{{s.now, s.now.Add(after)}}
			s.patch(0)
			s.wait(after)
			s.createWithoutPod("a")
			return s
		}, nil},
		"a job was reported while the runner was being deleted": {func() *story {
			s := newStory(1, 10)
			s.create("a")
			s.deleteRunner("a")
			s.wait(after)
			s.started("a")
			s.createWithoutPod("b")
			return s
		}, nil},
		"the API server was away": {func() *story {
			s := newStory(1, 10)
			s.create("a")
			s.wait(after)
			s.Blind = []Interval{{s.now, s.now.Add(after)}}
			s.createWithoutPod("b")
			return s
		}, nil},
		"a list after that shows what was missed": {func() *story {
			s := newStory(1, 10)
			s.create("a")
			s.step(Change{By: Other, Verb: "list", List: &List{Runners: []Runner{}}})
			s.step(Change{By: Other, Verb: "list", List: &List{Pods: []Pod{}}})
			s.wait(after)
			s.createWithoutPod("b")
			s.wait(after)
			s.createWithoutPod("c")
			return s
		}, []string{"runner c was created although 1 slots were occupied of 1"}},
	})
}
