package doctor

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// struck is an installation that worked until something happened to it. Each case ends as it began.
type struck struct {
	name string
	// strike does it and returns a function that undoes it.
	strike func(t *testing.T, r *rig.Rig) (mend func())
	symptom
}

var strikes = []struck{
	{"quota used up", fullQuota, symptom{
		about: v1alpha1.ConditionQuotaExceeded, status: yes, reason: "PodsForbidden",
		column: v1alpha1.ConditionQuotaExceeded, code: 1,
		words:  []string{"3 runners wait", "exceeded quota: team", "raise the"},
		alerts: []string{"HarrierScaleSetTrouble", "HarrierPodsPending", "HarrierJobsWaitWithoutRunner"},
	}},
	{"GitHub's rate limit", faulty(fakegithub.Fault{
		Endpoint: "generate-jit-config", Status: 429, Headers: map[string]string{"Retry-After": "35"},
		Body: `{"message":"API rate limit exceeded"}`,
	}), symptom{
		about: v1alpha1.ConditionRunnersPending, status: yes, reason: v1alpha1.ReasonRateLimited, code: 1,
		words:  []string{"3 runners wait", "until 20", "GitHub App"},
		alerts: []string{"HarrierPodsPending", "HarrierJobsWaitWithoutRunner"},
	}},
	{"manager without its rights", unbound, symptom{
		about: v1alpha1.ConditionRunnersPending, status: yes, reason: v1alpha1.ReasonSecretRefused,
		finding: "MissingPermission", code: 1,
		words: []string{"harrier-gha-rs-controller may not get secrets, create secrets, create pods, delete pods",
			"helm upgrade"},
		alerts: []string{"HarrierPodsPending", "HarrierJobsWaitWithoutRunner"},
	}},
	{"GitHub down", faulty(fakegithub.Fault{Endpoint: "*", Status: 503, Body: "Service Unavailable",
		ContentType: "text/plain"}), symptom{
		about: v1alpha1.ConditionListenerReady, status: no, reason: v1alpha1.ReasonGitHubUnavailable, code: 1,
		words:  []string{"503", "githubstatus.com"},
		alerts: []string{"HarrierScaleSetNotReady"},
	}},
}

// Whatever happens to an installation that worked, kubectl get, conditions, Events, metrics and the doctor say so while
// jobs wait, and no longer when it is over.
func TestStruckInstallationsSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	// A Retry-After of less than 30 s is waited for within the call; jobs wait for the one above until it is over.
	// Polls are short so that the end of a trouble shows soon: a poll has to come back for that.
	r := rig.Start(t, testkube.Start(t, rig.ClusterOptions()),
		rig.Options{GitHub: fakegithub.Options{PollLength: 5 * time.Second}})
	metrics := observe(t, r)
	for _, s := range strikes {
		t.Run(s.name, func(t *testing.T) {
			mend := s.strike(t, r)
			ids := r.QueueJobs(3, time.Second)
			s.await(t, r, metrics, rig.DefaultSet)
			mend()
			r.WaitDone(ids)
			NewWithT(t).Eventually(func() (string, error) {
				seen, err := look(t.Context(), r, metrics, rig.DefaultSet)
				if err != nil || (len(seen.troubles) == 0 && seen.code == 0 && seen.columns["Reason"] == "Ready" &&
					seen.columns["Pending Runners"] == "0") {
					return "", err
				}
				return seen.String(), nil
			}, 2*rig.Patience, time.Second).Should(BeEmpty(), "what is left after %s", s.name)
		})
	}
}

// faulty makes calls to GitHub go wrong.
func faulty(fault fakegithub.Fault) func(*testing.T, *rig.Rig) func() {
	return func(t *testing.T, r *rig.Rig) func() {
		t.Helper()
		id, err := r.GitHub.AddFault(fault)
		if err != nil {
			t.Fatal(err)
		}
		return func() { r.GitHub.RemoveFault(id) }
	}
}

// fullQuota leaves no room for a pod.
func fullQuota(t *testing.T, r *rig.Rig) func() {
	t.Helper()
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.RunnerNamespace, Name: "team"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}},
	}
	if err := r.Cluster.Client().Create(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	NewWithT(t).Eventually(func() (int, error) {
		err := r.Cluster.Client().Get(t.Context(), client.ObjectKeyFromObject(quota), quota)
		return len(quota.Status.Hard), err
	}, rig.Patience, time.Second).Should(Equal(1), "the quota is not in force")
	return func() { drop(t, r, quota) }
}

// unbound deletes the manager's RoleBinding in the runners' namespace, and waits until the rights are gone: the API
// server learns of it a moment later. Without the wait, runners could still be created.
func unbound(t *testing.T, r *rig.Rig) func() {
	t.Helper()
	binding := &rbacv1.RoleBinding{}
	key := client.ObjectKey{Namespace: r.RunnerNamespace, Name: rig.DefaultSet + "-gha-rs-manager"}
	if err := r.Cluster.Client().Get(t.Context(), key, binding); err != nil {
		t.Fatal(err)
	}
	drop(t, r, binding)
	NewWithT(t).Eventually(func() (bool, error) {
		manager := testkube.ServiceAccountUser(r.SystemNamespace, rig.ControllerAccount)
		return testkube.Allowed(t.Context(), r.Cluster.Client(), manager, authorizationv1.ResourceAttributes{
			Namespace: r.RunnerNamespace, Verb: "create", Resource: "pods",
		})
	}, rig.Patience).Should(BeFalse(), "the manager still has its rights")
	return func() {
		binding.ResourceVersion, binding.UID = "", ""
		if err := r.Cluster.Client().Create(t.Context(), binding); err != nil {
			t.Fatal(err)
		}
	}
}

func drop(t *testing.T, r *rig.Rig, object client.Object) {
	t.Helper()
	if err := r.Cluster.Client().Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}
