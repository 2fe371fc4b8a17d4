package integration

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/podstatus"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// Kueue's marks on a pod that names a queue: a label, a finalizer and a scheduling gate.
const (
	kueueQueue   = "kueue.x-k8s.io/queue-name"
	kueueManaged = "kueue.x-k8s.io/managed" // both a label and the finalizer
	kueueGate    = "kueue.x-k8s.io/admission"
)

// kueue plays Kueue for the plain pods of a rig. Its webhook gates new ones. Its controller opens as many gates as its
// quota has room for, and takes its finalizer from pods that have ended or are deleted behind the gate.
type kueue struct {
	*rig.Rig
	quota atomic.Int64
	// keeps makes it leave its finalizers on pods, as while its manager is away.
	keeps atomic.Bool
}

// startKueue starts one with a quota of 0 pods, which ends with the test.
func startKueue(t *testing.T, r *rig.Rig) *kueue {
	t.Helper()
	k := &kueue{Rig: r}
	server := httptest.NewTLSServer(http.HandlerFunc(k.admit))
	t.Cleanup(server.Close)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	webhook := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: r.RunnerNamespace},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "mpod.kb.io", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: new(server.URL),
				CABundle: certificate},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
					Resources: []string{"pods"}},
			}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: r.RunnerNamespace}},
			ObjectSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: kueueQueue,
				Operator: metav1.LabelSelectorOpExists}}},
			SideEffects: new(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		}},
	}
	if err := r.Cluster.Client().Create(t.Context(), webhook); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for rig.Wait(ctx, 200*time.Millisecond) {
			k.reconcile(ctx)
		}
	}()
	t.Cleanup(func() {
		stop()
		<-ended
		_ = r.Cluster.Client().Delete(context.Background(), webhook)
	})
	return k
}

// admit is the webhook.
func (k *kueue) admit(w http.ResponseWriter, request *http.Request) {
	var review admissionv1.AdmissionReview
	var pod corev1.Pod
	body, err := io.ReadAll(request.Body)
	if err != nil || json.Unmarshal(body, &review) != nil || review.Request == nil ||
		json.Unmarshal(review.Request.Object.Raw, &pod) != nil {
		http.Error(w, "no review of a pod", http.StatusBadRequest)
		return
	}
	pod.Labels[kueueManaged] = "true"
	patch, err := json.Marshal([]map[string]any{
		{"op": "add", "path": "/metadata/labels", "value": pod.Labels},
		{"op": "add", "path": "/metadata/finalizers", "value": append(pod.Finalizers, kueueManaged)},
		{"op": "add", "path": "/spec/schedulingGates", "value": append(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: kueueGate})},
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	review.Response = &admissionv1.AdmissionResponse{
		UID:       review.Request.UID,
		Allowed:   true,
		Patch:     patch,
		PatchType: new(admissionv1.PatchTypeJSONPatch),
	}
	_ = json.NewEncoder(w).Encode(review)
}

// reconcile looks at all pods. What fails is done the next time.
func (k *kueue) reconcile(ctx context.Context) {
	var pods corev1.PodList
	if k.Cluster.Client().List(ctx, &pods, client.InNamespace(k.RunnerNamespace), client.HasLabels{kueueManaged}) != nil {
		return
	}
	room := k.quota.Load()
	var gated []*corev1.Pod
	for i := range pods.Items {
		pod := &pods.Items[i]
		isGated := len(pod.Spec.SchedulingGates) > 0
		switch {
		case podstatus.IsFinished(pod), isGated && pod.DeletionTimestamp != nil:
			if !k.keeps.Load() {
				k.patch(ctx, pod, func() {
					pod.Finalizers = slices.DeleteFunc(pod.Finalizers, func(f string) bool { return f == kueueManaged })
				})
			}
		case isGated:
			gated = append(gated, pod)
		default:
			room--
		}
	}
	for _, pod := range gated {
		if room--; room >= 0 {
			k.patch(ctx, pod, func() { pod.Spec.SchedulingGates = nil })
		}
	}
}

func (k *kueue) patch(ctx context.Context, pod *corev1.Pod, change func()) {
	before := pod.DeepCopy()
	change()
	_ = k.Cluster.Client().Patch(ctx, pod, client.MergeFrom(before))
}

// Pods behind Kueue's gate wait for as long as it takes, unchanged, and say for whom. As many pods run as the quota
// admits, and no more jobs than that are drawn. A pod that has ended, but still exists because of Kueue's finalizer, is
// no runner any more: the next jobs don't wait for it.
func TestKueue(t *testing.T) {
	r := rig.Start(t, testkube.Borrow(t), rig.Options{
		GitHub: multiLabel, MaxRunners: 40, Slots: func() int { return 100 }, ScaleSetValues: placing(rig.Values{
			"pendingTimeout": "5s", "template": rig.Values{"metadata": rig.Values{"labels": rig.Values{kueueQueue: "ci"}}},
		}),
	})
	k := startKueue(t, r)
	g := gomega.NewWithT(t)
	ids := r.QueueJobs(20, rig.Held)
	g.Eventually(func() string {
		pending := meta.FindStatusCondition(readSet(t, r, rig.DefaultSet).Status.Conditions, v1alpha1.ConditionRunnersPending)
		if pending == nil || pending.Status != metav1.ConditionTrue || pending.Reason != corev1.PodReasonSchedulingGated {
			return ""
		}
		return pending.Message
	}, rig.Patience).Should(gomega.ContainSubstring(kueueGate))
	gated := runnerPods(r)
	g.Eventually(func() placed { return roomOf(t, r, rig.DefaultSet) }, rig.Patience).Should(gomega.And(
		gomega.HaveField("Reason", v1alpha1.ReasonPodsUnschedulable),
		gomega.HaveField("Advertised", gomega.BeNumerically("<=", few))))

	k.quota.Store(3)
	running := func() int { return len(r.GitHub.Jobs("running")) }
	g.Eventually(running, rig.Patience).Should(gomega.Equal(3), "jobs that the quota admits")
	for _, pod := range gated {
		g.Expect(runnerPods(r)).To(gomega.ContainElement(pod), "pods that have waited for several times pendingTimeout")
	}
	k.quota.Store(100)
	g.Eventually(running, rig.Patience).Should(gomega.Equal(20), "jobs that run once the quota has room")

	k.keeps.Store(true)
	r.EndJobs(ids)
	r.WaitDone(r.QueueJobs(20, 0))
	g.Eventually(func() [2]int {
		status := readSet(t, r, rig.DefaultSet).Status
		return [2]int{status.RunningEphemeralRunners, status.BusyRunners}
	}, rig.Patience).Should(gomega.Equal([2]int{}), "running and busy runners of which only Kueue keeps the pods")
	g.Expect(len(runnerPods(r))).To(gomega.BeNumerically(">=", 40), "pods that Kueue keeps")
	g.Eventually(func() placed { return roomOf(t, r, rig.DefaultSet) }, rig.Patience).Should(
		gomega.HaveField("Reason", gomega.Not(gomega.Equal(v1alpha1.ReasonPodsUnschedulable))))
	k.keeps.Store(false)
	r.AwaitQuiet()
}
