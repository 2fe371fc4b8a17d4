package autoscalingrunnerset_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/podtemplate"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

var (
	errPodSecurity = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "set-runner-check",
		errors.New(`violates PodSecurity "baseline:latest": privileged (container "dind" `+
			`must not set securityContext.privileged=true)`))
	errQuota = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "set-runner-check",
		errors.New("exceeded quota: few, requested: pods=1, used: pods=3, limited: pods=3"))
	errNoDryRun = apierrors.NewBadRequest(`admission webhook "w.example" does not support dry run`)
)

// admission plays an API server that answers dry runs of pods.
type admission struct {
	answer error
	takes  time.Duration
	asked  int
}

// admit puts the answers into effect.
func (f *fixture) admit(a *admission) *admission {
	f.Helper()
	f.intercept.Create = func(
		ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption,
	) error {
		var all client.CreateOptions
		if _, isPod := object.(*corev1.Pod); !isPod {
			return c.Create(ctx, object, options...)
		}
		if all.ApplyOptions(options); !slices.Equal(all.DryRun, []string{metav1.DryRunAll}) {
			f.Error("a pod was created, not only tried")
		}
		a.asked++
		select {
		case <-time.After(a.takes):
			return a.answer
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	f.restart()
	return a
}

// runFor reconciles every ten seconds; in an hour twice a minute, far more often than anything may be asked again.
func (f *fixture) runFor(d time.Duration) {
	f.Helper()
	pause := max(10*time.Second, d/120)
	for range d / pause {
		f.reconcile()
		controllertest.Elapse(pause - answered)
	}
}

// listen makes the set one that listens.
func (f *fixture) listen(change ...func(*v1alpha1.AutoscalingRunnerSet)) {
	f.Helper()
	f.create(newSet(change...))
	f.settle()
	f.listening()
	f.settle()
}

// wantReady fails unless Ready has the status and reason, and Stalled is as given.
func (f *fixture) wantReady(when string, status metav1.ConditionStatus, reason string, stalled bool) {
	f.Helper()
	conditions := f.set().Status.Conditions
	ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Status != status || ready.Reason != reason ||
		meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionStalled) != stalled {
		f.Fatalf("%s: Ready is %+v, want %s with %s and Stalled %t; conditions: %+v", when, ready, status, reason,
			stalled,
			conditions)
	}
}

func TestAPodThatWouldBeRefusedMakesTheSetUnready(t *testing.T) {
	inBubble(t, func(f *fixture) {
		kubernetes := f.admit(&admission{answer: errPodSecurity})
		f.listen()
		f.wantReady("refused", metav1.ConditionFalse, v1alpha1.ReasonPodForbidden, false)
		refused := meta.FindStatusCondition(f.set().Status.Conditions, v1alpha1.ConditionPodTemplateRefused)
		for _, part := range []string{`violates PodSecurity "baseline:latest"`, "spec.template",
			"namespace " + setNamespace} {
			if !strings.Contains(refused.Message, part) {
				t.Errorf("%q doesn't say %q", refused.Message, part)
			}
		}
		if told := controllertest.CountEvents(f.recorder, v1alpha1.ReasonPodForbidden); told != 1 {
			t.Errorf("%d Events, want one", told)
		}
		f.runFor(2 * time.Minute)
		f.wantReady("refused for two minutes", metav1.ConditionFalse, v1alpha1.ReasonPodForbidden, true)
		kubernetes.asked = 0
		f.runFor(time.Hour)
		f.wantReady("refused for an hour", metav1.ConditionFalse, v1alpha1.ReasonPodForbidden, true)
		if kubernetes.asked > 13 {
			t.Errorf("%d dry runs in an hour", kubernetes.asked)
		}
		f.restart()
		f.reconcile()
		f.wantReady("after a restart", metav1.ConditionFalse, v1alpha1.ReasonPodForbidden, true)
		kubernetes.answer = nil
		f.runFor(6 * time.Minute)
		f.wantReady("mended", metav1.ConditionTrue, reasonReady, false)
		f.wantCondition(v1alpha1.ConditionPodTemplateRefused, metav1.ConditionFalse, "PodsAdmitted")
	})
}

// A template is tried a single time. A refusal that passes by itself, or says nothing about the template, leaves Ready
// as it is.
func TestWhatPassesLeavesReadyAsItIs(t *testing.T) {
	for name, test := range map[string]struct {
		answer error
		most   int // dry runs in an hour
	}{
		"admitted":     {nil, 1},
		"full quota":   {errQuota, 1},
		"no dry run":   {errNoDryRun, 1},
		"webhook down": {apierrors.NewInternalError(errors.New(`failed calling webhook "w.example": connection refused`)), 16},
		"missing right": {apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "",
			errors.New(`User "m" cannot create resource "pods" in API group "" in the namespace "n"`)), 16},
		"API server away": {errors.New("connection refused"), 16},
		"overloaded":      {apierrors.NewTooManyRequestsError("busy"), 16},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				kubernetes := f.admit(&admission{answer: test.answer})
				f.listen()
				f.wantReady(name, metav1.ConditionTrue, reasonReady, false)
				f.runFor(time.Hour)
				f.wantReady("an hour later", metav1.ConditionTrue, reasonReady, false)
				if kubernetes.asked < 1 || kubernetes.asked > test.most {
					t.Errorf("%d dry runs in an hour, want 1 to %d", kubernetes.asked, test.most)
				}
				if c := meta.FindStatusCondition(f.set().Status.Conditions,
					v1alpha1.ConditionPodTemplateRefused); c != nil {
					t.Errorf("condition %+v", c)
				}
			})
		})
	}
}

// Refusals come with all kinds of codes and reasons.
func TestRefusalsOfEveryKindAreTold(t *testing.T) {
	pod := schema.GroupKind{Kind: "Pod"}
	denied := func(code int32, reason metav1.StatusReason, details *metav1.StatusDetails) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason,
			Details: details,
			Message: `admission webhook "w.example" denied the request: no`}}
	}
	named := &metav1.StatusDetails{Kind: "pods", Name: "set-runner-check"}
	for name, test := range map[string]struct {
		answer error
		reason string
	}{
		"invalid":                     {apierrors.NewInvalid(pod, "set-runner-check", nil), v1alpha1.ReasonInvalidPod},
		"webhook without a code":      {denied(http.StatusBadRequest, "", nil), v1alpha1.ReasonInvalidPod},
		"webhook":                     {denied(http.StatusForbidden, metav1.StatusReasonForbidden, nil), v1alpha1.ReasonPodForbidden},
		"webhook with a code":         {denied(http.StatusTeapot, "", nil), v1alpha1.ReasonPodForbidden},
		"policy: Unauthorized":        {denied(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, named), v1alpha1.ReasonPodForbidden},
		"policy: too large":           {denied(http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge, named), v1alpha1.ReasonPodForbidden},
		"quota that asks for a limit": {apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p", errors.New("failed quota: few: must specify limits.cpu for: runner")), v1alpha1.ReasonPodForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.admit(&admission{answer: test.answer})
				f.listen()
				f.wantReady(name, metav1.ConditionFalse, test.reason, false)
			})
		})
	}
}

// After a change of the template the status waits for the answer, so that nobody takes the set for ready because of the
// former template; and it doesn't wait for long. Any other change asks nobody.
func TestReadyWaitsForTheAnswerAboutTheTemplate(t *testing.T) {
	inBubble(t, func(f *fixture) {
		kubernetes := f.admit(&admission{})
		f.listen()
		f.wantReady("admitted", metav1.ConditionTrue, reasonReady, false)
		kubernetes.takes, kubernetes.answer = 20*time.Second, errPodSecurity
		f.edit(func(set *v1alpha1.AutoscalingRunnerSet) { set.Spec.Template.Labels = map[string]string{"a": "b"} })
		for range 10 {
			f.reconcile()
			controllertest.Elapse(time.Second)
			set := f.set()
			if set.Status.ObservedGeneration == set.Generation &&
				meta.IsStatusConditionTrue(set.Status.Conditions, v1alpha1.ConditionReady) {
				t.Fatal("ready before the API server has answered for the new template")
			}
		}
		f.wantReady("slow", metav1.ConditionFalse, podtemplate.ReasonChecking, false)
		f.runFor(20 * time.Second)
		f.wantReady("answered", metav1.ConditionFalse, v1alpha1.ReasonPodForbidden, false)

		kubernetes.takes, kubernetes.answer, kubernetes.asked = 0, nil, 0
		f.edit(func(set *v1alpha1.AutoscalingRunnerSet) { set.Spec.Template.Labels = nil })
		f.settle()
		f.wantReady("the former template", metav1.ConditionTrue, reasonReady, false)
		f.edit(func(set *v1alpha1.AutoscalingRunnerSet) { set.Spec.MaxRunners = new(7) })
		f.settle()
		f.wantReady("another change", metav1.ConditionTrue, reasonReady, false)
		if kubernetes.asked != 1 {
			t.Errorf("%d dry runs, want one for the change of the template", kubernetes.asked)
		}
	})
}

// A write that is overtaken, or gets no answer, cuts a pass short before anybody asks about the changed template.
func TestAPassThatIsCutShortIsNotReadyWithAChangedTemplate(t *testing.T) {
	for name, answer := range map[string]error{
		"overtaken": apierrors.NewConflict(schema.GroupResource{Resource: "ephemeralrunnersets"}, "set",
			errors.New("read it again")),
		"unanswered": errors.New("timeout"),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				var fails error
				f.intercept.Apply = func(
					ctx context.Context, c client.WithWatch, object runtime.ApplyConfiguration,
					options ...client.ApplyOption,
				) error {
					if fails != nil {
						return fails
					}
					return c.Apply(ctx, object, options...)
				}
				f.admit(&admission{})
				f.listen()
				f.edit(func(set *v1alpha1.AutoscalingRunnerSet) {
					set.Spec.Template.Labels = map[string]string{"a": "b"}
				})
				fails = answer
				for range 3 {
					// errors are the point of it
					_, _ = f.controller.Reconcile(t.Context(), reconcile.Request{NamespacedName: setKey})
					if set := f.set(); set.Status.ObservedGeneration == set.Generation &&
						meta.IsStatusConditionTrue(set.Status.Conditions, v1alpha1.ConditionReady) {
						t.Error("ready before the template was applied")
					}
					controllertest.Elapse(2 * statusInterval)
				}
				fails = nil
				f.settle()
				f.wantReady("applied", metav1.ConditionTrue, reasonReady, false)
			})
		})
	}
}

// waitingRunner creates a runner of the set's template that reports why it waits, and has the set's runner set say so.
func (f *fixture) waitingRunner(name, reason string) *v1alpha1.EphemeralRunner {
	f.Helper()
	runner := &v1alpha1.EphemeralRunner{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: setNamespace, Name: name, CreationTimestamp: metav1.Now(),
			Labels: map[string]string{v1alpha1.LabelScaleSetName: setKey.Name,
				v1alpha1.LabelScaleSetNamespace: setNamespace},
			Annotations: map[string]string{v1alpha1.AnnotationRunnerSpecHash: templateOf(f.set())},
		},
		Status: v1alpha1.EphemeralRunnerStatus{Phase: v1alpha1.EphemeralRunnerPhasePending, Reason: reason,
			Message: "pods are forbidden: why"},
	}
	f.create(runner)
	f.pending(metav1.ConditionTrue, reason)
	return runner
}

// pending has the runner set say whether runners wait.
func (f *fixture) pending(status metav1.ConditionStatus, reason string) {
	f.Helper()
	runnerSet := f.runnerSets()[0]
	meta.SetStatusCondition(&runnerSet.Status.Conditions,
		metav1.Condition{Type: v1alpha1.ConditionRunnersPending, Status: status, Reason: reason})
	f.updateStatus(&runnerSet)
}

// runnerPod creates the pod of a runner of the set's template.
func (f *fixture) runnerPod(name string) {
	f.Helper()
	pod := podOf(f.set(), nil)
	pod.Name, pod.CreationTimestamp = name, metav1.Now()
	pod.Labels = map[string]string{v1alpha1.LabelScaleSetName: setKey.Name,
		v1alpha1.LabelScaleSetNamespace: setNamespace}
	f.create(pod)
}

// What forbids all real pods for a minute makes the set unready, whatever a dry run says. When no runner waits any
// more, a dry run shows whether that is mended.
func TestPodsThatAreForbiddenForAMinuteMakeTheSetUnready(t *testing.T) {
	inBubble(t, func(f *fixture) {
		kubernetes := f.admit(&admission{answer: errNoDryRun})
		f.listen()
		f.runnerPod("earlier")
		runner := f.waitingRunner("r1", v1alpha1.ReasonPodForbidden)
		f.runFor(50 * time.Second)
		f.wantReady("for less than a minute", metav1.ConditionTrue, v1alpha1.ReasonPodForbidden, false)
		f.runnerPod("other")
		f.runFor(50 * time.Second)
		f.wantReady("another runner got its pod meanwhile", metav1.ConditionTrue, v1alpha1.ReasonPodForbidden, false)
		f.runFor(30 * time.Second)
		f.wantReady("for a minute", metav1.ConditionFalse, v1alpha1.ReasonPodForbidden, true)
		kubernetes.answer = errPodSecurity
		f.runFor(2 * time.Minute)
		if err := f.client.Delete(f.Context(), runner); err != nil {
			t.Fatal(err)
		}
		f.pending(metav1.ConditionFalse, "RunnersStart")
		f.runFor(3 * time.Minute)
		f.wantReady("no runner waits, and nothing is mended", metav1.ConditionFalse, v1alpha1.ReasonPodForbidden, true)
		kubernetes.answer = nil
		f.runFor(6 * time.Minute)
		f.wantReady("mended", metav1.ConditionTrue, reasonReady, false)
	})
}

// A pod that exists proves that the template is admitted, whatever a dry run says, which a policy may treat otherwise.
// What waits for another reason proves nothing.
func TestARealPodCountsMoreThanADryRun(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.admit(&admission{answer: errPodSecurity})
		f.listen()
		f.waitingRunner("r1", v1alpha1.ReasonQuotaExceeded)
		f.runFor(2 * time.Minute)
		f.wantReady("refused", metav1.ConditionFalse, v1alpha1.ReasonPodForbidden, true)
		f.pending(metav1.ConditionFalse, "RunnersStart")
		f.runnerPod("r1")
		f.settle()
		f.wantReady("a pod was admitted", metav1.ConditionTrue, reasonReady, false)
		f.runFor(time.Hour)
		f.wantReady("an hour later", metav1.ConditionTrue, reasonReady, false)
	})
}

func TestATemplateWithoutRunnerIsRefusedWithoutARequest(t *testing.T) {
	inBubble(t, func(f *fixture) {
		kubernetes := f.admit(&admission{})
		f.change = func(o *autoscalingrunnerset.Options) {
			o.RunnerPod = func(set *v1alpha1.AutoscalingRunnerSet, runnerSet *v1alpha1.EphemeralRunnerSet) *corev1.Pod {
				pod := podOf(set, runnerSet)
				pod.Spec.Containers[0].Name = "main"
				return pod
			}
		}
		f.restart()
		f.listen()
		f.wantReady("no container runner", metav1.ConditionFalse, v1alpha1.ReasonInvalidPod, false)
		if kubernetes.asked != 0 {
			t.Errorf("%d dry runs", kubernetes.asked)
		}
	})
}
