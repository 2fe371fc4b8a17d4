package autoscalingrunnerset_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/scaleset"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/credentials"
)

// holdDependents lets listener and EphemeralRunnerSet go only when the test says so: the latter gets the finalizer of its
// controller, which the former has from its creation on.
func (f *fixture) holdDependents() {
	f.Helper()
	f.holds = true
	runnerSet := f.runnerSets()[0]
	runnerSet.Finalizers = []string{v1alpha1.FinalizerEphemeralRunnerSet}
	if err := f.client.Update(f.Context(), &runnerSet); err != nil {
		f.Fatal(err)
	}
}

// deletable makes a ready set whose listener and EphemeralRunnerSet have their finalizers, and deletes it.
func (f *fixture) deletable(change ...func(*v1alpha1.AutoscalingRunnerSet)) {
	f.Helper()
	f.create(newSet(change...))
	f.settle()
	f.listening()
	f.holdDependents()
	f.settle()
	f.github.Made()
	f.events()
	if err := f.client.Delete(f.Context(), f.set()); err != nil {
		f.Fatal(err)
	}
}

// stopListener changes the listener's status as its controller does after the pod is gone.
func (f *fixture) stopListener() {
	f.Helper()
	listener := f.listeners()[0]
	meta.SetStatusCondition(&listener.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonListenerStopped,
	})
	f.updateStatus(&listener)
}

// release removes an object's finalizers.
func (f *fixture) release(object client.Object) {
	f.Helper()
	object.SetFinalizers(nil)
	if err := f.client.Update(f.Context(), object); err != nil {
		f.Fatal(err)
	}
}

// drained reconciles until the listener has stopped and the runners are gone.
func (f *fixture) drained() {
	f.Helper()
	f.settle()
	f.stopListener()
	f.settle()
	f.release(&f.runnerSets()[0])
}

func TestDeletionKeepsItsOrder(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.deletable()
		f.settle()
		if f.listeners()[0].DeletionTimestamp == nil || f.runnerSets()[0].DeletionTimestamp != nil {
			t.Fatal("want the listener deleted and the runners left alone before it has stopped")
		}
		f.stopListener()
		f.settle()
		if f.runnerSets()[0].DeletionTimestamp == nil || len(f.github.Made()) > 0 {
			t.Fatal("want the EphemeralRunnerSet deleted and GitHub left alone while runners are left")
		}
		f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, "DrainingRunners")
		f.release(&f.runnerSets()[0])
		f.settle()
		if diff := cmp.Diff([]string{"delete 1"}, f.github.Made()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		if set := f.set(); set.Status.Registration != nil ||
			set.Annotations[v1alpha1.AnnotationRunnerScaleSetID] != "" {
			t.Errorf("registration %+v stands after the deregistration; the listener would keep its Secrets",
				set.Status.Registration)
		}
		f.release(&f.listeners()[0])
		f.settle()
		if !f.gone() {
			t.Errorf("the set is still there with finalizers %v", f.set().Finalizers)
		}
	})
}

func TestDeregistrationUsesTheListenersCredentials(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.deletable()
		f.github.Lock()
		f.github.unresolved = &credentials.MissingError{Kind: "Secret", Namespace: setNamespace, Name: "github"}
		f.github.listenerResolved = true
		f.github.Unlock()
		f.drained()
		f.settle()
		if diff := cmp.Diff([]string{"delete 1"}, f.github.Made()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

func TestDeregistrationWithoutCredentialsEndsAtOnce(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.deletable()
		f.github.leaveUnresolved(&credentials.MissingError{Kind: "Secret", Namespace: setNamespace, Name: "github"})
		f.drained()
		f.settle()
		f.release(&f.listeners()[0])
		f.settle()
		if !f.gone() {
			t.Error("the set waits for credentials that nobody will bring back")
		}
		wantEventTwice(t, f.events(), "ScaleSetLeftOnGitHub")
	})
}

func TestDeregistrationFromUnreachableGitHubHasADeadline(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.deletable()
		f.github.Fail(errors.New("connection refused"))
		f.drained()
		start := time.Now()
		for f.set().Status.Registration != nil && time.Since(start) < 2*scaleset.DeregisterTimeout {
			controllertest.Elapse(max(f.reconcile().RequeueAfter, 100*time.Millisecond))
		}
		if waited := time.Since(start); waited < scaleset.DeregisterTimeout-time.Second ||
			waited > scaleset.DeregisterTimeout+2*time.Second {
			t.Errorf("gave up after %s, want %s", waited, scaleset.DeregisterTimeout)
		}
		if calls := len(f.github.Made()); calls < 5 || calls > 15 {
			t.Errorf("%d attempts, want them to be repeated with growing pauses", calls)
		}
		wantEventTwice(t, f.events(), "ScaleSetLeftOnGitHub")
	})
}

// GitHub's rate limit holds during a deletion too: it is asked a single time before the time that it has named, and a
// single time afterwards.
func TestFarewellHeedsRateLimit(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(*fixture)
		call    string
	}{
		"deregistration": {func(f *fixture) { f.deletable(); f.drained() }, "delete 1"},
		"search":         {func(f *fixture) { f.unrecorded() }, "find"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				test.prepare(f)
				const limited = 3 * time.Minute
				began := time.Now()
				f.github.Fail(&actions.RateLimitedError{Until: began.Add(limited), Err: errors.New("429")})
				for time.Since(began) < limited-time.Second {
					controllertest.Elapse(min(max(f.reconcile().RequeueAfter, time.Second), time.Minute))
				}
				if diff := cmp.Diff([]string{test.call}, f.github.Made()); diff != "" {
					t.Errorf("calls before the time that GitHub has named (-want +got):\n%s", diff)
				}
				f.github.Fail(nil)
				f.finalizing()
				if len(f.github.Sets[address]) > 0 {
					t.Errorf("scale sets %+v are left", f.github.Sets[address])
				}
			})
		})
	}
}

func TestDeregistrationSucceedsOnceGitHubIsBack(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.deletable()
		f.github.Fail(errors.New("connection refused"))
		f.drained()
		f.settle()
		f.github.Fail(nil)
		for range 10 {
			controllertest.Elapse(max(f.reconcile().RequeueAfter, time.Second))
		}
		if f.set().Status.Registration != nil || len(f.github.Sets[address]) > 0 {
			t.Errorf("scale sets %+v are left", f.github.Sets[address])
		}
	})
}

func TestDeletionDuringRegistrationLeavesNothing(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet())
		f.reconcile() // the call was made and answered, nothing is recorded yet
		if err := f.client.Delete(t.Context(), f.set()); err != nil {
			t.Fatal(err)
		}
		f.settle()
		if !f.gone() || len(f.github.Sets[address]) > 0 {
			t.Errorf("gone %t, scale sets left: %+v", f.gone(), f.github.Sets[address])
		}
	})
}

func TestDeletionLeavesWhatAnotherSetHolds(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.deletable()
		other := newSet(func(s *v1alpha1.AutoscalingRunnerSet) {
			s.Name, s.UID = "other", "other-uid"
			s.Annotations = map[string]string{v1alpha1.AnnotationRunnerScaleSetID: "1"}
		})
		f.create(other)
		f.drained()
		f.settle()
		if calls := f.github.Made(); len(calls) > 0 {
			t.Errorf("calls = %v, want the scale set left to its other owner", calls)
		}
	})
}

func TestReleaseStripsCleanupProtection(t *testing.T) {
	inBubble(t, func(f *fixture) {
		protected := metav1.ObjectMeta{Namespace: setNamespace, Name: "kept",
			Finalizers: []string{v1alpha1.FinalizerCleanupProtection, "example.com/other"}}
		f.create(&corev1.Secret{ObjectMeta: protected}, &rbacv1.Role{ObjectMeta: protected})
		f.create(newSet(func(s *v1alpha1.AutoscalingRunnerSet) {
			s.Labels[v1alpha1.LabelVersion] = managerVersion // what stripProtection leaves alone
			s.Annotations = map[string]string{
				v1alpha1.AnnotationCleanupPrefix + "github-secret-name":   "kept",
				v1alpha1.AnnotationCleanupPrefix + "manager-role-name":    "kept",
				v1alpha1.AnnotationCleanupPrefix + "manager-role-binding": "absent",
			}
			s.Spec.GitHubConfigUrl = "not an address"
		}))
		f.settle()
		if err := f.client.Delete(t.Context(), f.set()); err != nil {
			t.Fatal(err)
		}
		f.settle()
		for _, object := range []client.Object{&corev1.Secret{}, &rbacv1.Role{}} {
			if err := f.client.Get(t.Context(), client.ObjectKey{Namespace: setNamespace, Name: "kept"},
				object); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"example.com/other"}, object.GetFinalizers()); diff != "" {
				t.Errorf("finalizers of %T (-want +got):\n%s", object, diff)
			}
		}
		if !f.gone() {
			t.Error("the set is still there")
		}
	})
}

// An API server that has just started refuses for a moment what it will allow after it has read the Roles.
func TestDeregistrationOutlastsAMomentsRefusal(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.deletable()
		f.github.leaveUnresolved(apierrors.NewForbidden(corev1.Resource("secrets"), "github",
			errors.New("the Roles are not read yet")))
		f.drained()
		f.reconcile()
		f.github.leaveUnresolved(nil)
		controllertest.Elapse(scaleset.RetryFirstBackoff)
		f.settle()
		if diff := cmp.Diff([]string{"delete 1"}, f.github.Made()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

// TestReleaseToleratesRefusals: the Role may be gone first, and a policy may guard what Helm or Argo CD has made.
func TestReleaseToleratesRefusals(t *testing.T) {
	for name, refusal := range map[string]error{
		"the Role is gone": apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "kept",
			errors.New("no Role says so")),
		"a policy":  apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "kept", nil),
		"a webhook": apierrors.NewBadRequest("it is Helm's"),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.intercept.Patch = func(
					ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch,
					options ...client.PatchOption,
				) error {
					if _, isSecret := object.(*corev1.Secret); isSecret {
						return refusal
					}
					return c.Patch(ctx, object, patch, options...)
				}
				f.restart()
				f.create(newSet(func(s *v1alpha1.AutoscalingRunnerSet) {
					s.Labels[v1alpha1.LabelVersion] = managerVersion // what stripProtection leaves alone
					s.Annotations = map[string]string{v1alpha1.AnnotationCleanupPrefix + "github-secret-name": "kept"}
					s.Spec.GitHubConfigUrl = "not an address"
				}))
				f.settle()
				if err := f.client.Delete(t.Context(), f.set()); err != nil {
					t.Fatal(err)
				}
				f.settle()
				if !f.gone() {
					t.Error("the set is still there")
				}
			})
		})
	}
}

// wantEventTwice fails unless there are two Events with the reason: one about the set, one about the listener.
func wantEventTwice(t *testing.T, told []string, reason string) {
	t.Helper()
	rest := slices.DeleteFunc(slices.Clone(told), func(event string) bool { return !strings.Contains(event, reason) })
	if len(rest) != 2 {
		t.Errorf("%d Events with reason %s among %q, want one about the set and one about the listener",
			len(rest), reason,
			told)
	}
}

// TestDeletionSurvivesRestarts: a manager that restarts after every second pass, each time after it has read an answer
// of GitHub, gets as far as one that doesn't.
func TestDeletionSurvivesRestarts(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.deletable()
		again := func() {
			for range 3 {
				f.restart()
				f.reconcile()
				controllertest.Elapse(statusInterval)
				f.reconcile()
			}
		}
		again()
		f.stopListener()
		again()
		f.release(&f.runnerSets()[0])
		again()
		f.release(&f.listeners()[0])
		again()
		if !f.gone() || len(f.github.Sets[address]) > 0 {
			t.Errorf("gone %t, scale sets left: %+v", f.gone(), f.github.Sets[address])
		}
	})
}
