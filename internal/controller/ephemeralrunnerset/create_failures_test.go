package ephemeralrunnerset_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/creations"
)

// refuseUntilReported makes creations fail until a condition reports it.
func (f *fixture) refuseUntilReported(refusal error) {
	f.refuse = refusal
	for range 2 * degradedThreshold {
		_, _ = f.pass()
		controllertest.Elapse(longestCreateBackoff)
	}
}

// heal makes creations succeed again, and lets the status be written after that.
func (f *fixture) heal() {
	f.Helper()
	f.refuse = nil
	controllertest.Elapse(longestCreateBackoff)
	f.reconcile()
	controllertest.Elapse(reportPeriod)
	f.reconcile()
}

// A rejection by the API server, for instance of an invalid label, is in a condition and in one Event, not only in the
// log. So is the cause for which it doesn't answer.
func TestRunnersThatCannotBeCreatedAreReportedInACondition(t *testing.T) {
	for name, test := range map[string]struct {
		refusal error
		words   []string
	}{
		"refused": {
			apierrors.NewInvalid(schema.GroupKind{Kind: "EphemeralRunner"}, "set-runner", field.ErrorList{
				field.Invalid(field.NewPath("metadata", "labels"), "a b", "no label")}),
			[]string{"metadata.labels", "a b", "Correct", setKey.Namespace},
		},
		"a webhook does not work": {
			apierrors.NewInternalError(errors.New(`failed calling webhook "policy.example.com"`)),
			[]string{"policy.example.com", setKey.Namespace},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.refuseUntilReported(test.refusal)
				degraded := meta.FindStatusCondition(f.set().Status.Conditions, v1alpha1.ConditionDegraded)
				if degraded == nil || degraded.Reason != v1alpha1.ReasonRunnersNotCreated {
					t.Fatalf("condition %+v", degraded)
				}
				for _, words := range test.words {
					if !strings.Contains(degraded.Message, words) {
						t.Errorf("message %q does not say %q", degraded.Message, words)
					}
				}
				if recorded := controllertest.CountEvents(f.recorder, v1alpha1.ConditionDegraded); recorded != 1 {
					t.Errorf("%d Events, want 1", recorded)
				}
				f.heal()
				if meta.IsStatusConditionTrue(f.set().Status.Conditions, v1alpha1.ConditionDegraded) {
					t.Error("still degraded although the runners are created")
				}
				if !f.event("RunnersWork") {
					t.Error("no Event that it is well again")
				}
			}, newSet(2))
		})
	}
}

// Jobs for which the set can't create runners must go to other sets; jobs for which it has runners must not.
func TestCapacityWhileRunnersCannotBeCreated(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.reconcile()
		f.bringUp()
		working := f.runners()[0]
		working.Status.JobID = "1"
		if err := f.api.Status().Update(t.Context(), &working); err != nil {
			t.Fatal(err)
		}
		f.publish(5)
		f.refuseUntilReported(errOverQuota)
		if diff := cmp.Diff(new(4), f.set().Status.Capacity); diff != "" {
			t.Errorf("capacity (-want +got), want the runners there are and one:\n%s", diff)
		}
		f.heal()
		if got := f.set().Status.Capacity; got != nil {
			t.Errorf("capacity %d although the runners are created", *got)
		}
	}, newSet(3))
}

// The creation failed without an answer: its repetition does not wait for the cache.
func TestCreationWithoutAnAnswerIsRepeatedSoon(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.refuse = errNoAnswer
		_, _ = f.pass()
		f.refuse = nil
		if requeueAfter := f.reconcile().RequeueAfter; requeueAfter <= 0 || requeueAfter > firstCreateBackoff {
			t.Errorf("again in %s, want at most %s", requeueAfter, firstCreateBackoff)
		}
		controllertest.Elapse(firstCreateBackoff)
		f.reconcile()
		f.wantRunners(2)
	}, newSet(2))
}

// After minutes without an answer the API server is asked as often as after seconds, so that its return is noticed.
func TestReturnOfTheAPIServerIsNoticedInTime(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.refuse = errNoAnswer
		for range 20 {
			_, _ = f.pass()
			controllertest.Elapse(creations.LongestAwayBackoff)
		}
		_, _ = f.pass()
		f.refuse = nil
		controllertest.Elapse(creations.LongestAwayBackoff)
		f.reconcile()
		f.wantRunners(2)
	}, newSet(2))
}
