package history

import (
	"testing"
	"time"
)

// Rule 1: runners alive, and the maxRunners in force when they were created.
func TestMaxRunners(t *testing.T) {
	check(t, map[string]chapter{
		"as many as allowed": {func() *story {
			s := newStory(5, 2)
			s.create("a", "b")
			return s
		}, nil},
		"one too many": {func() *story {
			s := newStory(5, 2)
			s.create("a", "b")
			s.createWithoutPod("c")
			return s
		}, []string{"runner c was created: 3 alive, maxRunners is 2"}},
		"a pod that still ends is alive": {func() *story {
			s := newStory(5, 1)
			s.create("a")
			s.completed("a", s.set.PatchID)
			s.deletePod("a", Manager)
			s.wait(after)
			s.createWithoutPod("b")
			return s
		}, []string{"runner b was created: 2 alive, maxRunners is 1"}},
		"a pod that has ended is not": {func() *story {
			s := newStory(5, 1)
			s.create("a")
			s.completed("a", s.set.PatchID)
			s.podEnds("a", true)
			s.create("b")
			return s
		}, nil},
		"lowered after they were created": {func() *story {
			s := newStory(5, 3)
			s.create("a", "b")
			s.createWithoutPod("c")
			s.limit(1)
			s.wait(after)
			s.start("c")
			return s
		}, nil},
		"lowered before the last was created": {func() *story {
			s := newStory(5, 3)
			s.create("a", "b")
			s.limit(1)
			s.wait(after)
			s.createWithoutPod("c")
			return s
		}, []string{"runner c was created: 3 alive, maxRunners is 1"}},
		"lowered a moment before": {func() *story {
			s := newStory(5, 3)
			s.create("a", "b")
			s.wait(after)
			s.limit(1)
			s.createWithoutPod("c")
			return s
		}, nil},
		"a pod that comes back after others took its place": {func() *story {
			s := newStory(2, 1)
			s.create("a")
			s.podEnds("a", false)
			s.createWithoutPod("b") // one too many by itself: a waits for its next pod
			s.start("b")
			s.start("a")
			return s
		}, []string{"runner b was created: 2 alive", "pod a was created: 2 alive, maxRunners was at most 1"}},
	})
}

// Rule 2: registrations of one name.
func TestRegistrations(t *testing.T) {
	at := func(seconds int) time.Time { return beginning.Add(time.Duration(seconds) * time.Second) }
	with := func(registrations ...Registration) func() *story {
		return func() *story {
			s := newStory(0, 1)
			s.Registrations = registrations
			return s
		}
	}
	check(t, map[string]chapter{
		"one after the other": {with(Registration{1, "org", "a", at(0), at(1)}, Registration{2, "org", "a", at(1), time.Time{}}), nil},
		"of two names":        {with(Registration{1, "org", "a", at(0), at(9)}, Registration{2, "org", "b", at(1), at(8)}), nil},
		"of two scopes":       {with(Registration{1, "org", "a", at(0), at(9)}, Registration{2, "org/b", "a", at(1), at(8)}), nil},
		"two at a time": {with(Registration{2, "org", "A", at(1), at(8)}, Registration{1, "org", "a", at(0), at(9)}),
			[]string{"runner A of org was registered as 2 while it was registered as 1"}},
		"the first is never removed": {with(Registration{1, "org", "a", at(0), time.Time{}}, Registration{2, "org", "a", at(9), at(10)}),
			[]string{"registered as 2 while it was registered as 1"}},
	})
}

// Rule 3: deletions of pods and the times of jobs.
func TestDeletionsOfPods(t *testing.T) {
	during := func(by Actor, before func(s *story), job Job) func() *story {
		return func() *story {
			s := newStory(1, 1)
			s.create("a")
			job.ID, job.Runner = 7, "a"
			s.Jobs = []Job{job}
			before(s)
			s.deletePod("a", by)
			return s
		}
	}
	at := func(seconds int) time.Time { return beginning.Add(time.Duration(seconds) * time.Second) }
	nothing := func(*story) {}
	running := Job{Started: at(1), Completed: at(100)}
	check(t, map[string]chapter{
		"by the manager":           {during(Manager, nothing, running), []string{"the manager deleted pod a during its job 7"}},
		"by the garbage collector": {during(Collector, nothing, running), []string{"the garbage collector deleted pod a during"}},
		"of a job that never ends": {during(Manager, nothing, Job{Started: at(1)}), []string{"deleted pod a during its job 7"}},
		"by somebody else":         {during(Other, nothing, running), nil},
		"after somebody else":      {during(Manager, func(s *story) { s.deletePod("a", Other) }, running), nil},
		"of a pod that has ended":  {during(Manager, func(s *story) { s.podEnds("a", false) }, running), nil},
		"before the job":           {during(Manager, nothing, Job{Started: at(50), Completed: at(100)}), nil},
		"after the job":            {during(Manager, nothing, Job{Started: at(1), Completed: at(2)}), nil},
	})
}

// Rule 5: changes by managers that do not hold the Lease.
func TestLeaders(t *testing.T) {
	at := func(seconds int) time.Time { return beginning.Add(time.Duration(seconds) * time.Second) }
	told := func(seconds int, credential string, leases ...LeaseWrite) func() *story {
		return func() *story {
			s := newStory(0, 1)
			s.Leases = leases
			s.Writes = []Write{{at(seconds), credential, "create pods/ a"}}
			return s
		}
	}
	old, renewed, next := LeaseWrite{at(0), "old", "x"}, LeaseWrite{at(5), "old", "x"}, LeaseWrite{at(20), "next", "y"}
	left := LeaseWrite{at(10), "old", ""}
	check(t, map[string]chapter{
		"by the leader":              {told(15, "old", old, renewed, next), nil},
		"by the next leader":         {told(25, "next", old, renewed, next), nil},
		"by the old leader":          {told(25, "old", old, renewed, next), []string{"create pods/ a by a manager, but another leads since 12:00:20.000"}},
		"sent before, arrives after": {told(20, "old", old, renewed, next), nil},
		"by a candidate":             {told(15, "next", old, renewed, next), []string{"another leads since 12:00:00.000"}},
		"while nobody leads":         {told(15, "old", old, left, next), nil},
		"by a process without Lease": {told(15, "old"), nil},
	})
}
