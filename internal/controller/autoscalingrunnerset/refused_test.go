package autoscalingrunnerset

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// TestRefusedChangeOfAHealthySetIsSaid: what runs goes on, and it is not what the spec asks for. Trouble that passes neither
// brings that up nor takes it back.
func TestRefusedChangeOfAHealthySetIsSaid(t *testing.T) {
	kind, resource := schema.GroupKind{Kind: "EphemeralRunnerSet"}, schema.GroupResource{Resource: "ephemeralrunnersets"}
	conflict := apierrors.NewConflict(resource, "set", errors.New("read it again"))
	for name, refusal := range map[string]error{
		"invalid":     apierrors.NewInvalid(kind, "set", nil),
		"forbidden":   apierrors.NewForbidden(resource, "set", errors.New("no Role says so")),
		"bad request": apierrors.NewBadRequest("a webhook denied it"),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.create(newSet())
				f.settle()
				f.listening()
				f.settle()
				f.edit(func(s *v1alpha1.AutoscalingRunnerSet) {
					s.Spec.EphemeralRunnerSetMetadata = &v1alpha1.ResourceMeta{Labels: map[string]string{"new": "label"}}
				})
				for _, step := range []struct {
					answer error
					ready  metav1.ConditionStatus
				}{
					{errors.New("timeout"), metav1.ConditionTrue},
					{conflict, metav1.ConditionTrue},
					{refusal, metav1.ConditionFalse},
					{errors.New("timeout"), metav1.ConditionFalse},
					{conflict, metav1.ConditionFalse},
					{nil, metav1.ConditionTrue},
				} {
					f.applyAnswers(step.answer)
					ready := meta.FindStatusCondition(f.set().Status.Conditions, v1alpha1.ConditionReady)
					if ready.Status != step.ready || ready.ObservedGeneration != f.set().Generation {
						t.Errorf("Ready = %+v after %v, want %s", ready, step.answer, step.ready)
					}
					if step.ready == metav1.ConditionFalse && (ready.Reason != v1alpha1.ReasonReconcileFailed || !strings.Contains(ready.Message, "; ")) {
						t.Errorf("reason %s, message %q: want the refusal with a next step", ready.Reason, ready.Message)
					}
				}
			})
		})
	}
}

// applyAnswers runs passes in which everything that is applied is answered so.
func (f *fixture) applyAnswers(err error) {
	f.Helper()
	f.intercept.Apply = func(ctx context.Context, c client.WithWatch, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
		if err != nil {
			return err
		}
		return c.Apply(ctx, object, options...)
	}
	f.restart(nil)
	for range 3 {
		_, _ = f.controller.Reconcile(f.Context(), reconcile.Request{NamespacedName: setKey}) // errors are the point of it
		controllertest.Elapse(2 * statusPause)
	}
}

// TestLongNamesLeaveRoomForTheNextStep: a condition's message is cut after 1,024 characters.
func TestLongNamesLeaveRoomForTheNextStep(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.github.singleLabel = true
		f.create(newSet(func(s *v1alpha1.AutoscalingRunnerSet) {
			for i := range 3000 {
				s.Spec.RunnerScaleSetLabels = append(s.Spec.RunnerScaleSetLabels, fmt.Sprintf("label-%d", i))
			}
		}))
		f.settle()
		f.wantMessage(v1alpha1.ConditionLabelsInSync, "the labels label-0, label-1, ", " more; scale sets have one label ", "AllowRunnerScaleSetCustomLabels is enabled")
		f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.RunnerGroup = strings.Repeat("group", 1000) })
		f.settle()
		f.wantMessage(v1alpha1.ConditionScaleSetRegistered, "find runner group \"groupgroup", "not found; create it on GitHub, or correct runnerGroup")
	})
}

// wantMessage fails unless the message of a condition has all the parts.
func (f *fixture) wantMessage(about string, parts ...string) {
	f.Helper()
	message := meta.FindStatusCondition(f.set().Status.Conditions, about).Message
	for _, part := range parts {
		if !strings.Contains(message, part) {
			f.Errorf("message of %s is %q, want %q in it", about, message, part)
		}
	}
}

func TestSomeNamesOfMany(t *testing.T) {
	long := strings.Repeat("x", quoted)
	for want, names := range map[string][]string{
		"a, b":               {"a", "b"},
		long + " and 2 more": {long, "a", "b"},
		"a and 1 more":       {"a", long},
		long + "x":           {long + "x"},
	} {
		if got := someOf(names); got != want {
			t.Errorf("someOf() = %q, want %q", got, want)
		}
	}
}

// TestListenerIsToldNumbersThatTheServiceKnows: the schema lets 64 bits pass.
func TestListenerIsToldNumbersThatTheServiceKnows(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet(func(s *v1alpha1.AutoscalingRunnerSet) {
			s.Spec.MaxRunners, s.Spec.MinRunners = ptr.To(1<<32), ptr.To(1<<32)
		}))
		f.settle()
		if spec := f.listeners()[0].Spec; spec.MaxRunners != math.MaxInt32 || spec.MinRunners != math.MaxInt32 {
			t.Errorf("maxRunners %d, minRunners %d, want the largest 32-bit integer", spec.MaxRunners, spec.MinRunners)
		}
	})
}
