package integration

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// withApp has the rig's scale set use a GitHub App, and tell on commits what happens to its jobs.
func withApp(t *testing.T) rig.Options {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	encoded := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	return rig.Options{
		MaxRunners: 5,
		GitHub:     fakegithub.Options{Apps: []fakegithub.App{{ID: "12", PublicKey: &key.PublicKey}}},
		ScaleSetValues: rig.Values{
			"feedback": map[string]any{"checks": true, "checkAfter": "2s"},
			"githubConfigSecret": map[string]any{
				"github_app_id": "12", "github_app_installation_id": "7", "github_app_private_key": string(encoded),
			},
		},
	}
}

// said returns the names and texts of the check runs.
func said(r *rig.Rig) func() []string {
	return func() (all []string) {
		for _, check := range r.GitHub.CheckRuns() {
			all = append(all, fmt.Sprintf("%s: %s (%s, %s)", check.Name, check.Output.Title, check.Status, check.Conclusion))
		}
		slices.Sort(all)
		return all
	}
}

// A job waits because of a quota, gets its runner and loses it: its commit has all of that, also after kills of manager
// and listener.
func TestCommitsSayWhatHappensToJobs(t *testing.T) {
	r := rig.Start(t, testkube.Borrow(t), withApp(t))
	api, eventually := r.Cluster.Client(), gomega.NewWithT(t).Eventually
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: r.RunnerNamespace, Name: "none"}}
	quota.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	if err := api.Create(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	r.QueueJobs(1, time.Hour)
	eventually(said(r), rig.Patience).Should(gomega.ConsistOf(gomega.MatchRegexp(
		`^Runners ` + rig.DefaultSet +
			`: waiting \(QuotaExceeded\), ci #1 / build: Waiting for a runner since \d+ \w+, \d\d:\d\d UTC: a quota of the cluster allows no more runners \(completed, neutral\)$`)))
	r.KillListener()
	r.KillManager()
	if err := api.Delete(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	over := gomega.Equal(`Runners ` + rig.DefaultSet +
		`: waiting (QuotaExceeded), ci #1 / build: No longer waiting for this (completed, neutral)`)
	// The next manager looks every minute, and what it sees has to hold for a minute.
	eventually(said(r), 2*rig.Patience).Should(gomega.ConsistOf(over))
	busy := func() (pods []corev1.Pod) {
		return slices.DeleteFunc(r.RunnerPods(),
			func(pod corev1.Pod) bool { return pod.Annotations[v1alpha1.AnnotationJobID] == "" })
	}
	eventually(busy, rig.Patience).Should(gomega.HaveLen(1))
	if err := r.Node.Evict(client.ObjectKeyFromObject(&busy()[0]),
		"The node was low on resource: ephemeral-storage."); err != nil {
		t.Fatal(err)
	}
	eventually(said(r), rig.Patience).Should(gomega.ConsistOf(over, gomega.Equal(
		`Runners `+rig.DefaultSet+
			`: lost (Evicted), ci #1 / build: Lost with the runner: its pod was evicted from its node (completed, neutral)`)))
}

// GitHub lets nobody write check runs with a token: a scale set with one says so, and works.
func TestChecksNeedAnApp(t *testing.T) {
	r := rig.Start(t, testkube.Borrow(t), rig.Options{
		MaxRunners:     5,
		ScaleSetValues: rig.Values{"feedback": map[string]any{"checks": true}},
	})
	api, eventually := r.Cluster.Client(), gomega.NewWithT(t).Eventually
	r.QueueJobs(1, time.Hour)
	eventually(func() []corev1.Pod {
		return slices.DeleteFunc(r.RunnerPods(),
			func(pod corev1.Pod) bool { return pod.Annotations[v1alpha1.AnnotationJobID] == "" })
	}, rig.Patience).Should(gomega.HaveLen(1))
	if err := r.Node.Evict(client.ObjectKeyFromObject(&r.RunnerPods()[0]),
		"The node was low on resource: ephemeral-storage."); err != nil {
		t.Fatal(err)
	}
	eventually(func() (string, error) {
		set := &v1alpha1.AutoscalingRunnerSet{}
		key := types.NamespacedName{Namespace: r.RunnerNamespace, Name: rig.DefaultSet}
		if err := api.Get(t.Context(), key, set); err != nil {
			return "", err
		}
		if c := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionFeedbackPermitted); c != nil {
			return string(c.Status) + " " + c.Reason, nil
		}
		return "", nil
	}, rig.Patience).Should(gomega.Equal("False PermissionMissing"))
	if checks := r.GitHub.CheckRuns(); len(checks) != 0 {
		t.Errorf("%+v", checks)
	}
	r.WaitDone(r.QueueJobs(1, time.Second))
}
