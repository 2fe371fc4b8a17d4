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

// managerObject names the Deployment, the PodDisruptionBudget and the Lease that the controller's chart renders or asks
// for.
var managerObject = client.ObjectKey{Namespace: site.SystemNamespace, Name: site.ControllerName + "-gha-rs-controller"}

// Of two managers one leads. Both run on the only node: their affinity asks them to keep apart, but does not force
// them.
func TestJobsSurviveTheDeathOfTheLeader(t *testing.T) {
	reconfigureController(t, func(values site.Values) { values["replicaCount"] = 2 })
	pods := managers(t, 2)
	expectDisruptionsAllowed(t, 1)
	s := install(t, "leader", 0, 6)
	ids := s.queue(6, 4*time.Second)
	s.awaitJobs(ids[:1], state.Running)
	position := func(name string) int {
		return slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Name == name })
	}
	first := s.awaitLeader(func(name string) bool { return position(name) >= 0 }) // and not one from before the upgrade
	kill(t, pods[position(first)])
	ids = append(ids, s.queue(4, time.Second)...) // nobody leads when these come
	s.awaitLeader(func(name string) bool { return name != first })
	s.awaitSuccess(ids)
	s.awaitNoRunners()
}

// awaitLeader waits until a suitable pod holds the Lease, and returns its name. After a leader's death that may be the
// other replica or the dead one's successor.
func (s *scaleSet) awaitLeader(willDo func(name string) bool) string {
	s.t.Helper()
	var leader string
	s.await(s.t.Context(), "a leader", func() (string, error) {
		var lease coordinationv1.Lease
		if err := kube.Get(s.t.Context(), managerObject, &lease); err != nil {
			return err.Error(), client.IgnoreNotFound(err)
		}
		leader, _, _ = strings.Cut(ptr.Deref(lease.Spec.HolderIdentity, ""), "_")
		if leader == "" || !willDo(leader) {
			return fmt.Sprintf("%q leads", leader), nil
		}
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
