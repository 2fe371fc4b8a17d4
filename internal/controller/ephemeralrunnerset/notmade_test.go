package ephemeralrunnerset

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// refuseUntilToldSo has creations fail until that is a condition.
func (s *site) refuseUntilToldSo(refusal error) {
	s.refuse = refusal
	for range 2 * troubleLimit {
		_, _ = s.pass()
		controllertest.Elapse(longestCreatePause)
	}
}

// heal lets creations succeed, and the status be written after that.
func (s *site) heal() {
	s.Helper()
	s.refuse = nil
	controllertest.Elapse(longestCreatePause)
	s.reconcile()
	controllertest.Elapse(reportEvery)
	s.reconcile()
}

// What the API server does not take, for instance a label that is none, is told the user once, not only the log; so is what
// keeps it from answering.
func TestRunnersThatCannotBeMadeAreACondition(t *testing.T) {
	for name, test := range map[string]struct {
		refusal error
		words   []string
	}{
		"refused": {
			apierrors.NewInvalid(schema.GroupKind{Kind: "EphemeralRunner"}, "set-runner", field.ErrorList{
				field.Invalid(field.NewPath("metadata", "labels"), "a b", "no label")}),
			[]string{"metadata.labels", "a b", "correct", setKey.Namespace},
		},
		"a webhook does not work": {
			apierrors.NewInternalError(errors.New(`failed calling webhook "policy.example.com"`)),
			[]string{"policy.example.com", setKey.Namespace},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *site) {
				s.refuseUntilToldSo(test.refusal)
				degraded := meta.FindStatusCondition(s.set().Status.Conditions, v1alpha1.ConditionDegraded)
				if degraded == nil || degraded.Reason != v1alpha1.ReasonRunnersNotCreated {
					t.Fatalf("condition %+v", degraded)
				}
				for _, words := range test.words {
					if !strings.Contains(degraded.Message, words) {
						t.Errorf("message %q does not say %q", degraded.Message, words)
					}
				}
				if told := controllertest.CountTold(s.recorder, v1alpha1.ConditionDegraded); told != 1 {
					t.Errorf("%d Events, want 1", told)
				}
				s.heal()
				if meta.IsStatusConditionTrue(s.set().Status.Conditions, v1alpha1.ConditionDegraded) {
					t.Error("still degraded though the runners are made")
				}
				if !s.event("RunnersWork") {
					t.Error("no Event that it is well again")
				}
			}, newSet(2))
		})
	}
}

// Jobs that the set cannot have runners for are to go to other sets; those that it has runners for are not.
func TestCapacityWhileRunnersCannotBeMade(t *testing.T) {
	inBubble(t, func(s *site) {
		s.reconcile()
		s.bringUp()
		working := s.runners()[0]
		working.Status.JobID = "1"
		if err := s.api.Status().Update(t.Context(), &working); err != nil {
			t.Fatal(err)
		}
		s.publish(5)
		s.refuseUntilToldSo(errOverQuota)
		if diff := cmp.Diff(ptr.To(3), s.set().Status.Capacity); diff != "" {
			t.Errorf("capacity (-want +got), want the runners there are:\n%s", diff)
		}
		s.heal()
		if got := s.set().Status.Capacity; got != nil {
			t.Errorf("capacity %d though the runners are made", *got)
		}
	}, newSet(3))
}
