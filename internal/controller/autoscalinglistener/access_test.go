package autoscalinglistener_test

import (
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalinglistener/listenerpod"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/kube"
)

// A token dies with its ServiceAccount, and the kubelet gets another only when its hour is nearly over.
func TestPodIsReplacedWithItsServiceAccount(t *testing.T) {
	f := started(t)
	f.made(f.pod(), f.clock.Now())
	f.deleteAccount()
	f.settle()
	if f.pod().Status.Phase != corev1.PodRunning {
		t.Fatal("the pod was replaced before the cache has shown that the account is another one")
	}
	f.made(f.account(), f.clock.Now())
	f.settle()
	if f.pod().Status.Phase != corev1.PodRunning {
		t.Fatal("the pod was replaced, though it is as old as the account")
	}
	f.made(f.account(), f.clock.Now().Add(time.Second))
	f.reconcile()
	if told := controllertest.CountEvents(f.recorder, listenerpod.ReasonReplacing); told != 1 {
		t.Errorf("the pod's replacement was told %d times", told)
	}
	f.reconcile()
	f.made(f.pod(), f.clock.Now().Add(time.Second))
	f.run()
	f.settle()
	f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, listenerpod.ReasonReady)
}

// A first pass makes the account and the pod immediately, before the cache has either.
func TestPodOfANewAccountStays(t *testing.T) {
	f := newFixture(t)
	f.create(newSet(), newListener())
	f.settle()
	f.made(f.account(), f.clock.Now())
	f.made(f.pod(), f.clock.Now())
	f.run()
	f.settle()
	f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, listenerpod.ReasonReady)
}

// What is in the manager's namespace has neither an annotation that a set chose nor the labels of the controller's own
// objects. What is in the set's own namespace has its annotations, and the pod has what the policy leaves of the
// template.
func TestObjectsInTheManagersNamespaceHaveWhatThePolicyLetsThrough(t *testing.T) {
	meta := &v1alpha1.ResourceMeta{Labels: map[string]string{"app.kubernetes.io/name": "gha-rs-controller",
		"owner": "yes"}, Annotations: map[string]string{"eks.amazonaws.com/role-arn": "arn"}}
	f := started(t, func(l *v1alpha1.AutoscalingListener) {
		l.Spec.Template = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "sidecar",
			Image: "sidecar:1"}}}}
		// those by which the chart's own objects select, a cloud and a GitOps tool
		maps.Copy(l.Labels, map[string]string{
			"app.kubernetes.io/name": "gha-rs-controller", "app.kubernetes.io/namespace": managerNamespace,
			"app.kubernetes.io/instance": "arc",
			v1alpha1.LabelPartOf:         "gha-rs-controller", v1alpha1.LabelComponent: "controller-manager",
			"argocd.argoproj.io/instance": "arc", "kustomize.toolkit.fluxcd.io/name": "arc", "helm.sh/chart": "arc",
			"azure.workload.identity/use": "true",
		})
		l.Spec.ServiceAccountMetadata, l.Spec.ConfigSecretMetadata, l.Spec.RoleMetadata = meta, meta, meta
	})
	secret, role := &corev1.Secret{}, &rbacv1.Role{}
	f.get(secret, key.Namespace, key.Name+"-config")
	f.get(role, setNamespace, key.Name)
	for name, object := range map[string]client.Object{"ServiceAccount": f.account(), "Secret": secret} {
		if got := object.GetAnnotations()["eks.amazonaws.com/role-arn"]; got != "" ||
			object.GetLabels()["owner"] != "yes" {
			t.Errorf("%s: annotation %q, labels %v", name, got, object.GetLabels())
		}
	}
	for name, object := range map[string]client.Object{"ServiceAccount": f.account(), "Secret": secret,
		"pod": f.pod()} {
		for key := range object.GetLabels() {
			if key == "azure.workload.identity/use" ||
				(kube.OfInstaller(key) && key != v1alpha1.LabelPartOf && key != v1alpha1.LabelComponent) {
				t.Errorf("%s has the label %s", name, key)
			}
		}
	}
	if role.Annotations["eks.amazonaws.com/role-arn"] != "arn" {
		t.Errorf("the Role has annotations %v", role.Annotations)
	}
	if containers := f.pod().Spec.Containers; len(containers) != 1 {
		t.Errorf("the pod has %d containers", len(containers))
	}
}

func (f *fixture) account() *corev1.ServiceAccount {
	f.Helper()
	account := &corev1.ServiceAccount{}
	if !f.get(account, key.Namespace, key.Name) {
		f.Fatal("there is no ServiceAccount")
	}
	return account
}

func (f *fixture) deleteAccount() {
	f.Helper()
	if err := f.client.Delete(f.Context(), f.account()); err != nil {
		f.Fatal(err)
	}
}

// made sets when an object was created, which the fake API server leaves open.
func (f *fixture) made(object client.Object, at time.Time) {
	f.Helper()
	object.SetCreationTimestamp(metav1.NewTime(at))
	if err := f.client.Update(f.Context(), object); err != nil {
		f.Fatal(err)
	}
}
