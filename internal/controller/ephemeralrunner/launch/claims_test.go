package launch_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
)

const claimName = "set-cache-bcdfg"

// withClaim gives a runner the claim.
func withClaim(r *v1alpha1.EphemeralRunner) {
	r.Spec.VolumeClaims = map[string]string{"cache": claimName}
}

// newClaim returns the claim as the set makes it.
func newClaim(change ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: claimName, UID: "claim-uid",
		Labels: map[string]string{v1alpha1.LabelVolumeClaimTemplate: "cache", v1alpha1.LabelVolumeClaimScope: "ours",
			v1alpha1.LabelScaleSetName: "set", v1alpha1.LabelScaleSetNamespace: namespace},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "actions.github.com/v1alpha1",
			Kind: "AutoscalingRunnerSet", Name: "set", UID: "set-uid", Controller: new(true)}},
	}}
	for _, c := range change {
		c(claim)
	}
	return claim
}

// somebodys makes a claim one that no set has made, retained one that its set has left, with the content of others.
func somebodys(claim *corev1.PersistentVolumeClaim) { claim.Labels, claim.OwnerReferences = nil, nil }

func retained(claim *corev1.PersistentVolumeClaim) { claim.OwnerReferences = nil }

func ownedByAnother(claim *corev1.PersistentVolumeClaim) { claim.OwnerReferences[0].UID = "another" }

// claim returns the claim of that name, nil if there is none.
func (f *fixture) claim(name string) *corev1.PersistentVolumeClaim {
	f.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	if !controllertest.Read(f, f.api, client.ObjectKey{Namespace: namespace, Name: name}, claim) {
		return nil
	}
	return claim
}

// hasPod reports whether there is a pod of the runner's name.
func (f *fixture) hasPod() bool {
	f.Helper()
	return controllertest.Read(f, f.api, client.ObjectKey{Namespace: namespace, Name: name}, &corev1.Pod{})
}

// A pod that mounts a claim is created only if the claim is there and the set's: in it is what other jobs have left.
func TestAPodMountsOnlyAClaimOfItsSet(t *testing.T) {
	unusable := func(why string) *rules.Failure {
		return &rules.Failure{Reason: v1alpha1.ReasonVolumeClaimUnusable, Message: "claim " + claimName + " " + why}
	}
	for rule, test := range map[string]struct {
		claim *corev1.PersistentVolumeClaim
		// deleting: it is being deleted. unseen: the cache doesn't show it yet.
		deleting, unseen bool
		want             *rules.Failure
	}{
		"the set's is mounted":                  {newClaim(), false, false, nil},
		"the set's that no cache shows, too":    {newClaim(), false, true, nil},
		"one that is being deleted is not":      {newClaim(), true, false, unusable("is being deleted")},
		"one that nobody has labelled is not":   {newClaim(somebodys), false, false, unusable("exists and is not this scale set's")},
		"nor if no cache shows it":              {newClaim(somebodys), false, true, unusable("exists and is not this scale set's")},
		"another owner's is not":                {newClaim(ownedByAnother), false, false, unusable("exists and is not this scale set's")},
		"a retained one with others' is not":    {newClaim(retained), false, false, unusable("is of another GitHub address or runner group")},
		"one that is the set's no longer, live": {newClaim(retained), false, true, unusable("is of another GitHub address or runner group")},
	} {
		t.Run(rule, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				if test.deleting {
					f.deleting(test.claim)
				} else {
					controllertest.Create(t, f.api, test.claim)
				}
				if test.unseen {
					f.fails["get PersistentVolumeClaim"] = errNotFound
				}
				wantFailure(t, f.launch(newRunner(withClaim), 0), test.want)
				if f.hasPod() != (test.want == nil) {
					t.Errorf("there is a pod: %t", f.hasPod())
				}
				if made := slices.Contains(f.requests, "create PersistentVolumeClaim"); made != test.unseen {
					t.Errorf("a claim is created: %t", made)
				}
			})
		})
	}
}

// What does not exist is created, one claim for each template that the runner has a claim of. A claim without a name is
// a volume of the pod's own.
func TestMissingClaimsAreCreated(t *testing.T) {
	inBubble(t, func(f *fixture) {
		set := newSet(func(s *v1alpha1.AutoscalingRunnerSet) {
			s.Spec.VolumeClaimTemplates = append(s.Spec.VolumeClaimTemplates,
				v1alpha1.VolumeClaimTemplate{Metadata: v1alpha1.VolumeClaimTemplateMeta{Name: "docker"}},
				v1alpha1.VolumeClaimTemplate{Metadata: v1alpha1.VolumeClaimTemplateMeta{Name: "tmp"}})
		})
		runner := newRunner(withClaim)
		runner.Spec.VolumeClaims["docker"], runner.Spec.VolumeClaims["tmp"] = "set-docker-bcdfg", ""
		wantFailure(t, f.launchOf(set, runner, 0), nil)
		if f.claim(claimName) == nil || f.claim("set-docker-bcdfg") == nil {
			t.Error("a claim is missing")
		}
		var mounted []string
		for _, volume := range f.pod().Spec.Volumes {
			if claim := volume.PersistentVolumeClaim; claim != nil {
				mounted = append(mounted, volume.Name+"="+claim.ClaimName)
			} else if volume.EmptyDir != nil {
				mounted = append(mounted, volume.Name)
			}
		}
		if got := strings.Join(mounted, " "); got != "cache=set-cache-bcdfg docker=set-docker-bcdfg tmp" {
			t.Errorf("the pod mounts %s", got)
		}
	})
}

// ofSnapshots is a set whose claims are copies of the newest snapshot.
func ofSnapshots(s *v1alpha1.AutoscalingRunnerSet) {
	s.Spec.VolumeClaimPool = &v1alpha1.VolumeClaimPool{Mode: v1alpha1.SnapshotClaims}
}

// A driver may take seconds for a copy: it is requested while GitHub makes the registration, so that it costs a job no
// more than the driver's own time.
func TestACopyOfASnapshotIsRequestedWhileGitHubIsAsked(t *testing.T) {
	for name, test := range map[string]struct {
		change []func(*v1alpha1.AutoscalingRunnerSet)
		early  bool
	}{
		"mode Snapshot": {[]func(*v1alpha1.AutoscalingRunnerSet){ofSnapshots}, true},
		"mode Claims":   {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.github.meanwhile = func() { <-time.After(time.Second) }
				runner := newRunner(withClaim)
				runner.Annotations = map[string]string{v1alpha1.AnnotationVolumeClaimSeed: "zzzzz"}
				f.launchOf(newSet(test.change...), runner, 0)
				if early := f.claim(claimName) != nil; early != test.early {
					t.Errorf("there is a claim while GitHub makes the registration: %t", early)
				}
				<-time.After(2 * time.Second)
				synctest.Wait()
				claim := f.claim(claimName)
				if !f.hasPod() || claim == nil {
					t.Fatal("there is no pod, or no claim")
				}
				source := claim.Spec.DataSource
				if copied := source != nil && source.Kind == "VolumeSnapshot" && source.Name == "set-cache-zzzzz" &&
					*source.APIGroup == "snapshot.storage.k8s.io"; copied != test.early {
					t.Errorf("the claim is a copy of %+v", source)
				}
			})
		})
	}
}

// Nothing is under way when a launch has failed, and what was requested is used by the next try.
func TestACopyIsUsedByTheNextTry(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.github.refuse = errGitHubAway
		set, runner := newSet(ofSnapshots), newRunner(withClaim)
		if f.launchOf(set, runner, 0).Failure == nil || f.claim(claimName) == nil {
			t.Fatal("no failure, or no claim")
		}
		if source := f.claim(claimName).Spec.DataSource; source != nil {
			t.Errorf("a runner without a snapshot gets a copy of %v", source)
		}
		f.github.refuse = nil
		wantFailure(t, f.launchOf(set, runner, 0), nil)
		creations := 0
		for _, request := range f.requests {
			if request == "create PersistentVolumeClaim" {
				creations++
			}
		}
		if creations != 1 || !f.hasPod() {
			t.Errorf("the claim was created %d times", creations)
		}
	})
}

// A claim that is neither there nor made by a template is never awaited.
func TestAClaimWithoutATemplateIsNotAwaited(t *testing.T) {
	inBubble(t, func(f *fixture) {
		set := newSet(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.VolumeClaimTemplates = nil })
		wantFailure(t, f.launchOf(set, newRunner(withClaim), 0), &rules.Failure{
			Reason: v1alpha1.ReasonVolumeClaimUnusable, Message: "claim set-cache-bcdfg doesn't exist"})
		if f.hasPod() {
			t.Error("a pod waits for a claim that nobody makes")
		}
	})
}

// What the API server refuses may be allowed later, and the message says by whose doing.
func TestRefusalsOfAClaim(t *testing.T) {
	const create, read, live = "create PersistentVolumeClaim", "get PersistentVolumeClaim", "live PersistentVolumeClaim"
	refused := func(message string) *rules.Failure {
		return &rules.Failure{Reason: v1alpha1.ReasonVolumeClaimRefused, Message: message}
	}
	away := func(message string) *rules.Failure {
		return &rules.Failure{Kind: rules.Away, Reason: v1alpha1.ReasonAPIServerUnavailable, Message: message}
	}
	for rule, test := range map[string]struct {
		fails map[string]error
		want  *rules.Failure
	}{
		"no right to read":              {map[string]error{read: errForbidden}, refused("read claim set-cache-bcdfg: ")},
		"no answer to a read":           {map[string]error{read: errNoAnswer}, away("read claim set-cache-bcdfg: ")},
		"no answer to a creation":       {map[string]error{create: errNoAnswer}, away("create claim set-cache-bcdfg: ")},
		"a quota":                       {map[string]error{create: errQuota}, refused("raise the quota")},
		"a policy":                      {map[string]error{create: errForbidden}, refused("correct volumeClaimTemplates")},
		"an invalid template":           {map[string]error{create: errInvalid}, refused("correct volumeClaimTemplates")},
		"a namespace that is going":     {map[string]error{create: errNamespace}, &rules.Failure{Kind: rules.Closed, Reason: "NamespaceTerminating"}},
		"it exists, and nobody says it": {map[string]error{create: errExists, live: errNoAnswer}, away("create claim set-cache-bcdfg: ")},
	} {
		t.Run(rule, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.fails = test.fails
				wantFailure(t, f.launch(newRunner(withClaim), 0), test.want)
				if f.hasPod() {
					t.Error("there is a pod without its claim")
				}
			})
		})
	}
}

// What a job has left in its claims goes with them, while nothing of others' is touched.
func TestDiscardedClaims(t *testing.T) {
	const read, live, del = "get PersistentVolumeClaim", "live PersistentVolumeClaim", "delete PersistentVolumeClaim"
	leaving := newSet(func(s *v1alpha1.AutoscalingRunnerSet) { s.DeletionTimestamp = new(metav1.Now()) })
	for rule, test := range map[string]struct {
		set   *v1alpha1.AutoscalingRunnerSet
		claim *corev1.PersistentVolumeClaim
		fails map[string]error
		stays bool
		is    func(error) bool // the error, nil for none
	}{
		"the set's goes":                            {newSet(), newClaim(), nil, false, nil},
		"it goes though no cache shows it":          {newSet(), newClaim(), map[string]error{read: errNotFound}, false, nil},
		"with a retained one goes what others left": {newSet(), newClaim(retained), nil, false, nil},
		"somebody's stays":                          {newSet(), newClaim(somebodys), nil, true, nil},
		"another owner's stays":                     {newSet(), newClaim(ownedByAnother), nil, true, nil},
		"one that is gone is gone":                  {newSet(), nil, nil, false, nil},
		"it is forbidden":                           {newSet(), newClaim(), map[string]error{del: errForbidden}, true, apierrors.IsForbidden},
		"it is forbidden to a set that goes":        {leaving, newClaim(), map[string]error{del: errForbidden}, true, nil},
		"there is no answer to a set that goes":     {leaving, newClaim(), map[string]error{del: errInternal}, true, apierrors.IsInternalError},
		"whose it is can't be read":                 {newSet(), newClaim(), map[string]error{read: errInternal}, true, apierrors.IsInternalError},
		"nor past the cache":                        {newSet(), newClaim(), map[string]error{read: errNotFound, live: errForbidden}, true, apierrors.IsForbidden},
	} {
		t.Run(rule, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				if test.claim != nil {
					controllertest.Create(t, f.api, test.claim)
				}
				f.fails = test.fails
				err := f.DiscardClaims(t.Context(), test.set, newRunner(withClaim))
				if (err != nil) != (test.is != nil) || (err != nil && (!test.is(err) ||
					!strings.HasPrefix(err.Error(), "delete claim set-cache-bcdfg: "))) {
					t.Errorf("DiscardClaims() = %v", err)
				}
				if (f.claim(claimName) != nil) != test.stays {
					t.Errorf("claim %v", f.claim(claimName))
				}
			})
		})
	}
}

// No request is sent about a claim without a name, nor a deletion of what is being deleted.
func TestRequestsOfADiscardedClaim(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.deleting(newClaim())
		runner := newRunner(withClaim)
		runner.Spec.VolumeClaims["tmp"] = ""
		if err := f.DiscardClaims(t.Context(), newSet(), runner); err != nil {
			t.Error(err)
		}
		if got := strings.Join(f.requests, ", "); got != "get PersistentVolumeClaim" {
			t.Errorf("requests: %s", got)
		}
	})
}

// A claim that was deleted and made again since it was read holds nothing of the job.
func TestAClaimThatWasMadeAgainIsNotDiscarded(t *testing.T) {
	inBubble(t, func(f *fixture) {
		controllertest.Create(t, f.api, newClaim())
		f.meanwhile["delete PersistentVolumeClaim"] = func() {
			if err := f.api.Delete(t.Context(), newClaim()); err != nil {
				t.Error(err)
			}
			controllertest.Create(t, f.api, newClaim(func(c *corev1.PersistentVolumeClaim) { c.UID = "again" }))
		}
		if err := f.DiscardClaims(t.Context(), newSet(), newRunner(withClaim)); err != nil || f.claim(claimName) == nil {
			t.Errorf("DiscardClaims() = %v, claim %v", err, f.claim(claimName))
		}
	})
}
