package history

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// story writes a history by hand. Each step takes a second.
type story struct {
	History
	now      time.Time
	revision uint64
	set      Set
	runners  map[string]*Runner
	pods     map[string]*Pod
}

var beginning = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newStory(replicas, maxRunners int) *story {
	s := &story{now: beginning, runners: map[string]*Runner{}, pods: map[string]*Pod{}}
	s.set = Set{UID: "set", Name: "set", Replicas: replicas, PatchID: 1, MaxRunners: &maxRunners}
	s.step(Change{By: Other, Verb: "create", Set: s.copyOfSet()})
	return s
}

func (s *story) copyOfSet() *Set {
	set, maxRunners := s.set, *s.set.MaxRunners
	set.MaxRunners = &maxRunners
	return &set
}

// step adds a change.
func (s *story) step(c Change) {
	s.now = s.now.Add(time.Second)
	s.revision++
	c.Received, c.Answered, c.Revision = s.now, s.now, s.revision
	s.Changes = append(s.Changes, c)
}

func (s *story) wait(duration time.Duration) { s.now = s.now.Add(duration) }

// patch writes what the listener writes with each evaluation.
func (s *story) patch(replicas int) {
	s.set.Replicas = replicas
	s.set.PatchID++
	s.step(Change{By: Listener, Verb: "patch", Set: s.copyOfSet()})
}

func (s *story) limit(maxRunners int) {
	s.set.MaxRunners = &maxRunners
	s.step(Change{By: Manager, Verb: "patch", Set: s.copyOfSet()})
}

// create creates runners, each with a pod.
func (s *story) create(names ...string) {
	for _, name := range names {
		s.createWithoutPod(name)
		s.start(name)
	}
}

func (s *story) createWithoutPod(name string) {
	s.runners[name] = &Runner{UID: name, Name: name, SetUID: "set"}
	runner := *s.runners[name]
	s.step(Change{By: Manager, Verb: "create", Runner: &runner})
}

func (s *story) start(name string) {
	s.pods[name] = &Pod{UID: fmt.Sprintf("pod %d of %s", s.revision, name), Name: name, RunnerUID: name}
	pod := *s.pods[name]
	s.step(Change{By: Manager, Verb: "create", Pod: &pod})
}

// report changes the runner's status, as listener or manager would.
func (s *story) report(name string, change func(*Runner)) {
	change(s.runners[name])
	runner := *s.runners[name]
	s.step(Change{By: Listener, Verb: "patch", Runner: &runner})
}

func (s *story) started(name string) { s.report(name, func(r *Runner) { r.HasJob = true }) }

// completed is reported with a patchID.
func (s *story) completed(name string, patchID int) {
	s.report(name, func(r *Runner) { r.HasJob, r.Completed, r.JobPatchID = true, true, patchID })
}

func (s *story) podEnds(name string, well bool) {
	s.pods[name].Succeeded, s.pods[name].Failed = well, !well
	pod := *s.pods[name]
	s.step(Change{By: Other, Verb: "patch", Pod: &pod})
}

func (s *story) deleteRunner(name string) {
	s.runners[name].Deleting = true
	runner := *s.runners[name]
	s.step(Change{By: Manager, Verb: "delete", Runner: &runner})
}

func (s *story) deletePod(name string, by Actor) {
	s.pods[name].Deleting = true
	pod := *s.pods[name]
	s.step(Change{By: by, Verb: "delete", Pod: &pod})
}

func (s *story) gone(names ...string) {
	for _, name := range names {
		s.step(Change{By: Collector, Verb: "delete", Pod: s.pods[name], Gone: true})
		s.step(Change{By: Manager, Verb: "patch", Runner: s.runners[name], Gone: true})
	}
}

// chapter is a history and what Check has to say about it: nothing or one line for each text, which contains it.
type chapter struct {
	tell func() *story
	want []string
}

func check(t *testing.T, chapters map[string]chapter) {
	t.Helper()
	for name, c := range chapters {
		t.Run(name, func(t *testing.T) {
			told := c.tell()
			// Order must not matter: several requests are answered at a time.
			slices.Reverse(told.Changes)
			got := told.Check()
			if len(got) != len(c.want) {
				t.Fatalf("got %q, want %q", got, c.want)
			}
			for i := range got {
				if !strings.Contains(got[i], c.want[i]) {
					t.Errorf("got %q, want %q", got[i], c.want[i])
				}
			}
		})
	}
}
