package gitops

import (
	"context"
	"testing"
	"time"

	"github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// enforced is the label by which a namespace enforces a Pod Security Standard.
const enforced = "pod-security.kubernetes.io/enforce"

// waits are Helm's arguments to install or upgrade a scale set and wait for the result.
var waits = []string{"--install", "--wait", "--timeout", rig.Patience.String()}

// A scale set whose pods the namespace forbids is never current. After a minute it has failed, before its first job:
// Helm with --wait stops then, and prints the reason. After an upgrade the new template decides.
func TestAScaleSetThatCanStartNoRunnerIsNotCurrent(t *testing.T) {
	r := rig.Start(t, testkube.Shared(t), rig.Options{})
	labelled(t, r, enforced, "baseline")
	g, dind := gomega.NewWithT(t), rig.Values{"containerMode": rig.Values{"type": "dind"}}
	began := time.Now()
	g.Expect(r.AttemptUpgrade("dind", dind, waits...)).
		To(gomega.MatchError(gomega.And(gomega.ContainSubstring("AutoscalingRunnerSet"),
			gomega.ContainSubstring("Failed"))))
	if took := time.Since(began); took >= rig.Patience || statusOf(t, r, "dind") != failed {
		t.Errorf("Helm took %s, and the scale set is %s", took, statusOf(t, r, "dind"))
	}
	g.Expect(readyOf(t, r, "dind")).To(gomega.And(
		gomega.ContainSubstring(`violates PodSecurity "baseline:latest": privileged`),
		gomega.ContainSubstring(`must not set securityContext.privileged=true`),
		gomega.ContainSubstring("spec.template"), gomega.ContainSubstring(v1alpha1.ReasonPodForbidden),
	))
	labelled(t, r, enforced, "privileged")
	g.Expect(r.AttemptUpgrade("dind", rig.Values{"containerMode": dind["containerMode"], "template": labelledTemplate},
		waits...)).To(gomega.Succeed())
	g.Expect(statusOf(t, r, "dind")).To(gomega.Equal(current))

	labelled(t, r, enforced, "baseline")
	r.UpgradeSet("dind", dind)
	g.Consistently(func() string { return statusOf(t, r, "dind") }, 5*time.Second, 20*time.Millisecond).
		Should(gomega.Equal(inProgress), "the former template was admitted, the new one isn't")
	g.Expect(readyOf(t, r, "dind")).To(gomega.ContainSubstring(v1alpha1.ReasonPodForbidden))
}

// labelledTemplate is a value that changes the template.
var labelledTemplate = rig.Values{"metadata": rig.Values{"labels": rig.Values{"a": "b"}}}

// A full quota and a webhook that is down pass. They make no scale set unready, neither a new one nor one with waiting
// jobs, so Helm with --wait succeeds.
func TestWhatPassesKeepsAScaleSetCurrent(t *testing.T) {
	r := rig.Start(t, testkube.Shared(t), rig.Options{})
	g := gomega.NewWithT(t)
	full := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.RunnerNamespace, Name: "team"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}},
	}
	create(t, r, full)
	g.Eventually(func() (int, error) {
		err := r.Cluster.Client().Get(t.Context(), client.ObjectKeyFromObject(full), full)
		return len(full.Status.Hard), err
	}, rig.Patience).Should(gomega.Equal(1))
	g.Expect(r.AttemptUpgrade("full", rig.Values{"minRunners": 1}, waits...)).To(gomega.Succeed())
	g.Eventually(func() string { return readyOf(t, r, "full") }, rig.Patience).
		Should(gomega.ContainSubstring(v1alpha1.ReasonQuotaExceeded))
	g.Expect(statusOf(t, r, "full")).To(gomega.Equal(current))
	g.Expect(statusOf(t, r, rig.DefaultSet)).To(gomega.Equal(current))

	down := webhookDown(r.RunnerNamespace)
	create(t, r, down)
	if err := r.Cluster.Client().Delete(t.Context(), full); err != nil {
		t.Fatal(err)
	}
	g.Expect(r.AttemptUpgrade("unasked", rig.Values{"minRunners": 1}, waits...)).To(gomega.Succeed())
	g.Eventually(func() string { return readyOf(t, r, "unasked") }, rig.Patience).
		Should(gomega.ContainSubstring("failed calling webhook"))
	for _, set := range []string{"unasked", rig.DefaultSet} {
		g.Expect(statusOf(t, r, set)).To(gomega.Equal(current))
	}
	if err := r.Cluster.Client().Delete(t.Context(), down); err != nil {
		t.Fatal(err)
	}
	r.WaitDone(r.QueueJobs(1, 0))
}

// webhookDown returns a webhook for the namespace's pods; nobody listens at its address.
func webhookDown(namespace string) *admissionregistrationv1.ValidatingWebhookConfiguration {
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "pods.example.com", ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL: new("https://127.0.0.1:1")},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
					Resources: []string{"pods"}},
			}},
			NamespaceSelector: &metav1.LabelSelector{
				MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
			SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}
}

func create(t *testing.T, r *rig.Rig, object client.Object) {
	t.Helper()
	if err := r.Cluster.Client().Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Cluster.Client().Delete(context.WithoutCancel(t.Context()), object) }) // it may be gone
}

// labelled sets a label of the runners' namespace.
func labelled(t *testing.T, r *rig.Rig, key, value string) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.RunnerNamespace}}
	before := namespace.DeepCopy()
	namespace.Labels = map[string]string{key: value}
	if err := r.Cluster.Client().Patch(t.Context(), namespace, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// setOf reads a scale set.
func setOf(t *testing.T, r *rig.Rig, name string) map[string]any {
	t.Helper()
	set := &unstructured.Unstructured{}
	set.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("AutoscalingRunnerSet"))
	key := client.ObjectKey{Namespace: r.RunnerNamespace, Name: name}
	if err := r.Cluster.Client().Get(t.Context(), key, set); err != nil {
		t.Fatal(err)
	}
	return set.Object
}

// statusOf returns kstatus' result for a scale set.
func statusOf(t *testing.T, r *rig.Rig, name string) string {
	t.Helper()
	return kstatus(setOf(t, r, name))
}

// readyOf returns reason and message of a scale set's condition Ready.
func readyOf(t *testing.T, r *rig.Rig, name string) string {
	t.Helper()
	list, _, _ := unstructured.NestedSlice(setOf(t, r, name), "status", "conditions")
	for _, item := range list {
		if condition, ok := item.(map[string]any); ok && condition["type"] == "Ready" {
			return text(condition["reason"]) + ": " + text(condition["message"])
		}
	}
	return ""
}
