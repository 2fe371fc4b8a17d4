package volumesnapshots_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
	"github.com/harrier-ci/harrier/internal/volumesnapshots"
)

// start is the time at which every test begins.
var start = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

// Limits that the package decides.
const (
	claimTimeout, lateTimeout, pendingTimeout = 10 * time.Minute, 10 * time.Minute, time.Hour
	unmountGrace, failureGrace                = 15 * time.Second, time.Minute
	snapshotInterval                          = 10 * time.Minute
)

// scene is a world that a test builds: the claims and VolumeSnapshots of an API server.
type scene struct {
	*testing.T
	set             *v1alpha1.AutoscalingRunnerSet
	now             time.Time
	claims          map[string]*corev1.PersistentVolumeClaim
	snapshots       map[string]*unstructured.Unstructured
	used            sets.Set[string]
	copied, failing sets.Set[string]
	uids            int
}

func newScene(t *testing.T, templates ...string) *scene {
	t.Helper()
	set := &v1alpha1.AutoscalingRunnerSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ci", Name: "linux", UID: "set-uid"},
		Spec:       v1alpha1.AutoscalingRunnerSetSpec{GitHubConfigUrl: "https://github.com/acme"},
	}
	set.Spec.VolumeClaimPool = &v1alpha1.VolumeClaimPool{Mode: v1alpha1.SnapshotClaims}
	for _, name := range templates {
		set.Spec.VolumeClaimTemplates = append(set.Spec.VolumeClaimTemplates, v1alpha1.VolumeClaimTemplate{
			Metadata: v1alpha1.VolumeClaimTemplateMeta{Name: name},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceStorage: resource.MustParse("10Gi"),
				}},
			},
		})
	}
	return &scene{T: t, set: set, now: start, claims: map[string]*corev1.PersistentVolumeClaim{},
		snapshots: map[string]*unstructured.Unstructured{}, used: sets.New[string](), copied: sets.New[string](),
		failing: sets.New[string]()}
}

func (s *scene) after(d time.Duration) { s.now = s.now.Add(d) }

func (s *scene) uid() types.UID {
	s.uids++
	return types.UID(fmt.Sprint("uid-", s.uids))
}

// job has a trusted job end now, with claims of that suffix, and its runner gone.
func (s *scene) job(suffix string) {
	s.Helper()
	runner := &v1alpha1.EphemeralRunner{ObjectMeta: metav1.ObjectMeta{Name: "runner-" + suffix}}
	runner.Spec.GitHubConfigUrl, runner.Spec.VolumeClaims = s.set.Spec.GitHubConfigUrl, map[string]string{}
	for i := range s.set.Spec.VolumeClaimTemplates {
		template := s.set.Spec.VolumeClaimTemplates[i].Metadata.Name
		runner.Spec.VolumeClaims[template] = volumeclaims.NameOf(s.set, template, suffix)
	}
	runner.Status.Event, runner.Status.JobResult, runner.Status.JobRepositoryName = "push", "succeeded", "acme/app"
	commit := volumesnapshots.NewCommit(runner, s.now).String()
	for _, claim := range volumeclaims.Missing(s.set, runner,
		func(string) *corev1.PersistentVolumeClaim { return nil }) {
		claim.UID, claim.Status.Phase = s.uid(), corev1.ClaimBound
		claim.Annotations = map[string]string{v1alpha1.AnnotationVolumeClaimCommit: commit}
		s.claims[claim.Name] = claim
	}
}

// decide returns the decision about what is there.
func (s *scene) decide() volumesnapshots.Decision {
	s.Helper()
	world := volumesnapshots.World{Set: s.set, Now: s.now, Used: s.used, Copied: s.copied, Failing: s.failing}
	for _, object := range s.snapshots {
		if snapshot, ours := volumesnapshots.Of(s.set, object); ours {
			world.Snapshots = append(world.Snapshots, snapshot)
		}
	}
	for _, object := range s.claims {
		if claim, ours := volumesnapshots.ClaimOf(s.set, object); ours {
			world.Claims = append(world.Claims, claim)
		}
	}
	return volumesnapshots.Decide(&world)
}

// pass carries out a decision.
func (s *scene) pass() volumesnapshots.Decision {
	s.Helper()
	d := s.decide()
	for _, claim := range d.Create {
		if s.snapshots[claim.Name] != nil {
			s.Fatalf("VolumeSnapshot %s is made twice", claim.Name)
		}
		object := volumesnapshots.New(s.set, claim)
		object.SetUID(s.uid())
		object.SetCreationTimestamp(metav1.NewTime(s.now))
		s.snapshots[claim.Name] = object
	}
	for _, gone := range d.DeleteClaims {
		delete(s.claims, gone.Name)
	}
	for _, gone := range d.DeleteSnapshots {
		delete(s.snapshots, gone.Name)
	}
	for _, owned := range d.SetOwners {
		volumesnapshots.SetOwners(s.snapshots[owned.Name], s.set)
	}
	return d
}

// say has the snapshot controller write a status.
func (s *scene) say(suffix string, status map[string]any) {
	for name, object := range s.snapshots {
		if strings.HasSuffix(name, suffix) {
			object.Object["status"] = status
		}
	}
}

func (s *scene) ready(suffix string) {
	s.say(suffix, map[string]any{"readyToUse": true, "restoreSize": "10Gi"})
}

// version makes a snapshot of a job of that suffix, and lets it get ready.
func (s *scene) version(suffix string) {
	s.Helper()
	s.job(suffix)
	s.after(unmountGrace)
	s.pass()
	s.ready(suffix)
	s.pass()
	s.after(snapshotInterval)
}

func (s *scene) wantNewest(d volumesnapshots.Decision, suffix string) {
	s.Helper()
	got := ""
	if d.Newest != nil {
		got = d.Newest.Suffix
	}
	if got != suffix {
		s.Errorf("new claims are copies of %q, want %q", got, suffix)
	}
}

func (s *scene) wantTrouble(d volumesnapshots.Decision, reason string, says ...string) {
	s.Helper()
	if d.Trouble == nil {
		if reason != "" {
			s.Errorf("nothing is told, want %s", reason)
		}
		return
	}
	if d.Trouble.Reason != reason {
		s.Errorf("told is %s (%s), want %q", d.Trouble.Reason, d.Trouble.Message, reason)
	}
	for _, text := range says {
		if !strings.Contains(d.Trouble.Message, text) {
			s.Errorf("%q doesn't say %q", d.Trouble.Message, text)
		}
	}
}
