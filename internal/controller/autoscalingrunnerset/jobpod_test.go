package autoscalingrunnerset_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset"
)

// jobAdmission plays an API server that admits runners' pods, possibly changed, and answers dry runs of jobs' pods.
type jobAdmission struct {
	answer error
	change func(*corev1.Pod)
	// image is the answer about the runner's pod under a job's name.
	image error
	tried []*unstructured.Unstructured
}

// runJobsAsPods has the set's runners use container hooks, whose template is in a ConfigMap.
func (f *fixture) runJobsAsPods(a *jobAdmission, required string) *jobAdmission {
	f.Helper()
	f.intercept.Create = func(
		ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption,
	) error {
		switch o := object.(type) {
		case *corev1.Pod:
			if strings.HasSuffix(o.Name, "-workflow") {
				return a.image
			}
			if a.change != nil {
				a.change(o)
			}
			return nil
		case *unstructured.Unstructured:
			a.tried = append(a.tried, o)
			return a.answer
		}
		return c.Create(ctx, object, options...)
	}
	f.change = func(o *autoscalingrunnerset.Options) {
		o.RunnerPod = func(set *v1alpha1.AutoscalingRunnerSet, runnerSet *v1alpha1.EphemeralRunnerSet) *corev1.Pod {
			pod := podOf(set, runnerSet)
			pod.Spec.Containers[0].Env = []corev1.EnvVar{
				{Name: "ACTIONS_RUNNER_CONTAINER_HOOKS", Value: "/home/runner/k8s-novolume/index.js"},
				{Name: "ACTIONS_RUNNER_REQUIRE_JOB_CONTAINER", Value: required},
				{Name: "ACTIONS_RUNNER_CONTAINER_HOOK_TEMPLATE", Value: "/t/key"},
			}
			pod.Spec.Volumes = []corev1.Volume{{Name: "t", VolumeSource: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "template"}}}}}
			pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "t", MountPath: "/t"},
				{Name: "token", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}}
			return pod
		}
	}
	f.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: setNamespace, Name: "template"},
		Data: map[string]string{"key": "spec: {nodeSelector: {pool: jobs}}"}})
	f.restart()
	return a
}

var errJobForbidden = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "set-runner-check-workflow",
	errors.New(`violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false`))

// told returns what the set's condition of a type says, "" while it isn't True.
func (f *fixture) told(conditionType string) string {
	c := meta.FindStatusCondition(f.set().Status.Conditions, conditionType)
	if c == nil || c.Status != metav1.ConditionTrue {
		return ""
	}
	return c.Message
}

func TestAJobsPodThatWouldBeRefusedMakesTheSetUnready(t *testing.T) {
	inBubble(t, func(f *fixture) {
		kubernetes := f.runJobsAsPods(&jobAdmission{answer: errJobForbidden}, "true")
		f.listen()
		f.wantReady("refused", metav1.ConditionFalse, v1alpha1.ReasonPodForbidden, false)
		for _, part := range []string{`violates PodSecurity "restricted`, "kubernetesModeHookTemplate", "namespace " + setNamespace} {
			if !strings.Contains(f.told(v1alpha1.ConditionJobPodRefused), part) {
				t.Errorf("%q doesn't say %q", f.told(v1alpha1.ConditionJobPodRefused), part)
			}
		}
		if f.told(v1alpha1.ConditionPodTemplateRefused) != "" {
			t.Error("the runner's pod is said to be refused")
		}
		pool, _, _ := unstructured.NestedString(kubernetes.tried[0].Object, "spec", "nodeSelector", "pool")
		if pool != "jobs" {
			t.Errorf("without the template: %v", kubernetes.tried[0])
		}
		f.runFor(2 * time.Minute)
		f.wantReady("refused for two minutes", metav1.ConditionFalse, v1alpha1.ReasonPodForbidden, true)
		kubernetes.tried = nil
		f.runFor(time.Hour)
		if tried := len(kubernetes.tried); tried == 0 || tried > 13 {
			t.Errorf("%d dry runs in an hour", tried)
		}
		f.restart()
		f.reconcile()
		f.wantReady("after a restart", metav1.ConditionFalse, v1alpha1.ReasonPodForbidden, true)
		kubernetes.answer = nil
		f.runFor(6 * time.Minute)
		f.wantReady("mended", metav1.ConditionTrue, reasonReady, false)
		f.wantCondition(v1alpha1.ConditionJobPodRefused, metav1.ConditionFalse, "PodsAdmitted")
	})
}

func TestJobsThatNeedNoPodKeepTheSetReady(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.runJobsAsPods(&jobAdmission{answer: errJobForbidden}, "false")
		f.listen()
		f.wantReady("refused", metav1.ConditionTrue, reasonReady, false)
		if f.told(v1alpha1.ConditionJobPodRefused) == "" {
			t.Error("nothing is said of jobs with a container")
		}
	})
}

// Which images jobs have is not known, so one that a policy refuses in their pods is told, and no more.
func TestAnImageThatPodsOfJobsMayNotHaveKeepsTheSetReady(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.runJobsAsPods(&jobAdmission{answer: errJobForbidden, image: errJobForbidden}, "true")
		f.listen()
		f.wantReady("refused", metav1.ConditionTrue, reasonReady, false)
		f.wantCondition(v1alpha1.ConditionJobPodRefused, metav1.ConditionTrue, v1alpha1.ReasonJobImageRefused)
		f.restart()
		f.runFor(time.Minute)
		f.wantReady("after a restart", metav1.ConditionTrue, reasonReady, false)
	})
}

// The hooks make the pods with the runner's account, for which a policy may make an exception.
func TestARealPodOfAJobCountsMoreThanADryRun(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.runJobsAsPods(&jobAdmission{answer: errJobForbidden}, "true")
		f.listen()
		f.wantReady("refused", metav1.ConditionFalse, v1alpha1.ReasonPodForbidden, false)
		f.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: setNamespace, Name: "set-abc-workflow",
			CreationTimestamp: metav1.Now(), Labels: map[string]string{v1alpha1.LabelRunnerPod: "set-abc",
				v1alpha1.LabelScaleSetName: setKey.Name, v1alpha1.LabelScaleSetNamespace: setNamespace}}})
		f.runFor(time.Hour)
		f.wantReady("a pod was admitted", metav1.ConditionTrue, reasonReady, false)
	})
}

// Nobody knows what is in a template that can't be read: a chart of an earlier version gives no right to.
func TestATemplateThatCannotBeReadIsNotTried(t *testing.T) {
	inBubble(t, func(f *fixture) {
		kubernetes := f.runJobsAsPods(&jobAdmission{answer: errJobForbidden}, "true")
		configure := f.change
		f.change = func(o *autoscalingrunnerset.Options) { configure(o); o.Reader = forbidding{o.Reader} }
		f.restart()
		f.listen()
		f.runFor(time.Hour)
		f.wantReady("unknown", metav1.ConditionTrue, reasonReady, false)
		if len(kubernetes.tried) > 0 {
			t.Errorf("%d dry runs", len(kubernetes.tried))
		}
	})
}

// forbidding forbids to read ConfigMaps.
type forbidding struct{ client.Reader }

func (r forbidding) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if _, is := o.(*corev1.ConfigMap); is {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, key.Name, errors.New("no"))
	}
	return r.Reader.Get(ctx, key, o, options...)
}

func TestWhatPoliciesTakeFromPodsIsTold(t *testing.T) {
	inBubble(t, func(f *fixture) {
		kubernetes := f.runJobsAsPods(&jobAdmission{change: func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Image = "mirror/runner"
		}}, "true")
		f.listen()
		f.wantReady("a mirror", metav1.ConditionTrue, reasonReady, false)
		f.wantCondition(v1alpha1.ConditionPodsAltered, metav1.ConditionFalse, "PodsExtended")
		kubernetes.change = func(pod *corev1.Pod) { pod.Spec.Containers[0].VolumeMounts = nil }
		f.edit(func(set *v1alpha1.AutoscalingRunnerSet) { set.Spec.Template.Labels = map[string]string{"a": "b"} })
		f.runFor(time.Minute)
		f.wantReady("what is lost may not be needed", metav1.ConditionTrue, reasonReady, false)
		if said := f.told(v1alpha1.ConditionPodsAltered); !strings.Contains(said, "the token of its account") {
			t.Errorf("%q", said)
		}
		kubernetes.change = nil
		f.edit(func(set *v1alpha1.AutoscalingRunnerSet) { set.Spec.Template.Labels = nil })
		f.runFor(time.Minute)
		f.wantCondition(v1alpha1.ConditionPodsAltered, metav1.ConditionFalse, "PodsAsWritten")
	})
}

// A claim that is refused keeps a pod waiting that is admitted.
func TestAResourceClaimThatWouldBeRefusedMakesTheSetUnready(t *testing.T) {
	inBubble(t, func(f *fixture) {
		var refusal error = apierrors.NewForbidden(schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceclaims"},
			"set-runner-check", errors.New("no GPUs here"))
		f.intercept.Create = func(
			ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption,
		) error {
			switch object.(type) {
			case *corev1.Pod:
				return nil
			case *unstructured.Unstructured:
				return refusal
			}
			return c.Create(ctx, object, options...)
		}
		f.change = func(o *autoscalingrunnerset.Options) {
			o.RunnerPod = func(set *v1alpha1.AutoscalingRunnerSet, runnerSet *v1alpha1.EphemeralRunnerSet) *corev1.Pod {
				pod := podOf(set, runnerSet)
				pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "shared", ResourceClaimName: new("one")},
					{Name: "gpu", ResourceClaimTemplateName: new("gpus")}, {Name: "later", ResourceClaimTemplateName: new("none")}}
				return pod
			}
		}
		f.create(&resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: setNamespace, Name: "gpus"}})
		f.restart()
		f.listen()
		f.wantReady("refused", metav1.ConditionFalse, v1alpha1.ReasonPodForbidden, false)
		if said := f.told(v1alpha1.ConditionPodTemplateRefused); !strings.Contains(said, "ResourceClaim gpu") {
			t.Errorf("%q", said)
		}
		refusal = nil
		f.runFor(2 * time.Minute)
		f.wantReady("mended", metav1.ConditionTrue, reasonReady, false)
	})
}
