package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/hack/site"
	"github.com/harrier-ci/harrier/internal/fakegithub/state"
)

// managerObject names the Deployment, the PodDisruptionBudget and the Lease that the controller's chart renders or asks for.
var managerObject = client.ObjectKey{Namespace: site.SystemNamespace, Name: site.ControllerName + "-gha-rs-controller"}

// Of two managers one leads. That both run on the only node shows that they are asked, not made, to keep apart.
func TestJobsSurviveTheDeathOfTheLeader(t *testing.T) {
	reconfigureController(t, func(values site.Values) { values["replicaCount"] = 2 })
	pods := managers(t, 2)
	expectDisruptionsAllowed(t, 1)
	s := install(t, "leader", 0, 6)
	ids := s.queue(6, 4*time.Second)
	s.awaitJobs(ids[:1], state.Running)
	leader := s.awaitLeader(pods)
	kill(t, leader)
	ids = append(ids, s.queue(4, time.Second)...) // nobody leads when these come
	survivors := slices.DeleteFunc(pods, func(p corev1.Pod) bool { return p.UID == leader.UID })
	s.awaitLeader(survivors)
	s.awaitSuccess(ids)
	s.awaitNoRunners()
}

// awaitLeader waits until one of the pods holds the Lease, and returns it.
func (s *scaleSet) awaitLeader(pods []corev1.Pod) corev1.Pod {
	s.t.Helper()
	var leader corev1.Pod
	s.await(s.t.Context(), "a leader", func() (string, error) {
		var lease coordinationv1.Lease
		if err := kube.Get(s.t.Context(), managerObject, &lease); err != nil {
			return err.Error(), client.IgnoreNotFound(err)
		}
		holder := ptr.Deref(lease.Spec.HolderIdentity, "")
		i := slices.IndexFunc(pods, func(p corev1.Pod) bool { return strings.HasPrefix(holder, p.Name+"_") })
		if i < 0 {
			return holder + " leads", nil
		}
		leader = pods[i]
		return "", nil
	})
	return leader
}

func expectDisruptionsAllowed(t *testing.T, want int32) {
	t.Helper()
	err := place.Await(t.Context(), "the PodDisruptionBudget", limit, func() (string, error) {
		var budget policyv1.PodDisruptionBudget
		if err := kube.Get(t.Context(), managerObject, &budget); err != nil {
			return "", err
		}
		if got := budget.Status.DisruptionsAllowed; got != want {
			return fmt.Sprintf("it allows %d disruptions, want %d", got, want), nil
		}
		return "", nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
