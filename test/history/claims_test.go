package history

import (
	"strings"
	"testing"
	"time"
)

// pool adds the set's rules for its claims.
func (s *story) pool(most int, results ...string) {
	s.step(Change{By: Other, Verb: "create", Pool: &Pool{UID: "pool", Name: "set", Max: &most, Results: results}})
}

// claim is created for a template of the set.
func (s *story) claim(name, template string) Claim {
	claim := Claim{UID: name, Name: name, Set: "set", Template: template}
	s.step(Change{By: Manager, Verb: "create", Claim: &claim})
	return claim
}

func (s *story) claimGoes(claim Claim) {
	s.step(Change{By: Other, Verb: "update", Claim: &claim, Gone: true})
}

// lease creates a runner that has claims, without a pod.
func (s *story) lease(name string, claims ...string) {
	s.runners[name] = &Runner{UID: name, Name: name, SetUID: "set", Claims: claims}
	runner := *s.runners[name]
	s.step(Change{By: Manager, Verb: "create", Runner: &runner})
}

// mount creates the runner's pod, which mounts its claims.
func (s *story) mount(name string) {
	s.pods[name] = &Pod{UID: "pod of " + name, Name: name, RunnerUID: name, Claims: s.runners[name].Claims}
	pod := *s.pods[name]
	s.step(Change{By: Manager, Verb: "create", Pod: &pod})
}

func (s *story) succeeded(name string) {
	s.podEnds(name, true)
	s.report(name, func(r *Runner) { r.HasJob, r.Completed, r.JobPatchID, r.Succeeded = true, true, s.set.PatchID, true })
}

// Rule 6: who has a claim.
func TestClaimsServeOneRunnerAtATime(t *testing.T) {
	check(t, map[string]chapter{
		"one after the other": {func() *story {
			s := newStory(5, 5)
			s.lease("a", "x")
			s.mount("a")
			s.succeeded("a")
			s.lease("b", "x")
			s.mount("b")
			return s
		}, nil},
		"two claims": {func() *story {
			s := newStory(5, 5)
			s.lease("a", "x", "y")
			s.lease("b", "z")
			s.mount("a")
			s.mount("b")
			return s
		}, nil},
		"two runners at a time": {func() *story {
			s := newStory(5, 5)
			s.lease("a", "x")
			s.lease("b", "x")
			return s
		}, []string{"runner b was created with claim x, which runner a has"}},
		"two runners, and their pods": {func() *story {
			s := newStory(5, 5)
			s.lease("a", "x", "y")
			s.mount("a")
			s.lease("b", "z", "y")
			s.mount("b")
			return s
		}, []string{
			"runner b was created with claim y, which runner a has", "runner b was created with claim y, which pod a mounts",
			"pod b was created with claim y, which pod a mounts",
		}},
		"a runner that is being deleted has it": {func() *story {
			s := newStory(5, 5)
			s.lease("a", "x")
			s.deleteRunner("a")
			s.lease("b", "x")
			return s
		}, []string{"runner b was created with claim x, which runner a has"}},
		"a runner that is gone hasn't": {func() *story {
			s := newStory(5, 5)
			s.lease("a", "x")
			s.mount("a")
			s.gone("a")
			s.lease("b", "x")
			return s
		}, nil},
		"a pod that outlives its runner has it": {func() *story {
			s := newStory(5, 5)
			s.lease("a", "x")
			s.mount("a")
			s.report("a", func(r *Runner) { r.Failed = true })
			s.lease("b", "x")
			return s
		}, []string{"runner b was created with claim x, which pod a mounts"}},
		"nobody knows while the API server is away": {func() *story {
			s := newStory(5, 5)
			s.Blind = []Interval{{beginning, beginning.Add(time.Hour)}}
			s.lease("a", "x")
			s.lease("b", "x")
			return s
		}, nil},
	})
}

// Rule 6: the number of claims.
func TestClaimsOfATemplate(t *testing.T) {
	check(t, map[string]chapter{
		"as many as allowed": {func() *story {
			s := newStory(5, 5)
			s.pool(2)
			s.claim("x", "go")
			s.claim("y", "go")
			s.claim("z", "docker")
			return s
		}, nil},
		"one too many": {func() *story {
			s := newStory(5, 5)
			s.pool(1)
			s.claim("x", "go")
			s.claim("y", "go")
			return s
		}, []string{"claim y was created: 2 of template go, max is 1"}},
		"in place of one that is gone": {func() *story {
			s := newStory(5, 5)
			s.pool(1)
			s.claimGoes(s.claim("x", "go"))
			s.claim("y", "go")
			return s
		}, nil},
		"max was lowered a moment before": {func() *story {
			s := newStory(5, 5)
			s.pool(2)
			s.claim("x", "go")
			s.wait(after)
			s.pool(1)
			s.claim("y", "go")
			return s
		}, nil},
		"max was lowered long before": {func() *story {
			s := newStory(5, 5)
			s.pool(2)
			s.claim("x", "go")
			s.pool(1)
			s.wait(after)
			s.claim("y", "go")
			return s
		}, []string{"claim y was created: 2 of template go, max is 1"}},
		"of somebody else": {func() *story {
			s := newStory(5, 5)
			s.pool(1)
			s.claim("x", "go")
			s.claim("data", "")
			return s
		}, nil},
	})
}

// Rule 6: after which jobs claims are passed on.
func TestClaimsAreNotPassedOnAfterUnwantedJobs(t *testing.T) {
	passedOn := func(result string, between func(*story, Claim)) func() *story {
		return func() *story {
			s := newStory(5, 5)
			s.pool(5, "succeeded")
			s.Jobs = []Job{{ID: 7, Runner: "a", Result: result, Started: beginning, Completed: beginning.Add(time.Second)}}
			s.lease("a", "x")
			claim := s.claim("x", "go")
			s.mount("a")
			s.succeeded("a")
			between(s, claim)
			s.lease("b", "x")
			return s
		}
	}
	nothing := func(*story, Claim) {}
	check(t, map[string]chapter{
		"wanted":   {passedOn("succeeded", nothing), nil},
		"unwanted": {passedOn("failed", nothing), []string{"runner b was created with claim x, in which job 7 ran"}},
		"unwanted, by the runner before last": {passedOn("failed", func(s *story, _ Claim) {
			s.lease("between", "x")
			s.mount("between")
			s.succeeded("between")
		}), []string{"runner between was created with claim x, in which job 7 ran",
			"runner b was created with claim x, in which job 7 ran"}},
		"another claim of the name": {passedOn("failed", func(s *story, claim Claim) {
			s.claimGoes(claim)
			claim.UID = "another"
			s.step(Change{By: Manager, Verb: "create", Claim: &claim})
		}), nil},
	})
}

// up has the container of the runner's pod start.
func (s *story) up(name string) {
	s.pods[name].Started = true
	pod := *s.pods[name]
	s.step(Change{By: Other, Verb: "patch", Pod: &pod})
}

// Rule 6: with keepAfter, nobody gets a claim with which a container has started before the job's report has come.
func TestClaimsAreNotPassedOnUnasked(t *testing.T) {
	// a has a pod, of which something becomes; then another pod mounts the claim, of the same runner or of b.
	told := func(pool func(*story), becomes func(*story), next string) func() *story {
		return func() *story {
			s := newStory(5, 5)
			pool(s)
			s.lease("a", "x")
			s.claim("x", "go")
			s.mount("a")
			becomes(s)
			if next == "b" {
				s.gone("a")
				s.lease("b", "x")
			} else {
				s.step(Change{By: Collector, Verb: "delete", Pod: s.pods["a"], Gone: true})
			}
			s.mount(next)
			last := &s.Changes[len(s.Changes)-1]
			last.Pod.UID = "the next pod"
			return s
		}
	}
	asks := func(s *story) { s.pool(5, "succeeded") }
	never := func(s *story) { s.pool(5) }
	fails := func(s *story) { s.up("a"); s.podEnds("a", false) }
	succeeds := func(s *story) { s.up("a"); s.succeeded("a") }
	begins := func(s *story) { s.up("a"); s.started("a"); s.podEnds("a", false) }
	// The report's answer is lost, as at a listener's end: the next change tells whether it was written.
	unanswered := func(s *story) {
		begins(s)
		before := *s.runners["a"]
		s.step(Change{By: Listener, Verb: "patch", Runner: &before, Gone: true, Lost: true})
	}
	const second, silent = "with which an earlier pod of its runner had started", "nobody has reported its job"
	check(t, map[string]chapter{
		"the pod never started, the same runner":  {told(asks, func(s *story) { s.podEnds("a", false) }, "a"), nil},
		"the pod never started, another runner":   {told(asks, func(s *story) { s.podEnds("a", false) }, "b"), nil},
		"it failed, the same runner":              {told(asks, fails, "a"), []string{second}},
		"it failed, another runner":               {told(asks, fails, "b"), []string{silent}},
		"its job's end was not reported, another": {told(asks, begins, "b"), []string{silent}},
		"its job was reported, another runner":    {told(asks, succeeds, "b"), nil},
		"its report was not answered, another":    {told(asks, unanswered, "b"), nil},
		"and was written, another": {told(asks, func(s *story) {
			unanswered(s)
			s.report("a", func(r *Runner) { r.Completed = true })
		}, "b"), nil},
		"and was not written, another": {told(asks, func(s *story) {
			unanswered(s)
			s.report("a", func(r *Runner) { r.Deleting = true })
		}, "b"), []string{silent}},
		"its job was reported, the same runner": {told(asks, succeeds, "a"), []string{second}},
		"nobody asks, the same runner":          {told(never, fails, "a"), nil},
		"nobody asks, another runner":           {told(never, fails, "b"), nil},
	})
}

// The same from an API server's log, as a manager leaves it that tries a failed runner again: that the pod has started
// is what its kubelet writes.
func TestASecondPodWithAClaimIsFoundInALog(t *testing.T) {
	for state, want := range map[string]int{
		`{"running": {}}`: 1, `{"terminated": {"exitCode": 1}}`: 1, `{"waiting": {"reason": "ImagePullBackOff"}}`: 0,
	} {
		l := &logged{t: t}
		l.add("admin", "create", "autoscalingrunnersets", "", object("AutoscalingRunnerSet", 3, "",
			`, "spec": {"volumeClaimPool": {"keepAfter": {"events": ["push"]}}}`))
		l.add(managerUser, "create", "ephemeralrunners", "",
			object("EphemeralRunner", 4, "", `, "spec": {"volumeClaims": {"go": "a"}}`))
		l.add(managerUser, "create", "persistentvolumeclaims", "", object("PersistentVolumeClaim", 5,
			`, "labels": {"actions.github.com/scale-set-name": "a", "actions.github.com/volume-claim-template": "go"}`, ""))
		const ofRunner = `, "ownerReferences": [{"kind": "EphemeralRunner", "uid": "uid of EphemeralRunner", "controller": true}]`
		const mounts = `, "spec": {"nodeName": "n", "volumes": [{"name": "go", "persistentVolumeClaim": {"claimName": "a"}}]}`
		first := object("Pod", 6, ofRunner, mounts)
		l.add(managerUser, "create", "pods", "", first)
		l.add("system:node:n", "patch", "pods", "status", object("Pod", 7, ofRunner,
			mounts+`, "status": {"containerStatuses": [{"name": "runner", "state": `+state+`}]}`))
		l.add(managerUser, "delete", "pods", "", object("Pod", 8, ofRunner+deleting, mounts)).RequestObject =
			[]byte(`{"gracePeriodSeconds": 0}`)
		l.add(managerUser, "create", "pods", "",
			strings.Replace(object("Pod", 9, ofRunner, mounts), "uid of Pod", "uid of the second pod", 1))
		if broken := l.history().Check(); len(broken) != want {
			t.Errorf("state %s: found %q, want %d", state, broken, want)
		}
	}
}
