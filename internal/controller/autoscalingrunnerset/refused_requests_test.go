package autoscalingrunnerset_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// TestRefusedChangeOfAHealthySetIsSaid: the set keeps working, but not as the spec asks for. A failure that passes by
// itself doesn't change Ready.
func TestRefusedChangeOfAHealthySetIsSaid(t *testing.T) {
	kind, resource := schema.GroupKind{Kind: "EphemeralRunnerSet"},
		schema.GroupResource{Resource: "ephemeralrunnersets"}
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
					s.Spec.EphemeralRunnerSetMetadata = &v1alpha1.ResourceMeta{
						Labels: map[string]string{"new": "label"}}
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
					if step.ready == metav1.ConditionFalse &&
						(ready.Reason != v1alpha1.ReasonReconcileFailed || !strings.Contains(ready.Message, "; ")) {
						t.Errorf("reason %s, message %q: want the refusal with a next step", ready.Reason,
							ready.Message)
					}
				}
			})
		})
	}
}

// applyAnswers runs passes in which every server-side apply fails with err, or succeeds for nil.
func (f *fixture) applyAnswers(err error) {
	f.Helper()
	f.intercept.Apply = func(
		ctx context.Context, c client.WithWatch, object runtime.ApplyConfiguration, options ...client.ApplyOption,
	) error {
		if err != nil {
			return err
		}
		return c.Apply(ctx, object, options...)
	}
	f.restart()
	for range 3 {
		// errors are the point of it
		_, _ = f.controller.Reconcile(f.Context(), reconcile.Request{NamespacedName: setKey})
		controllertest.Elapse(2 * statusInterval)
	}
}

// TestRegistrationThatCannotBeWrittenIsSaid: GitHub has the scale set, but that can't be recorded in the set.
func TestRegistrationThatCannotBeWrittenIsSaid(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.refuseAnnotations(apierrors.NewForbidden(schema.GroupResource{Resource: "autoscalingrunnersets"}, "set",
			errors.New("a policy guards it")))
		f.create(newSet())
		for range 3 {
			// errors are the point of it
			_, _ = f.controller.Reconcile(f.Context(), reconcile.Request{NamespacedName: setKey})
			controllertest.Elapse(2 * statusInterval)
		}
		f.wantCondition(v1alpha1.ConditionScaleSetRegistered, metav1.ConditionUnknown, v1alpha1.ReasonReconcileFailed)
		f.wantMessage(v1alpha1.ConditionScaleSetRegistered, "scale set 1", "a policy guards it", "grant it")
		f.refuseAnnotations(nil)
		f.settle()
		f.wantCondition(v1alpha1.ConditionScaleSetRegistered, metav1.ConditionTrue, reasonRegistered)
	})
}

// refuseAnnotations fails writes of the annotation with the scale set's id with err, or lets them succeed for nil.
func (f *fixture) refuseAnnotations(err error) {
	f.Helper()
	f.intercept.Patch = func(
		ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch,
		options ...client.PatchOption,
	) error {
		if err != nil && object.GetAnnotations()[v1alpha1.AnnotationRunnerScaleSetID] != "" {
			return err
		}
		return c.Patch(ctx, object, patch, options...)
	}
	f.restart()
}

// A manager that is restarted takes no template for one that was tried if it wasn't written, or its dry run has not
// been answered.
func TestARestartMakesNoUntriedTemplateReady(t *testing.T) {
	inBubble(t, func(f *fixture) {
		var fails error
		f.intercept.Apply = func(
			ctx context.Context, c client.WithWatch, object runtime.ApplyConfiguration, options ...client.ApplyOption,
		) error {
			if fails != nil {
				return fails
			}
			return c.Apply(ctx, object, options...)
		}
		kubernetes := f.admit(&admission{})
		f.listen()
		kubernetes.takes, kubernetes.answer = 20*time.Second, errPodSecurity
		f.edit(func(set *v1alpha1.AutoscalingRunnerSet) { set.Spec.Template.Labels = map[string]string{"a": "b"} })
		for _, step := range []struct {
			when  string
			fails error
		}{{"the template can't be written", errors.New("timeout")}, {"it is written", nil},
			{"it is being tried", nil}} {
			fails = step.fails
			f.restart()
			for range 4 {
				// errors are the point of it
				_, _ = f.controller.Reconcile(f.Context(), reconcile.Request{NamespacedName: setKey})
				if set := f.set(); set.Status.ObservedGeneration == set.Generation &&
					meta.IsStatusConditionTrue(set.Status.Conditions, v1alpha1.ConditionReady) {
					t.Errorf("after a restart when %s: ready with a template that nobody has tried", step.when)
				}
				controllertest.Elapse(2 * statusInterval)
			}
		}
		f.runFor(30 * time.Second)
		f.wantReady("tried", metav1.ConditionFalse, v1alpha1.ReasonPodForbidden, false)
	})
}

// While runners are refused, their set's pods and runners are looked at when a dry run ends, and not all the time.
func TestAStalledSetCostsFewPasses(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.admit(&admission{answer: errNoDryRun})
		f.listen()
		f.waitingRunner("r1", v1alpha1.ReasonPodForbidden)
		f.runFor(90 * time.Second)
		f.wantReady("for longer than a minute", metav1.ConditionFalse, v1alpha1.ReasonPodForbidden, true)
		passes := 0
		for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); passes++ {
			controllertest.Elapse(f.reconcile().RequeueAfter)
		}
		if passes > 40 {
			t.Errorf("%d passes in ten minutes", passes)
		}
	})
}
