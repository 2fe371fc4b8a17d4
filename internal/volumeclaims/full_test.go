package volumeclaims_test

import (
	"testing"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

// A volume that is full costs every later job its cache: its claim goes with the job that has filled it, if the user says
// from when on it is full, and no other.
func TestAFullClaimIsReplacedWhenItsJobHasEnded(t *testing.T) {
	for name, test := range map[string]struct {
		most   *int
		change func(*volumeclaims.Runner)
		want   volumeclaims.Verdict
	}{
		"fuller":                    {new(90), func(*volumeclaims.Runner) {}, volumeclaims.Spoiled},
		"as full":                   {new(96), func(*volumeclaims.Runner) {}, volumeclaims.Kept},
		"nobody asks":               {nil, func(*volumeclaims.Runner) {}, volumeclaims.Kept},
		"nobody has told":           {new(90), func(r *volumeclaims.Runner) { r.UsedPercent = nil }, volumeclaims.Kept},
		"an empty directory is":     {new(90), func(r *volumeclaims.Runner) { r.Claims["docker"] = "" }, volumeclaims.Kept},
		"another volume of the pod": {new(90), func(r *volumeclaims.Runner) { r.UsedPercent = map[string]int{"work": 99} }, volumeclaims.Kept},
		"nothing has run":           {new(90), func(r *volumeclaims.Runner) { r.Started = false }, volumeclaims.Kept},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, newSet("docker", "go"))
			s.Set.Spec.VolumeClaimPool.MaxUsedPercent = test.most
			for _, template := range []string{"docker", "go"} {
				s.claim(template, "22222")
				s.claim(template, "44444")
			}
			r := s.runner("r", "22222")
			r.Done, r.Started, r.EndedAt = true, true, s.Now
			r.UsedPercent = map[string]int{"docker": 96, "go": 3}
			test.change(r)
			if got, why, _ := volumeclaims.Returns(s.Set, r, s.Now); got != test.want ||
				(why == "") != (got == volumeclaims.Kept) {
				t.Errorf("%s, because %q", got, why)
			}
			want := ""
			if test.want == volumeclaims.Spoiled {
				want = "linux-docker-22222 NotKept, linux-go-22222 NotKept"
			}
			if got := deleted(s.plan(0)); got != want {
				t.Errorf("deleted %q, want %q", got, want)
			}
		})
	}
}

// How full claims are is known until another job of theirs tells otherwise, or they are gone.
func TestTheFullestClaimOfATemplateIsKnown(t *testing.T) {
	s := newScene(t, newSet("docker"))
	s.claim("docker", "22222")
	s.claim("docker", "44444")
	fullest := func() int { return s.plan(0).Counts["docker"].FullestPercent }
	ends := func(suffix string, percent int) {
		r := s.runner("r", suffix)
		r.Done, r.UsedPercent = true, map[string]int{"docker": percent}
		fullest()
		s.Runners = nil
	}
	if got := fullest(); got != 0 {
		t.Errorf("before anybody has told: %d %%", got)
	}
	ends("22222", 40)
	ends("44444", 70)
	if got := fullest(); got != 70 {
		t.Errorf("%d %%, want 70", got)
	}
	ends("44444", 10)
	if got := fullest(); got != 40 {
		t.Errorf("%d %% after one was emptied, want 40", got)
	}
	delete(s.pvcs, "linux-docker-22222")
	if got := fullest(); got != 10 {
		t.Errorf("%d %% after the fullest has gone, want 10", got)
	}
}

// What a job finds is told with its lease: hits and misses can be counted.
func TestALeaseTellsWhatItsJobFinds(t *testing.T) {
	s := newScene(t, newSet("docker"))
	s.Set.Spec.VolumeClaimPool.Max = new(2)
	s.Set.Spec.VolumeClaimPool.WhenExhausted = v1alpha1.EphemeralVolume
	s.claim("docker", "22222")
	var got []volumeclaims.Content
	for _, lease := range s.plan(3).Leases {
		got = append(got, lease.Content)
	}
	if want := []volumeclaims.Content{volumeclaims.Used, volumeclaims.Empty, volumeclaims.Directory}; len(got) != 3 ||
		got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("%v, want %v", got, want)
	}
	fixed := newScene(t, newSet("docker"))
	fixed.Set.Spec.VolumeClaimPool.SeedFrom = &v1alpha1.VolumeClaimSeed{VolumeSnapshot: "nightly"}
	if got := fixed.plan(1).Leases[0].Content; got != volumeclaims.Copied {
		t.Errorf("from a snapshot: %s", got)
	}
}

// Claims that wait for their place are told: how many at once, and that it takes long after half of pendingTimeout, as a
// node that is made takes a few minutes.
func TestWhoWaitsForAPlaceIsTold(t *testing.T) {
	s := simulate(t, simulated{zones: []string{"a", "b"}})
	s.node("a", 10, true)
	s.cache("b", "node-lost")
	s.set.Spec.VolumeClaimPool.Max = new(1)
	s.jobs(1)
	s.run(3 * time.Minute)
	if d := s.last; d.AwaitPlace.Len() != 1 || d.PlaceLost != "" {
		t.Errorf("after 3 minutes: %d wait, %q for long", d.AwaitPlace.Len(), d.PlaceLost)
	}
	s.run(3 * time.Minute)
	if d := s.last; d.AwaitPlace.Len() != 1 || !d.AwaitPlace.Has(d.PlaceLost) {
		t.Errorf("after 6 minutes: %d wait, %q for long", d.AwaitPlace.Len(), d.PlaceLost)
	}
}
