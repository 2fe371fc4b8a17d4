package volumeclaims_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

// failing adds a runner that can't use its bundle since now.
func (s *scene) failing(name, suffix string, kind volumeclaims.FailureKind) *volumeclaims.Runner {
	r := s.runner(name, suffix)
	r.Failure = volumeclaims.Failure{Kind: kind, Since: s.Now}
	return r
}

// later adds a runner that was created after the others and has got a node.
func (s *scene) later(name, suffix string) *volumeclaims.Runner {
	r := s.runner(name, suffix)
	r.CreatedAt, r.PlacedAt = s.Now.Add(time.Second), s.Now.Add(2*time.Second)
	return r
}

// onlyClaim adds a runner without a node, and no other claim may be created.
func (s *scene) onlyClaim() {
	s.Set.Spec.VolumeClaimPool.Max = new(2)
	s.runner("busy", "44444").Up = true
	s.failing("r", "22222", volumeclaims.Unplaced)
}

// replaced returns the names of the runners that a decision replaces.
func replaced(d volumeclaims.Decision) (found string) {
	for _, r := range d.Replacements {
		found += r.Runner + " "
	}
	return found
}

// concessions are worlds with the free claims 22222 and 44444, which runners give way in them after some time, and what
// is recorded.
var concessions = map[string]struct {
	world    func(*scene)
	after    time.Duration
	replaced string
	failures string // recorded
}{
	"one that can't mount":                        {func(s *scene) { s.failing("r", "22222", volumeclaims.Unmounted) }, time.Minute, "r ", "r@2026-03-02T08:00:00Z"},
	"not sooner":                                  {func(s *scene) { s.failing("r", "22222", volumeclaims.Unmounted) }, 59 * time.Second, "", ""},
	"not one whose pod has come up":               {func(s *scene) { s.failing("r", "22222", volumeclaims.Unmounted).Up = true }, time.Minute, "", ""},
	"not one that goes anyway":                    {func(s *scene) { s.failing("r", "22222", volumeclaims.Unmounted).Deleting = true }, time.Minute, "", ""},
	"none that has no node yet":                   {func(s *scene) { s.failing("r", "22222", volumeclaims.Unplaced) }, patience - time.Second, "", ""},
	"one that has had no node for pendingTimeout": {func(s *scene) { s.failing("r", "22222", volumeclaims.Unplaced) }, patience, "r ", ""},
	"one that tries, and not all": {func(s *scene) {
		s.failing("r", "22222", volumeclaims.Unplaced)
		s.failing("q", "44444", volumeclaims.Unplaced)
	}, patience, "r ", ""},
	"none while the cluster is full": {func(s *scene) { s.failing("r", "22222", volumeclaims.Unplaced); s.runner("new", "66666") }, time.Hour, "", ""},
	"as many as later ones got nodes": {func(s *scene) {
		s.failing("r", "22222", volumeclaims.Unplaced)
		s.failing("q", "44444", volumeclaims.Unplaced)
		s.later("new", "66666")
		s.runner("waits", "77777")
	}, patience, "r ", ""},
	"not before pendingTimeout": {func(s *scene) {
		s.failing("r", "22222", volumeclaims.Unplaced)
		s.later("new", "66666")
	}, patience - time.Second, "", ""},
	"all, if as many later ones got nodes": {func(s *scene) {
		s.failing("r", "22222", volumeclaims.Unplaced)
		s.failing("q", "44444", volumeclaims.Unplaced)
		s.later("new", "66666")
		s.later("newer", "77777")
	}, patience, "r q ", ""},
	"not if runners that came before got nodes": {func(s *scene) {
		s.failing("r", "22222", volumeclaims.Unplaced)
		s.later("old", "44444").CreatedAt = s.Now.Add(-time.Minute)
		s.Set.Spec.VolumeClaimPool.Max = new(2)
	}, patience, "", ""},
	"not if others got theirs before": {func(s *scene) {
		s.failing("r", "22222", volumeclaims.Unplaced)
		s.runner("new", "66666").PlacedAt = s.Now.Add(-time.Second)
		s.Set.Spec.VolumeClaimPool.Max = new(2)
		s.runner("busy", "44444").PlacedAt = s.Now.Add(-time.Hour)
	}, patience, "", ""},
	"not one whose claims fit anywhere": {func(s *scene) {
		s.pvcs["linux-docker-22222"].Status.Phase = "Pending"
		s.failing("r", "22222", volumeclaims.Unplaced)
		s.runner("q", "44444")
	}, time.Hour, "", ""},
	"one whose claim gets no volume, while another claim is free": {func(s *scene) {
		s.pvcs["linux-docker-22222"].Status.Phase = "Pending"
		s.failing("r", "22222", volumeclaims.Unprovisioned)
	}, time.Minute, "r ", ""},
	"one whose pod gets no node with a claim without a volume, while another claim is free, after pendingTimeout": {func(s *scene) {
		s.pvcs["linux-docker-22222"].Status.Phase = "Pending"
		s.failing("r", "22222", volumeclaims.Unplaced)
	}, patience, "r ", ""},
	"not for one that has no volume either": {func(s *scene) {
		s.pvcs["linux-docker-22222"].Status.Phase, s.pvcs["linux-docker-44444"].Status.Phase = "Pending", "Pending"
		s.failing("r", "22222", volumeclaims.Unplaced)
	}, time.Hour, "", ""},
	"one whose claim got no volume before its template was corrected": {func(s *scene) {
		s.pvcs["linux-docker-22222"].Status.Phase, s.pvcs["linux-docker-22222"].Spec.StorageClassName = "Pending",
			new("fsat")
		s.Set.Spec.VolumeClaimTemplates[0].Spec.StorageClassName = new("fast")
		s.failing("r", "22222", volumeclaims.Unplaced)
		s.runner("q", "44444")
	}, time.Minute, "r ", ""},
	"not one whose claim has a volume of another class": {func(s *scene) {
		s.Set.Spec.VolumeClaimTemplates[0].Spec.StorageClassName = new("fast")
		s.failing("r", "22222", volumeclaims.Unplaced)
		s.runner("new", "66666")
	}, time.Hour, "", ""},
	"one whose claim was deleted before its pod had a node": {func(s *scene) {
		s.failing("r", "22222", volumeclaims.Unplaced)
		delete(s.pvcs, "linux-docker-22222")
		s.runner("q", "44444")
	}, time.Minute, "r ", ""},
	"one whose claim is being deleted": {func(s *scene) {
		s.failing("r", "22222", volumeclaims.Unplaced)
		s.pvcs["linux-docker-22222"].DeletionTimestamp = new(metav1.NewTime(s.Now))
		s.runner("q", "44444")
	}, time.Minute, "r ", ""},
	"one whose volume is gone, at once": {func(s *scene) {
		s.pvcs["linux-docker-22222"].Status.Phase = "Lost"
		s.runner("r", "22222")
	}, 0, "r ", ""},
	"not one without a node, if there are no other claims and nothing is known": {func(s *scene) { s.onlyClaim() }, time.Hour, "", ""},
	"the younger of two with one claim": {func(s *scene) {
		s.runner("old", "22222")
		s.runner("young", "22222").CreatedAt = s.Now.Add(time.Second)
	}, time.Second, "young ", ""},
	"the one that is not up": {func(s *scene) {
		s.runner("old", "22222")
		young := s.runner("young", "22222")
		young.CreatedAt, young.Up = s.Now.Add(time.Second), true
	}, time.Second, "old ", ""},
	"one that names a claim which it can't have, at once": {func(s *scene) {
		s.failing("r", "66666", volumeclaims.Unusable)
	}, 0, "r ", ""},
	"one whose new claim is refused, when one is free": {func(s *scene) {
		s.failing("r", "66666", volumeclaims.Refused)
		s.failing("q", "55555", volumeclaims.Refused)
		s.runner("b", "44444")
	},
		time.Second, "r ", ""},
	"none before the API server was asked": {func(s *scene) { s.failing("r", "22222", volumeclaims.Unmounted); s.Listed = false }, time.Hour, "", ""},
}

func TestWhichRunnersGiveWay(t *testing.T) {
	for name, test := range concessions {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, newSet("docker"))
			s.claim("docker", "22222")
			s.claim("docker", "44444")
			test.world(s)
			s.after(test.after)
			d := s.plan(0)
			if got := replaced(d); got != test.replaced {
				t.Errorf("replaced %q, want %q", got, test.replaced)
			}
			for _, r := range d.Replacements {
				if r.Reason == "" || r.Message == "" {
					t.Errorf("%s gives way for %q: %q", r.Runner, r.Reason, r.Message)
				}
			}
			got := ""
			for _, record := range d.Records {
				got += record.Value
			}
			if got != test.failures {
				t.Errorf("recorded %q, want %q", got, test.failures)
			}
		})
	}
}

func TestABundleIsDiscardedAfterTheSecondFailureInARow(t *testing.T) {
	s := newScene(t, newSet("docker"))
	s.Set.Spec.VolumeClaimPool.Max = new(1)
	claim := s.claim("docker", "22222")
	fail := func(name string) volumeclaims.Decision {
		s.Runners = nil
		s.failing(name, "22222", volumeclaims.Unmounted)
		s.after(time.Minute)
		d := s.plan(0)
		for _, record := range d.Records {
			claim.Annotations[record.Key] = record.Value
		}
		return d
	}
	if d := fail("one"); deleted(d) != "" || replaced(d) != "one " {
		t.Fatalf("deleted %q, replaced %q", deleted(d), replaced(d))
	}
	// A new process sees the same runner fail again: that is one failure still.
	s.memory = volumeclaims.NewMemory("linux")
	if d := fail("one"); deleted(d) != "" || replaced(d) != "one " || len(d.Records) != 0 {
		t.Fatalf("deleted %q, replaced %q, recorded %v after a restart", deleted(d), replaced(d), d.Records)
	}
	// A runner that starts with it clears its name.
	s.Runners = nil
	s.runner("good", "22222").Up = true
	d := s.plan(0)
	if len(d.Records) != 1 || d.Records[0].Key != v1alpha1.AnnotationVolumeClaimFailures || d.Records[0].Value != "" {
		t.Fatalf("recorded %v", d.Records)
	}
	delete(claim.Annotations, v1alpha1.AnnotationVolumeClaimFailures)
	if d := fail("three"); deleted(d) != "" {
		t.Fatalf("deleted %q", deleted(d))
	}
	d = fail("four")
	if deleted(d) != "linux-docker-22222 Discarded" || replaced(d) != "four " || d.Deletions[0].Runner != "four" {
		t.Errorf("deleted %q, replaced %q", deleted(d), replaced(d))
	}
}

// A storage driver that fails everywhere costs the content of no claim, though runners go on to give way. One that fails
// for one claim after the other costs one in five minutes.
func TestFewClaimsThatCantBeMountedAreDiscarded(t *testing.T) {
	s := newScene(t, newSet("docker"))
	for _, suffix := range []string{"22222", "44444"} {
		s.claim("docker", suffix).Annotations[v1alpha1.AnnotationVolumeClaimFailures] = "before@2026-03-02T07:00:00Z"
		s.failing("of-"+suffix, suffix, volumeclaims.Unmounted)
	}
	for range 60 {
		s.after(time.Minute)
		if d := s.plan(0); deleted(d) != "" || replaced(d) != "of-22222 of-44444 " {
			t.Fatalf("deleted %q, replaced %q", deleted(d), replaced(d))
		}
	}
	s.Runners = s.Runners[:1]
	s.after(2 * time.Minute)
	if d := s.plan(0); deleted(d) != "" {
		t.Fatalf("deleted %q though no other was mounted", deleted(d))
	}
	s.claim("docker", "55555")
	s.later("good", "55555").Up = true
	if d := s.plan(0); deleted(d) != "linux-docker-22222 Discarded" {
		t.Fatalf("deleted %q", deleted(d))
	}
	delete(s.pvcs, "linux-docker-22222")
	s.Runners = s.Runners[1:]
	s.failing("of-44444", "44444", volumeclaims.Unmounted)
	for range 4 {
		s.after(time.Minute)
		if d := s.plan(0); deleted(d) != "" || replaced(d) != "of-44444 " {
			t.Fatalf("deleted %q, replaced %q", deleted(d), replaced(d))
		}
	}
	s.after(time.Minute)
	if d := s.plan(0); deleted(d) != "linux-docker-44444 Discarded" {
		t.Errorf("after five minutes deleted %q", deleted(d))
	}
}

// A runner that gave way in hope is followed by one with another claim.
func TestTheNextRunnerGetsAnotherClaim(t *testing.T) {
	s := newScene(t, newSet("docker"))
	s.claim("docker", "22222")
	s.failing("r", "22222", volumeclaims.Unplaced)
	s.after(patience)
	if d := s.plan(0); replaced(d) != "r " {
		t.Fatalf("replaced %q", replaced(d))
	}
	s.Runners = nil
	if lease := names(s.plan(1), "docker"); s.pvcs[lease[0]] != nil {
		t.Errorf("leased %v, want a new one", lease)
	}
	s.claim("docker", "44444")
	s.Set.Spec.VolumeClaimPool.Max = new(2)
	if lease := names(s.plan(2), "docker"); lease[0] != "linux-docker-44444" || lease[1] != "linux-docker-22222" {
		t.Errorf("leased %v, want the one that was given up last", lease)
	}
}

// In a cluster that is full for an hour, whenever a job ends a later runner gets its place and the others wait on. Few
// of them give way, and no claim loses its content: nothing but the place is missing.
func TestAFullClusterCostsNoClaim(t *testing.T) {
	const places, claims = 10, 20
	s := newScene(t, newSet("docker"))
	s.Set.Spec.VolumeClaimPool.Max = new(claims)
	ids, placed, gone, discarded := 0, 0, 0, 0
	add := func(lease volumeclaims.Lease) *volumeclaims.Runner {
		ids++
		s.Runners = append(s.Runners, volumeclaims.Runner{Name: fmt.Sprint("r", ids), CreatedAt: s.Now,
			Claims: lease.Claims, Patience: patience})
		if name := lease.Claims["docker"]; s.pvcs[name] == nil {
			s.claim("docker", name[len(name)-5:])
		}
		return &s.Runners[len(s.Runners)-1]
	}
	for i, lease := range s.plan(claims).Leases {
		if r := add(lease); i < places {
			r.PlacedAt, r.Up = s.Now, true
		} else {
			r.Failure = volumeclaims.Failure{Kind: volumeclaims.Unplaced, Since: s.Now}
		}
	}
	for range 360 {
		s.after(10 * time.Second)
		at := slices.IndexFunc(s.Runners, func(r volumeclaims.Runner) bool { return r.Up })
		s.Runners = slices.Delete(s.Runners, at, at+1)
		placed++
		d := s.plan(claims - len(s.Runners))
		for i, lease := range d.Leases {
			if r := add(lease); i == 0 {
				r.PlacedAt, r.Up = s.Now.Add(time.Second), true
			} else {
				r.Failure = volumeclaims.Failure{Kind: volumeclaims.Unplaced, Since: s.Now}
			}
		}
		gone += len(d.Replacements)
		for _, replacement := range d.Replacements {
			s.Runners = slices.DeleteFunc(s.Runners, func(r volumeclaims.Runner) bool {
				return r.Name == replacement.Runner
			})
		}
		for _, deletion := range d.Deletions {
			delete(s.pvcs, deletion.Name)
			discarded++
		}
		for _, record := range d.Records {
			s.pvcs[record.Claim].Annotations[record.Key] = record.Value
		}
	}
	if gone > placed || discarded > 0 {
		t.Errorf("%d jobs ended: %d runners gave way, and %d claims were discarded", placed, gone, discarded)
	}
}
