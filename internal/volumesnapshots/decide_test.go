package volumesnapshots_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
	"github.com/harrier-ci/harrier/internal/volumesnapshots"
)

func TestATrustedJobMakesTheNewestSnapshot(t *testing.T) {
	s := newScene(t, "docker", "go")
	s.wantNewest(s.pass(), "")
	s.job("bbbbb")
	if d := s.pass(); len(d.Create) != 0 || d.RequeueAt.IsZero() {
		t.Errorf("the volume may still be mounted, and %d snapshots are made; next look %v", len(d.Create), d.RequeueAt)
	}
	s.after(unmountGrace)
	if d := s.pass(); len(d.Create) != 2 || d.Newest != nil || len(d.DeleteClaims) != 0 {
		t.Fatalf("%d snapshots made, newest %v, %d claims deleted, want 2, none, none", len(d.Create), d.Newest,
			len(d.DeleteClaims))
	}
	s.ready("docker-bbbbb")
	if d := s.pass(); d.Newest != nil || len(d.Create) != 0 {
		t.Error("one of two snapshots is ready, and counts")
	}
	s.ready("bbbbb")
	d := s.pass()
	s.wantNewest(d, "bbbbb")
	s.wantTrouble(d, "")
	if len(s.claims) != 0 {
		t.Errorf("%d claims stay after the snapshot is ready", len(s.claims))
	}
	status := d.Newest.Status()
	if !slices.Equal(status.Names, []string{"linux-docker-bbbbb", "linux-go-bbbbb"}) || status.Job.Event != "push" ||
		status.Job.Repository != "acme/app" || !status.CreatedAt.Equal(&metav1.Time{Time: start.Add(unmountGrace)}) {
		t.Errorf("status %+v", status)
	}
}

func TestOneSnapshotInAnInterval(t *testing.T) {
	s := newScene(t, "go")
	s.job("bbbbb")
	s.after(time.Second)
	s.job("ccccc")
	s.after(unmountGrace)
	if d := s.pass(); len(d.Create) != 1 || d.Create[0].Suffix != "ccccc" || len(d.DeleteClaims) != 1 {
		t.Fatalf("made %+v, deleted %+v, want one of the job that ended last", d.Create, d.DeleteClaims)
	}
	s.ready("ccccc")
	s.after(snapshotInterval - time.Minute)
	s.job("ddddd")
	s.after(unmountGrace)
	if d := s.pass(); len(d.Create) != 0 || len(s.claims) != 0 {
		t.Errorf("a snapshot within the interval, or %d claims that nobody needs", len(s.claims))
	}
	s.after(time.Minute)
	s.job("fffff")
	s.after(unmountGrace)
	if d := s.pass(); len(d.Create) != 1 {
		t.Error("no snapshot after the interval")
	}
}

// Jobs that end all the time don't keep each other from being snapshotted.
func TestAStreamOfJobsGetsASnapshot(t *testing.T) {
	s := newScene(t, "go")
	for i := range 10 {
		s.job("bbbb" + string("bcdfghjklm"[i]))
		if d := s.pass(); len(d.Create) > 0 {
			return
		}
		s.after(5 * time.Second)
	}
	t.Error("no snapshot was made in 50 s")
}

func TestTheClaimWaitsForPodAndSnapshot(t *testing.T) {
	for name, test := range map[string]func(*scene){
		"the pod doesn't go":               func(s *scene) { s.used.Insert("bbbbb") },
		"the snapshot doesn't get ready":   func(s *scene) { s.after(unmountGrace); s.pass() },
		"the end of the job is tomorrow's": func(s *scene) { s.after(-24 * time.Hour) },
		"the commit is somebody else's": func(s *scene) {
			s.claims["linux-go-bbbbb"].Annotations[v1alpha1.AnnotationVolumeClaimCommit] = `{"templates":["go"]}`
		},
		"the commit is not JSON": func(s *scene) {
			s.claims["linux-go-bbbbb"].Annotations[v1alpha1.AnnotationVolumeClaimCommit] = strings.Repeat("[", 1<<20)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, "go")
			s.job("bbbbb")
			test(s)
			s.pass()
			s.after(claimTimeout)
			if s.pass(); len(s.claims) != 0 {
				t.Error("the claim stays longer than ten minutes")
			}
		})
	}
}

func TestASnapshotThatIsNotReadyNeverCounts(t *testing.T) {
	s := newScene(t, "go")
	s.version("bbbbb")
	s.job("ccccc")
	s.after(unmountGrace)
	s.pass()
	s.after(failureGrace)
	s.wantTrouble(s.pass(), v1alpha1.ReasonSnapshotLate, "no snapshot controller", "linux-go-ccccc")
	s.say("ccccc", map[string]any{"readyToUse": false})
	s.wantTrouble(s.pass(), "")
	s.after(lateTimeout)
	d := s.pass()
	s.wantTrouble(d, v1alpha1.ReasonSnapshotLate, "linux-go-ccccc", "start from the snapshot of 2026-03-02 08:00:15Z")
	s.wantNewest(d, "bbbbb")
	s.job("ddddd")
	s.after(unmountGrace)
	if d := s.pass(); len(d.Create) != 0 {
		t.Error("another snapshot is begun while one isn't ready")
	}
	s.after(pendingTimeout)
	s.pass()
	d = s.pass()
	s.wantTrouble(d, "")
	s.wantNewest(d, "bbbbb")
	if len(s.snapshots) != 1 {
		t.Errorf("%d snapshots stay", len(s.snapshots))
	}
}

func TestAFailedSnapshotIsTold(t *testing.T) {
	s := newScene(t, "go")
	s.job("bbbbb")
	s.after(unmountGrace)
	s.pass()
	s.say("bbbbb", map[string]any{"readyToUse": false,
		"error": map[string]any{"message": "cannot find default snapshot class"}})
	s.wantTrouble(s.pass(), "")
	s.after(failureGrace)
	s.wantTrouble(s.pass(), v1alpha1.ReasonSnapshotFailed, "linux-go-bbbbb", "cannot find default snapshot class",
		"snapshotClassName is unset", "runners start with empty claims")
	s.after(snapshotInterval)
	if s.pass(); len(s.snapshots) != 0 {
		t.Error("the failed snapshot stays")
	}
	s.job("ccccc")
	s.after(unmountGrace)
	if d := s.pass(); len(d.Create) != 1 {
		t.Error("after a failure no snapshot is tried again")
	}
}

// A manager dies after the first of two snapshots: the next one makes the other.
func TestHalfAVersionIsCompleted(t *testing.T) {
	s := newScene(t, "docker", "go")
	s.job("bbbbb")
	s.after(unmountGrace)
	s.pass()
	delete(s.snapshots, "linux-go-bbbbb")
	if d := s.pass(); len(d.Create) != 1 || d.Create[0].Name != "linux-go-bbbbb" {
		t.Errorf("made %+v", d.Create)
	}
}

func TestKeepSnapshots(t *testing.T) {
	s := newScene(t, "go")
	for _, suffix := range []string{"bbbbb", "ccccc", "ddddd"} {
		s.version(suffix)
	}
	if len(s.snapshots) != 3 {
		t.Fatalf("%d snapshots, want 3", len(s.snapshots))
	}
	s.copied.Insert("bbbbb") // a runner is about to make its claim of it
	s.version("fffff")
	if s.pass(); len(s.snapshots) != 4 {
		t.Fatalf("%d snapshots, want 4: one is being copied", len(s.snapshots))
	}
	s.copied.Clear()
	s.pass()
	if len(s.snapshots) != 3 || s.snapshots["linux-go-bbbbb"] != nil {
		t.Errorf("%d snapshots, want the newest three", len(s.snapshots))
	}
	s.wantNewest(s.decide(), "fffff")
}

func TestOnlySnapshotsOfTheSetCount(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*scene, *unstructured.Unstructured)
		stays  bool
	}{
		"another address": {func(s *scene, _ *unstructured.Unstructured) {
			s.set.Spec.GitHubConfigUrl = "https://github.com/other"
		}, false},
		"another owner": {func(_ *scene, o *unstructured.Unstructured) {
			o.SetOwnerReferences([]metav1.OwnerReference{{Kind: "X", Name: "x", UID: "x", Controller: new(true)}})
		}, true},
		"another name": {func(_ *scene, o *unstructured.Unstructured) { o.SetName("linux-go-mine") }, true},
		"no commit":    {func(_ *scene, o *unstructured.Unstructured) { o.SetAnnotations(nil) }, true},
		"being deleted": {func(_ *scene, o *unstructured.Unstructured) {
			o.SetDeletionTimestamp(&metav1.Time{Time: start})
		}, true},
		"a template more": {func(s *scene, _ *unstructured.Unstructured) {
			more := s.set.Spec.VolumeClaimTemplates[0]
			more.Metadata.Name = "more"
			s.set.Spec.VolumeClaimTemplates = append(s.set.Spec.VolumeClaimTemplates, more)
		}, true},
		"status of another form": {func(_ *scene, o *unstructured.Unstructured) { o.Object["status"] = []any{"ready"} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, "go")
			s.version("bbbbb")
			test.change(s, s.snapshots["linux-go-bbbbb"])
			s.wantNewest(s.pass(), "")
			if got := len(s.snapshots) == 1; got != test.stays {
				t.Errorf("the snapshot stays: %t, want %t", got, test.stays)
			}
		})
	}
}

func TestASnapshotThatIsTooLargeIsTold(t *testing.T) {
	s := newScene(t, "go")
	s.version("bbbbb")
	s.say("bbbbb", map[string]any{"readyToUse": true, "restoreSize": "20Gi"})
	d := s.pass()
	s.wantNewest(d, "")
	s.wantTrouble(d, v1alpha1.ReasonSnapshotTooLarge, "20Gi", "template go")
}

// While no copy of the newest snapshot gets a volume, an older one is used; if there is none, nothing is empty in
// silence.
func TestASnapshotThatCantBeCopied(t *testing.T) {
	s := newScene(t, "go")
	s.version("bbbbb")
	s.failing.Insert("bbbbb")
	d := s.pass()
	s.wantNewest(d, "bbbbb")
	s.wantTrouble(d, v1alpha1.ReasonSnapshotNotCopied, "linux-go-bbbbb")
	s.failing.Clear()
	s.version("ccccc")
	s.failing.Insert("ccccc")
	s.wantNewest(s.pass(), "bbbbb")
}

// Retained snapshots have no owner, and those of a set whose policy changes get one.
func TestOwnersFollowThePolicy(t *testing.T) {
	s := newScene(t, "go")
	s.version("bbbbb")
	object := s.snapshots["linux-go-bbbbb"]
	if len(object.GetOwnerReferences()) != 1 {
		t.Error("the set doesn't own its snapshot")
	}
	s.set.Spec.PersistentVolumeClaimRetentionPolicy = &v1alpha1.VolumeClaimRetentionPolicy{WhenDeleted: "Retain"}
	if s.pass(); len(object.GetOwnerReferences()) != 0 {
		t.Error("the set owns a snapshot that outlives it")
	}
	s.set.UID = "set-uid-2"
	s.wantNewest(s.pass(), "bbbbb")
	s.set.Spec.PersistentVolumeClaimRetentionPolicy = nil
	if s.pass(); len(object.GetOwnerReferences()) != 1 {
		t.Error("the later set doesn't adopt the snapshot")
	}
}

// checkBounds fails the test unless what is newest is ready, and neither claims nor snapshots stay.
func (s *scene) checkBounds(seed uint64, d *volumesnapshots.Decision, ended map[string]time.Time) {
	s.Helper()
	if d.Newest != nil {
		for _, name := range d.Newest.Status().Names {
			status, _ := s.snapshots[name].Object["status"].(map[string]any)
			if status["readyToUse"] != true {
				s.Fatalf("seed %d: %s is used and not ready", seed, name)
			}
		}
	}
	for name := range s.claims {
		if s.now.Sub(ended[name[len(name)-5:]]) > claimTimeout+2*time.Minute {
			s.Fatalf("seed %d: claim %s stays", seed, name)
		}
	}
	if len(s.snapshots) > 2*(3+2) {
		s.Fatalf("seed %d: %d snapshots", seed, len(s.snapshots))
	}
}

// Whatever drivers and jobs do for days: what is newest is ready, at most one is made in an interval, no claim stays
// longer than its timeout, no more than keepSnapshots and what is under way stay.
func TestInDaysOfJobs(t *testing.T) {
	for seed := range uint64(6) {
		random := rand.New(rand.NewPCG(seed, 1))
		s := newScene(t, "docker", "go")
		ended := map[string]time.Time{}
		var last time.Time
		var made int
		for step := 0; step < 2000; step++ {
			s.after(time.Duration(1+random.IntN(120)) * time.Second)
			if random.IntN(4) == 0 {
				suffix := volumeclaims.RandomSuffix()
				ended[suffix] = s.now
				s.job(suffix)
			}
			for name := range s.snapshots {
				switch suffix := name[len(name)-5:]; random.IntN(12) {
				case 0:
					s.ready(suffix)
				case 1:
					if _, known := s.snapshots[name].Object["status"]; !known {
						s.say(suffix, map[string]any{"error": map[string]any{"message": "no"}})
					}
				}
			}
			d := s.pass()
			if len(d.Create) > 0 {
				if made++; !last.IsZero() && s.now.Sub(last) < snapshotInterval {
					t.Fatalf("seed %d: two snapshots within %s", seed, s.now.Sub(last))
				}
				last = s.now
			}
			s.checkBounds(seed, &d, ended)
		}
		if made < 20 {
			t.Errorf("seed %d: %d snapshots in days", seed, made)
		}
	}
}
