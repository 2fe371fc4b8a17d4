package autoscalingrunnerset_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/listenertemplate"
)

// asTheController gives a set the labels of the controller's pods, and asks for Secrets and an identity of the
// manager's namespace.
func asTheController(s *v1alpha1.AutoscalingRunnerSet) {
	s.Labels["app.kubernetes.io/name"], s.Labels["app.kubernetes.io/instance"] = "gha-rs-controller", "arc"
	s.Labels["argocd.argoproj.io/instance"], s.Labels["kustomize.toolkit.fluxcd.io/name"],
		s.Labels["helm.sh/chart"] = "a",
		"b", "c"
	s.Spec.ListenerTemplate = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		NodeSelector: map[string]string{"pool": "system"},
		Volumes: []corev1.Volume{{Name: "ca",
			VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "other"}}}},
		Containers: []corev1.Container{{Name: "listener", Image: "mine",
			VolumeMounts: []corev1.VolumeMount{{Name: "ca", MountPath: "/ca"}}}},
	}}
	s.Spec.ListenerServiceAccountMetadata = &v1alpha1.ResourceMeta{
		Annotations: map[string]string{"eks.amazonaws.com/role-arn": "arn"}}
	s.Spec.AutoscalingListenerMetadata = &v1alpha1.ResourceMeta{
		Labels: map[string]string{"app.kubernetes.io/namespace": managerNamespace, "owner": "yes"}}
	s.Spec.EphemeralRunnerMetadata = &v1alpha1.ResourceMeta{Labels: map[string]string{"app.kubernetes.io/name": "job"}}
}

func TestListenerHasWhatThePolicyLetsThrough(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet(asTheController))
		f.settle()
		listener, runnerSet := f.listeners()[0], f.runnerSets()[0]
		wantLabels := map[string]string{
			"owner": "yes", "team": "build", v1alpha1.LabelOrganization: "my-org",
			v1alpha1.LabelPartOf: v1alpha1.PartOfScaleSet, v1alpha1.LabelComponent: v1alpha1.ComponentListener,
			v1alpha1.LabelScaleSetName: "set", v1alpha1.LabelScaleSetNamespace: setNamespace,
		}
		if diff := cmp.Diff(wantLabels, listener.Labels); diff != "" {
			t.Errorf("labels (-want +got):\n%s", diff)
		}
		wantTemplate := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			NodeSelector: map[string]string{"pool": "system"}, Containers: []corev1.Container{{Name: "listener"}},
		}}
		if diff := cmp.Diff(wantTemplate, listener.Spec.Template); diff != "" {
			t.Errorf("template (-want +got):\n%s", diff)
		}
		if account := listener.Spec.ServiceAccountMetadata; len(account.Annotations) > 0 {
			t.Errorf("the ServiceAccount has annotations %v", account.Annotations)
		}
		if runnerSet.Labels["app.kubernetes.io/name"] != "gha-rs-controller" ||
			runnerSet.Spec.EphemeralRunnerMetadata.Labels["app.kubernetes.io/name"] != "job" {
			t.Error("runners have lost labels")
		}
	})
}

func TestRefusedFieldsAreToldAndForgotten(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet(asTheController))
		f.settle()
		f.wantCondition(v1alpha1.ConditionListenerTemplateAccepted, metav1.ConditionFalse, v1alpha1.ReasonFieldsRefused)
		message := meta.FindStatusCondition(f.set().Status.Conditions,
			v1alpha1.ConditionListenerTemplateAccepted).Message
		for _, part := range []string{
			"spec.volumes[ca].secret", "spec.containers[listener].image", "spec.containers[listener].volumeMounts[/ca]",
			"listenerServiceAccountMetadata.annotations[eks.amazonaws.com/role-arn]",
			"autoscalingListener.labels[app.kubernetes.io/namespace]",
			"flags.listenerTemplatePolicy",
		} {
			if !strings.Contains(message, part) {
				t.Errorf("the message lacks %s: %s", part, message)
			}
		}
		f.listening()
		f.settle()
		f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, reasonReady) // the listener runs without them
		if told := controllertest.CountEvents(f.recorder, v1alpha1.ReasonFieldsRefused); told != 1 {
			t.Errorf("it was told %d times", told)
		}
		f.edit(func(s *v1alpha1.AutoscalingRunnerSet) {
			s.Spec.ListenerTemplate, s.Spec.ListenerServiceAccountMetadata, s.Spec.AutoscalingListenerMetadata = nil,
				nil, nil
		})
		f.settle()
		f.wantCondition(v1alpha1.ConditionListenerTemplateAccepted, metav1.ConditionTrue, reasonAccepted)
	})
}

func TestUnrestrictedPolicyLetsEverythingThrough(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.change = func(o *autoscalingrunnerset.Options) { o.ListenerPolicy = listenertemplate.Policy{Unrestricted: true} }
		f.restart()
		f.create(newSet(asTheController))
		f.settle()
		f.wantCondition(v1alpha1.ConditionListenerTemplateAccepted, metav1.ConditionTrue, reasonAccepted)
		listener := f.listeners()[0]
		if diff := cmp.Diff(f.set().Spec.ListenerTemplate, listener.Spec.Template); diff != "" {
			t.Errorf("template (-want +got):\n%s", diff)
		}
		if listener.Labels["app.kubernetes.io/namespace"] != managerNamespace ||
			listener.Spec.ServiceAccountMetadata.Annotations["eks.amazonaws.com/role-arn"] != "arn" {
			t.Errorf("metadata were refused: %v, %v", listener.Labels, listener.Spec.ServiceAccountMetadata)
		}
		if listener.Labels["app.kubernetes.io/name"] != "" || listener.Labels["argocd.argoproj.io/instance"] != "" {
			t.Errorf("the set's own labels say who installed the listener: %v", listener.Labels)
		}
	})
}

// ARC's image is left out under every policy, and the condition says that asking for another policy is of no use.
func TestARCImageIsNamedAndNotUsed(t *testing.T) {
	for _, policy := range []listenertemplate.Policy{{}, {Unrestricted: true}} {
		inBubble(t, func(f *fixture) {
			f.change = func(o *autoscalingrunnerset.Options) { o.ListenerPolicy = policy }
			f.restart()
			f.create(newSet(func(s *v1alpha1.AutoscalingRunnerSet) {
				listener := corev1.Container{Name: "listener",
					Image: "registry.example.com/ghcr.io/actions/gha-runner-scale-set-controller:0.14.2"}
				s.Spec.ListenerTemplate = &corev1.PodTemplateSpec{
					Spec: corev1.PodSpec{Containers: []corev1.Container{listener}}}
			}))
			f.settle()
			f.wantCondition(v1alpha1.ConditionListenerTemplateAccepted, metav1.ConditionFalse,
				v1alpha1.ReasonFieldsRefused)
			message := meta.FindStatusCondition(f.set().Status.Conditions,
				v1alpha1.ConditionListenerTemplateAccepted).Message
			if !strings.Contains(message,
				"spec.containers[listener].image: it is the image of actions-runner-controller, which no "+
					"policy allows") {
				t.Errorf("%s: %s", policy.Name(), message)
			}
			if image := f.listeners()[0].Spec.Template.Spec.Containers[0].Image; image != "" {
				t.Errorf("%s: the listener has the image %s", policy.Name(), image)
			}
			if told := controllertest.CountEvents(f.recorder, v1alpha1.ReasonFieldsRefused); told != 1 {
				t.Errorf("%s: it was told %d times", policy.Name(), told)
			}
		})
	}
}

// A template with thousands of fields that are refused makes neither a long status nor more than one Event.
func TestManyRefusedFieldsMakeAShortMessage(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet(func(s *v1alpha1.AutoscalingRunnerSet) {
			s.Spec.ListenerTemplate = &corev1.PodTemplateSpec{}
			s.Spec.ListenerTemplate.Annotations = map[string]string{}
			for i := range 1_000 {
				s.Spec.ListenerTemplate.Annotations[fmt.Sprintf("eks.amazonaws.com/%d", i)] = "v"
			}
		}))
		f.settle()
		message := meta.FindStatusCondition(f.set().Status.Conditions,
			v1alpha1.ConditionListenerTemplateAccepted).Message
		if len(message) > 1024 || !strings.Contains(message, "more; the listener runs without them") ||
			!strings.HasSuffix(message, "of its chart") {
			t.Errorf("message of %d bytes: %s", len(message), message)
		}
		if told := controllertest.CountEvents(f.recorder, v1alpha1.ReasonFieldsRefused); told != 1 {
			t.Errorf("it was told %d times", told)
		}
	})
}
