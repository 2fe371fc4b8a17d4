package autoscalingrunnerset_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/scaleset"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// While GitHub is asked again, and when it answers the same, the refusal stands and no further Event is recorded.
func TestARefusalStandsWhileGitHubIsAskedAgain(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.RunnerGroup = "absent" }))
		f.settle()
		for range 20 {
			f.wantCondition(v1alpha1.ConditionScaleSetRegistered, metav1.ConditionFalse,
				v1alpha1.ReasonRunnerGroupNotFound)
			f.wantCondition(v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonRunnerGroupNotFound)
			controllertest.Elapse(scaleset.RetryLongestBackoff)
			f.reconcile()
		}
		if told := f.events(); len(told) != 1 {
			t.Errorf("told %q, want one Event", told)
		}
	})
}

// Where the chart's Role is missing, the first request refused is that for the Secret: the condition says so, and what
// to do.
func TestSecretThatMayNotBeReadIsSaid(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet())
		f.reconcile() // sets the finalizer
		f.github.unresolved = apierrors.NewForbidden(corev1.Resource("secrets"), "github",
			errors.New("no Role says so"))
		controllertest.Elapse(time.Minute)
		if _, err := f.controller.Reconcile(f.Context(), reconcile.Request{NamespacedName: setKey}); err == nil {
			t.Error("the refusal is not tried again")
		}
		f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonReconcileFailed)
		if message := meta.FindStatusCondition(f.set().Status.Conditions,
			v1alpha1.ConditionReady).Message; !strings.Contains(message, "RoleBinding") {
			t.Errorf("message %q", message)
		}
	})
}

// TestLongNamesLeaveRoomForTheNextStep: a condition's message is cut after 1,024 characters.
func TestLongNamesLeaveRoomForTheNextStep(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.github.SingleLabel = true
		f.create(newSet(func(s *v1alpha1.AutoscalingRunnerSet) {
			for i := range 3000 {
				s.Spec.RunnerScaleSetLabels = append(s.Spec.RunnerScaleSetLabels, fmt.Sprintf("label-%d", i))
			}
		}))
		f.settle()
		f.wantMessage(v1alpha1.ConditionLabelsInSync, "the labels label-0, label-1, ", " more: until it does",
			"remove them from scaleSetLabels")
		f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.RunnerGroup = strings.Repeat("group", 1000) })
		f.settle()
		f.wantMessage(v1alpha1.ConditionScaleSetRegistered, "find runner group \"groupgroup",
			"not found; create it on GitHub, or correct runnerGroup")
	})
}

// Labels are added to a set that runs. An older GitHub Enterprise Server may be upgraded; nobody but GitHub can upgrade
// github.com.
func TestAdviceAboutDroppedLabelsFitsTheAddress(t *testing.T) {
	const recreate, upgrade = "install it again", "GitHub Enterprise Server 3.18"
	for address, test := range map[string]struct{ want, not string }{
		"https://github.com/my-org":           {recreate, "Enterprise Server"},
		"https://www.github.com/my-org/repo":  {recreate, "Enterprise Server"},
		"https://acme.ghe.com/my-org":         {recreate, "Enterprise Server"},
		"https://ghes.example.com/my-org":     {upgrade, "install it again"},
		"https://github.com.example.org/acme": {upgrade, "install it again"},
	} {
		t.Run(address, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.github.SingleLabel = true
				f.create(newSet(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.GitHubConfigUrl = address }))
				f.settle()
				f.wantCondition(v1alpha1.ConditionLabelsInSync, metav1.ConditionTrue, reasonLabelsAccepted)
				f.edit(func(s *v1alpha1.AutoscalingRunnerSet) {
					s.Spec.RunnerScaleSetLabels = []string{"gpu", "large"}
				})
				f.settle()
				f.wantCondition(v1alpha1.ConditionLabelsInSync, metav1.ConditionFalse, v1alpha1.ReasonLabelsDropped)
				f.wantMessage(v1alpha1.ConditionLabelsInSync,
					"the labels gpu, large: until it does, only jobs with runs-on: set alone", test.want)
				if got := meta.FindStatusCondition(f.set().Status.Conditions,
					v1alpha1.ConditionLabelsInSync).Message; strings.Contains(got, test.not) {
					t.Errorf("message %q has advice for another GitHub", got)
				}
			})
		})
	}
}

// wantMessage fails unless the message of a condition has all the parts.
func (f *fixture) wantMessage(conditionType string, parts ...string) {
	f.Helper()
	message := meta.FindStatusCondition(f.set().Status.Conditions, conditionType).Message
	for _, part := range parts {
		if !strings.Contains(message, part) {
			f.Errorf("message of %s is %q, want %q in it", conditionType, message, part)
		}
	}
}
