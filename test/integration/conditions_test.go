package integration

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// Within toldWithin of a scale set's creation its status says whether it can work.
const toldWithin = 30 * time.Second

// trouble is a fault of a scale set, and what its status has to say about it.
type trouble struct {
	values        rig.Values
	about, reason string
	// says are parts of the message: the cause, and what to do.
	says []string
}

// Whether credentials, address, group and network work is told within half a minute, before the first job, with cause
// and next step. A set that works beside them is not disturbed, and each of them can be uninstalled.
func TestTroubleIsToldBeforeTheFirstJob(t *testing.T) {
	silent := silentServer(t)
	r := rig.Start(t, testkube.Borrow(t),
		rig.Options{AllowedAddresses: []string{"http://127.0.0.1:1", "http://github.invalid", silent}})
	troubles := map[string]trouble{
		"token": {rig.Values{"githubConfigSecret": rig.Values{"github_token": "ghp_nobodyKnowsThisToken"}},
			v1alpha1.ConditionCredentialsValid, v1alpha1.ReasonUnauthorized, []string{"401", "check"}},
		"secret": {rig.Values{"githubConfigSecret": "absent"},
			v1alpha1.ConditionCredentialsValid, v1alpha1.ReasonCredentialsMissing,
			[]string{"absent does not exist", "create it"}},
		"group": {rig.Values{"runnerGroup": "nobody"},
			v1alpha1.ConditionScaleSetRegistered, v1alpha1.ReasonRunnerGroupNotFound,
			[]string{`"nobody"`, "create it on GitHub, or correct runnerGroup"}},
		"port": {rig.Values{"githubConfigUrl": "http://127.0.0.1:1/org"},
			v1alpha1.ConditionScaleSetRegistered, v1alpha1.ReasonGitHubUnavailable, []string{"connection refused", "check"}},
		"host": {rig.Values{"githubConfigUrl": "http://github.invalid/org"},
			v1alpha1.ConditionScaleSetRegistered, v1alpha1.ReasonHostNotFound, []string{"github.invalid", "check"}},
		"address": {rig.Values{"githubConfigUrl": "http://127.0.0.1:2/org"},
			v1alpha1.ConditionCredentialsValid, v1alpha1.ReasonAddressNotAllowed,
			[]string{"githubConfigUrl", "http://127.0.0.1:2/org", "flags.allowedGitHubURLs"}},
		"silence": {rig.Values{"githubConfigUrl": silent + "/org"},
			v1alpha1.ConditionScaleSetRegistered, v1alpha1.ReasonGitHubUnavailable, []string{"answer", "check"}},
	}
	for name, trouble := range troubles {
		r.InstallSet(name, trouble.values)
	}
	for name, trouble := range troubles {
		trouble.check(t, r, name)
	}
	r.WaitDone(r.QueueJobs(1, 0))
}

// check waits until the status names all that is wrong, and checks the time at which it first did.
func (p trouble) check(t *testing.T, r *rig.Rig, name string) {
	t.Helper()
	var said metav1.Condition
	var set *v1alpha1.AutoscalingRunnerSet
	complete := func() bool {
		set = readSet(t, r, name)
		if found := meta.FindStatusCondition(set.Status.Conditions, p.about); found != nil {
			said = *found
		}
		return said.Status == metav1.ConditionFalse && said.Reason == p.reason &&
			!slices.ContainsFunc(p.says, func(part string) bool { return !strings.Contains(said.Message, part) })
	}
	told := func() string { return fmt.Sprintf("%s: %s is %s: %s", name, p.about, said.Reason, said.Message) }
	gomega.NewWithT(t).Eventually(complete, rig.Patience).Should(gomega.BeTrue(), told)
	if after := said.LastTransitionTime.Sub(set.CreationTimestamp.Time); after > toldWithin {
		t.Errorf("%s: told after %s", name, after)
	}
	t.Log(told())
}

// readSet returns a scale set of the runners' namespace. The test fails without one.
func readSet(t *testing.T, r *rig.Rig, name string) *v1alpha1.AutoscalingRunnerSet {
	t.Helper()
	set := &v1alpha1.AutoscalingRunnerSet{}
	key := client.ObjectKey{Namespace: r.RunnerNamespace, Name: name}
	if err := r.Cluster.Client().Get(context.Background(), key, set); err != nil {
		t.Fatal(err)
	}
	return set
}

// awaitTrue waits until a condition of a scale set holds.
func awaitTrue(t *testing.T, r *rig.Rig, name, about string) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func() bool {
		return meta.IsStatusConditionTrue(readSet(t, r, name).Status.Conditions, about)
	}, rig.Patience).Should(gomega.BeTrue(), "%s of %s", about, name)
}

// silentServer returns the address of a server that takes connections and never answers, as a firewall's black hole
// does.
func silentServer(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return "http://" + listener.Addr().String()
}
