package volumeclaims_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

// newSnapshotScene returns a scene of a set in mode Snapshot whose newest snapshot has that suffix.
func newSnapshotScene(t *testing.T, newest string, change ...func(*v1alpha1.VolumeClaimPool)) *scene {
	t.Helper()
	set := newSet("go")
	set.Spec.VolumeClaimPool.Mode = v1alpha1.SnapshotClaims
	for _, c := range change {
		c(set.Spec.VolumeClaimPool)
	}
	s := newScene(t, set)
	s.Snapshot = newest
	return s
}

func TestInModeSnapshotEachRunnerHasAClaimOfItsOwn(t *testing.T) {
	s := newSnapshotScene(t, "zzzzz")
	s.claim("go", "22222") // nobody has it
	committed := s.claim("go", "55555")
	committed.Annotations[v1alpha1.AnnotationVolumeClaimCommit] = "{}"
	s.claim("go", "44444")
	ended := s.runner("runner", "44444")
	ended.Done, ended.Started, ended.EndedAt = true, true, start
	ended.Job = volumeclaims.Job{Event: "push", Result: "succeeded"}
	d := s.plan(2)
	if len(d.Leases) != 2 || d.Waiting != 0 {
		t.Fatalf("%d leases, %d wait", len(d.Leases), d.Waiting)
	}
	for _, lease := range d.Leases {
		if name := lease.Claims["go"]; s.pvcs[name] != nil || lease.Seed != "zzzzz" {
			t.Errorf("lease %+v, want a new claim that is a copy of the newest snapshot", lease)
		}
	}
	if len(d.Deletions) != 1 || d.Deletions[0].Name != "linux-go-22222" || d.Deletions[0].Why != volumeclaims.OneRunner {
		t.Errorf("deletions %+v, want the claim that nobody has: one waits for its snapshot, one for its runner",
			d.Deletions)
	}
}

// What commitAfter doesn't name is not waited for, and its claims go at once.
func TestInModeSnapshotClaimsGoAfterJobsThatAreNotTrusted(t *testing.T) {
	s := newSnapshotScene(t, "")
	s.claim("go", "22222")
	ended := s.runner("runner", "22222")
	ended.Done, ended.Started, ended.EndedAt = true, true, start
	ended.Job = volumeclaims.Job{Event: "pull_request", Result: "succeeded"}
	if d := s.plan(0); len(d.Deletions) != 1 || d.Deletions[0].Why != volumeclaims.NotKept {
		t.Errorf("deletions %+v", d.Deletions)
	}
}

// A set that comes back to mode Claims passes on what is there, also a claim of which a snapshot was to be made.
func TestBackToModeClaims(t *testing.T) {
	s := newSnapshotScene(t, "")
	s.claim("go", "22222").Annotations[v1alpha1.AnnotationVolumeClaimCommit] = "{}"
	s.Set.Spec.VolumeClaimPool.Mode = v1alpha1.PassedOnClaims
	if d := s.plan(1); len(d.Leases) != 1 || d.Leases[0].Claims["go"] != "linux-go-22222" {
		t.Errorf("leases %+v", d.Leases)
	}
}

// A copy that gets no volume, or is refused: by whenExhausted the runner waits or starts with an empty directory, and
// with another snapshot it gives way to one that copies that.
func TestACopyThatCantBeHad(t *testing.T) {
	instead := func(p *v1alpha1.VolumeClaimPool) { p.WhenExhausted = v1alpha1.EphemeralVolume }
	for name, test := range map[string]struct {
		kind   volumeclaims.FailureKind
		change func(*v1alpha1.VolumeClaimPool)
		newest string
		gives  bool
		claim  bool // that the successor gets
	}{
		"refused, and it waits":            {volumeclaims.Refused, nil, "zzzzz", false, false},
		"refused, and it needs not wait":   {volumeclaims.Refused, instead, "zzzzz", true, false},
		"no volume, and it waits":          {volumeclaims.Unprovisioned, nil, "zzzzz", false, false},
		"no volume, and it needs not wait": {volumeclaims.Unprovisioned, instead, "zzzzz", true, false},
		"no volume, and another snapshot":  {volumeclaims.Unprovisioned, nil, "yyyyy", true, true},
		"no volume, and no snapshot":       {volumeclaims.Unprovisioned, nil, "", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			var changes []func(*v1alpha1.VolumeClaimPool)
			if test.change != nil {
				changes = append(changes, test.change)
			}
			s := newSnapshotScene(t, test.newest, changes...)
			if test.kind != volumeclaims.Refused {
				s.claim("go", "22222").Status.Phase = corev1.ClaimPending
			}
			waits := s.runner("runner", "22222")
			waits.Seed, waits.Failure = "zzzzz", volumeclaims.Failure{Kind: test.kind, Since: start}
			if d := s.plan(0); len(d.Replacements) != 0 {
				t.Errorf("it gives way at once: %+v", d.Replacements)
			}
			s.after(volumeclaims.FailureTimeout)
			d := s.plan(0)
			if gives := len(d.Replacements) == 1; gives != test.gives {
				t.Fatalf("gives way: %t, want %t", gives, test.gives)
			}
			if !test.gives {
				return
			}
			s.Runners = nil
			s.after(time.Second)
			d = s.plan(1)
			if len(d.Leases) != 1 || (d.Leases[0].Claims["go"] != "") != test.claim ||
				(test.claim && d.Leases[0].Seed != test.newest) {
				t.Errorf("the next one gets %+v", d.Leases)
			}
		})
	}
}

// A set that takes no jobs has no session that brings the report: in mode Snapshot a claim waits ten minutes for it.
func TestInModeSnapshotAClaimWaitsTenMinutesForTheReport(t *testing.T) {
	s := newSnapshotScene(t, "")
	s.Set.Status.EffectiveMaxRunners = new(0)
	ended := &volumeclaims.Runner{Started: true, EndedAt: start}
	if verdict, _, due := volumeclaims.Returns(s.Set, ended, start); verdict != volumeclaims.Awaited ||
		!due.Equal(start.Add(10*time.Minute)) {
		t.Errorf("%s until %s", verdict, due)
	}
	if verdict, _, _ := volumeclaims.Returns(s.Set, ended, start.Add(10*time.Minute)); verdict != volumeclaims.Spoiled {
		t.Errorf("%s after ten minutes", verdict)
	}
}
