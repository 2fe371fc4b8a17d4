package autoscalingrunnerset_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// protectedByARC changes a set to one of ARC's chart, whose Secret, ServiceAccount and Role are protected.
func protectedByARC(set *v1alpha1.AutoscalingRunnerSet) {
	set.Labels[v1alpha1.LabelVersion] = "0.14.2"
	set.Annotations = map[string]string{
		v1alpha1.AnnotationValuesHash:                                           "8d2e7a",
		v1alpha1.AnnotationCleanupPrefix + "github-secret-name":                 "kept",
		v1alpha1.AnnotationCleanupPrefix + "no-permission-service-account-name": "kept",
		v1alpha1.AnnotationCleanupPrefix + "manager-role-name":                  "kept",
		v1alpha1.AnnotationCleanupPrefix + "manager-role-binding":               "absent",
	}
}

// protectedObjects are the objects that the annotations of protectedByARC name, as far as they exist.
func protectedObjects() []client.Object {
	meta := metav1.ObjectMeta{Namespace: setNamespace, Name: "kept",
		Finalizers: []string{v1alpha1.FinalizerCleanupProtection, "example.com/other"}}
	return []client.Object{&corev1.Secret{ObjectMeta: meta}, &corev1.ServiceAccount{ObjectMeta: meta},
		&rbacv1.Role{ObjectMeta: meta}}
}

// answerStripping lets answer reject the patches of what ARC protects, and counts them.
func (f *fixture) answerStripping(answer func(client.Object) error) *int {
	patches := new(int)
	f.intercept.Patch = func(
		ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch,
		options ...client.PatchOption,
	) error {
		if _, isSet := object.(*v1alpha1.AutoscalingRunnerSet); isSet {
			return c.Patch(ctx, object, patch, options...)
		}
		*patches++
		if err := answer(object); err != nil {
			return err
		}
		return c.Patch(ctx, object, patch, options...)
	}
	f.restart()
	return patches
}

// wantProtected fails unless ARC's finalizer is left on the objects that protected selects, and on no others.
func (f *fixture) wantProtected(protected func(client.Object) bool) {
	f.Helper()
	for _, object := range protectedObjects() {
		want := []string{"example.com/other"}
		if protected(object) {
			want = object.GetFinalizers()
		}
		if err := f.client.Get(f.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			f.Fatal(err)
		}
		if diff := cmp.Diff(want, object.GetFinalizers()); diff != "" {
			f.Errorf("finalizers of %T (-want +got):\n%s", object, diff)
		}
	}
}

func noObject(client.Object) bool { return false }

func isSecret(object client.Object) bool {
	_, secret := object.(*corev1.Secret)
	return secret
}

func allowed(client.Object) error { return nil }

func forbiddenSecret(object client.Object) error {
	if isSecret(object) {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, object.GetName(),
			errors.New("no Role says so"))
	}
	return nil
}

// TestARCsProtectionIsStrippedBeforeAnUpgradeDropsTheObject: the annotation that names it is dropped as well. Each
// object costs one patch, even one that is absent or that the manager may not patch.
func TestARCsProtectionIsStrippedBeforeAnUpgradeDropsTheObject(t *testing.T) {
	for name, test := range map[string]struct {
		answer    func(client.Object) error
		protected func(client.Object) bool
	}{
		"allowed":   {allowed, noObject},
		"forbidden": {forbiddenSecret, isSecret},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				patches := f.answerStripping(test.answer)
				f.create(protectedObjects()...)
				f.create(newSet(protectedByARC))
				f.settle()
				f.wantProtected(test.protected)
				if *patches != 4 {
					t.Errorf("%d patches, want one for each object that is named", *patches)
				}
				if len(f.listeners()) != 1 {
					t.Error("the set isn't served")
				}
			})
		})
	}
}

// TestStrippingIsTriedAgainAfterAFailure: the set works in the meantime.
func TestStrippingIsTriedAgainAfterAFailure(t *testing.T) {
	inBubble(t, func(f *fixture) {
		away := errors.New("away")
		f.answerStripping(func(client.Object) error { return away })
		f.create(protectedObjects()...)
		f.create(newSet(protectedByARC))
		for range 5 {
			if _, err := f.controller.Reconcile(f.Context(), reconcile.Request{NamespacedName: setKey}); err == nil {
				t.Error("nothing brings the next pass")
			}
			controllertest.Elapse(2 * statusInterval)
		}
		if len(f.listeners()) != 1 {
			t.Error("the set isn't served")
		}
		away = nil
		f.settle()
		f.wantProtected(noObject)
	})
}

// TestProtectionIsStrippedAgainAfterAnUpgradeWithARCsChart: Helm puts the finalizer back on what it keeps.
func TestProtectionIsStrippedAgainAfterAnUpgradeWithARCsChart(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet(protectedByARC))
		f.settle()
		f.create(protectedObjects()...)
		f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { s.Annotations[v1alpha1.AnnotationValuesHash] = "another" })
		f.settle()
		f.wantProtected(noObject)
	})
}

// ARC's chart has put the finalizers back, by an upgrade with the values that it had before, and the upgrade to the
// manager's own chart no longer names the Secret.
func TestObjectThatTheUpgradeDropsIsStrippedThoughARCProtectedItAgain(t *testing.T) {
	inBubble(t, func(f *fixture) {
		patches := f.answerStripping(allowed)
		f.create(newSet(protectedByARC))
		f.settle()
		f.create(protectedObjects()...)
		*patches = 0
		f.edit(func(s *v1alpha1.AutoscalingRunnerSet) {
			s.Labels[v1alpha1.LabelVersion] = managerVersion
			delete(s.Annotations, v1alpha1.AnnotationCleanupPrefix+"github-secret-name")
		})
		f.settle()
		f.wantProtected(noObject)
		if *patches != 4 {
			t.Errorf("%d patches, want one for each object that ARC's chart named", *patches)
		}
	})
}

// Both charts are upgraded together, so no annotation that the manager sees names the objects that the upgrade drops:
// the Role and the account of another container mode, and a Secret whose name our chart makes shorter. Each is
// stripped, and objects that aren't the set's are left.
func TestWhatAnUpgradeOfBothChartsDropsIsStripped(t *testing.T) {
	inBubble(t, func(f *fixture) {
		long := strings.Repeat("n", 43)
		meta := func(name, set string) metav1.ObjectMeta {
			return metav1.ObjectMeta{Namespace: setNamespace, Name: name,
				Labels:     map[string]string{v1alpha1.LabelScaleSetName: set},
				Finalizers: []string{v1alpha1.FinalizerCleanupProtection, "example.com/other"}}
		}
		dropped := []client.Object{
			&rbacv1.Role{ObjectMeta: meta("n_n-gha-rs-kube-mode", "n_n")},
			&rbacv1.RoleBinding{ObjectMeta: meta("n_n-gha-rs-kube-mode", "n_n")},
			&corev1.ServiceAccount{ObjectMeta: meta("n-n-gha-rs-kube-mode", "n_n")},
			&corev1.Secret{ObjectMeta: meta(long+"-gha-rs-github-secret", "n_n")},
		}
		others := &rbacv1.Role{ObjectMeta: meta("other", "other")}
		patches := f.answerStripping(allowed)
		f.create(dropped...)
		f.create(others)
		for _, object := range append(dropped, others) { // as Helm does, but for the finalizer they would be gone
			if err := f.client.Delete(f.Context(), object); err != nil {
				t.Fatal(err)
			}
		}
		set := newSet(func(s *v1alpha1.AutoscalingRunnerSet) {
			s.Labels[v1alpha1.LabelVersion], s.Labels[v1alpha1.LabelScaleSetName] = managerVersion, "n_n"
			s.Annotations = map[string]string{v1alpha1.AnnotationCleanupPrefix + "github-secret-name": "shorter"}
		})
		set.Name = long
		f.create(set)
		for range 3 {
			controllertest.Reconcile(f, f.controller, client.ObjectKeyFromObject(set))
		}
		for _, object := range append(dropped, others) {
			if err := f.client.Get(f.Context(), client.ObjectKeyFromObject(object), object); err != nil {
				t.Fatal(err)
			}
			if left := len(object.GetFinalizers()); (left != 1 && object != others) || (left != 2 && object == others) {
				t.Errorf("finalizers of %T %s are %v", object, object.GetName(), object.GetFinalizers())
			}
		}
		if *patches != len(dropped) {
			t.Errorf("%d patches, want one for each object", *patches)
		}
	})
}

// TestSetOfTheManagersOwnVersionCostsNoPatch: its chart names the same objects, and protects none.
func TestSetOfTheManagersOwnVersionCostsNoPatch(t *testing.T) {
	inBubble(t, func(f *fixture) {
		patches := f.answerStripping(allowed)
		f.create(newSet(protectedByARC,
			func(s *v1alpha1.AutoscalingRunnerSet) { s.Labels[v1alpha1.LabelVersion] = managerVersion }))
		f.settle()
		if *patches > 0 {
			t.Errorf("%d patches", *patches)
		}
	})
}

// Without the right to patch Roles nothing is tried, neither while the set lives nor when it goes.
func TestForeignFinalizersAreLeftIfToldSo(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.answerStripping(func(object client.Object) error {
			if slices.ContainsFunc(protectedObjects(), func(o client.Object) bool {
				return o.GetName() == object.GetName()
			}) {
				t.Errorf("%T is patched", object)
			}
			return nil
		})
		f.change = func(o *autoscalingrunnerset.Options) { o.StripForeignFinalizers = false }
		f.restart()
		f.create(protectedObjects()...)
		f.create(newSet(protectedByARC))
		f.settle()
		if err := f.client.Delete(f.Context(), newSet()); err != nil {
			t.Fatal(err)
		}
		f.settle()
		f.wantProtected(func(client.Object) bool { return true })
		wantEvent(t, f.events(), v1alpha1.ReasonForeignFinalizers)
	})
}

// Helm takes the manager's Role away before it deletes the set. Objects of our own chart never have ARC's finalizer, so
// there is nothing to tell; those of ARC's that the cache shows with it are named, and its Secret, which the cache
// doesn't hold, with them.
func TestRefusedRemovalIsToldWhereARCsFinalizerIs(t *testing.T) {
	for name, want := range map[string]bool{"our chart": false, "ARC's chart": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				objects := protectedObjects()
				for _, object := range objects {
					if !want {
						object.SetFinalizers(nil)
					}
				}
				f.answerStripping(func(object client.Object) error {
					return apierrors.NewForbidden(schema.GroupResource{Resource: "roles"}, object.GetName(),
						errors.New("no Role says so"))
				})
				f.create(objects...)
				f.create(newSet(protectedByARC))
				f.settle()
				if err := f.client.Delete(f.Context(), newSet()); err != nil {
					t.Fatal(err)
				}
				f.settle()
				events := f.events()
				if told := slices.ContainsFunc(events,
					func(e string) bool {
						return strings.Contains(e,
							v1alpha1.ReasonForeignFinalizers)
					}); told != want {
					t.Errorf("Events %q", events)
				}
			})
		})
	}
}
