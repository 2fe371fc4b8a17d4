package clusters

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/internal/testkube/fakenode"
	"github.com/harrier-ci/harrier/test/rig"
)

const (
	// Each cluster has room for this many runners.
	slots = 20
	// Both scale sets share name and label, so that jobs can ask for either.
	name, label = rig.DefaultSet, "linux"
	// placementTimeout is short, because a test can't wait for minutes until a pod is late.
	placementTimeout = "5s"
	// A cluster without nodes tries at most this many jobs while a test waits for the others: one after 1, 2, 4, …
	// times placementTimeout. That is 2 + log2(180 s / 5 s).
	probes = 8
	// GitHub notices the loss of a runner after runnerLostAfter. By then the manager knows, as within GitHub's own ten
	// minutes.
	runnerLostAfter = 30 * time.Second
)

// site is one of the clusters, with its scale set.
type site struct {
	*rig.Rig
	t     *testing.T
	group string // the runner group of its scale set
	slots atomic.Int64
}

// startSites installs the product in two clusters. Their scale sets differ in the runner group and in nothing else.
func startSites(t *testing.T) (east, west *site) {
	t.Helper()
	east = startSite(t, testkube.Shared(t), "east", nil)
	west = startSite(t, testkube.Start(t, rig.ClusterOptions()), "west", east.Rig)
	t.Cleanup(func() { east.UninstallSet(name) }) // the west goes first, and cleans up on GitHub for both
	return east, west
}

func startSite(t *testing.T, cluster *testkube.Cluster, group string, beside *rig.Rig) *site {
	t.Helper()
	s := &site{t: t, group: group}
	s.slots.Store(slots)
	s.Rig = rig.Start(t, cluster, rig.Options{
		Beside: beside, MaxRunners: 2 * slots, Slots: func() int { return int(s.slots.Load()) },
		GitHub: fakegithub.Options{
			Rules:        fakegithub.Rules{MultiLabel: true, RunnerLostAfter: runnerLostAfter},
			RunnerGroups: []string{"east", "west"}, PollLength: 10 * time.Second,
		},
		ScaleSetValues: rig.Values{
			"runnerGroup": group, "scaleSetLabels": []any{label},
			"capacity": rig.Values{"mode": "Placement", "placementTimeout": placementTimeout},
			"feedback": rig.Values{"rerunLostJobs": rig.Values{"maxAttempts": 1, "causes": []any{"NodeLost"},
				"ifNewerRun": "Rerun"}},
		},
	})
	if beside != nil {
		s.InstallSet(name, nil)
	}
	s.awaitSession()
	return s
}

// scaleSet returns the id of the cluster's scale set on GitHub.
func (s *site) scaleSet() int {
	for _, set := range s.GitHub.Snapshot().ScaleSets {
		if set.RunnerGroup == s.group {
			return set.ID
		}
	}
	return 0
}

// announced returns the number of jobs for which the cluster has announced room to GitHub, -1 if it has no session.
func (s *site) announced() int {
	id := s.scaleSet()
	for _, session := range s.GitHub.Snapshot().Sessions {
		if session.ScaleSetID == id {
			return session.Capacity
		}
	}
	return -1
}

func (s *site) awaitSession() {
	s.t.Helper()
	gomega.NewWithT(s.t).Eventually(s.announced, rig.Patience).
		Should(gomega.BeNumerically(">", 0), "announced by the %s", s.group)
}

// jobs returns the given jobs that the cluster has in that state.
func (s *site) jobs(in fakegithub.JobState, ids []int64) (its []int64) {
	id := s.scaleSet()
	for _, job := range s.GitHub.Jobs(in) {
		if job.ScaleSetID == id && slices.Contains(ids, job.RequestID) {
			its = append(its, job.RequestID)
		}
	}
	return its
}

// loseNodes takes the power from all nodes with runners, and no others come. Manager and listener are elsewhere.
func (s *site) loseNodes() {
	s.t.Helper()
	s.slots.Store(0)
	runners := func(pod *corev1.Pod) bool { return pod.Namespace == s.RunnerNamespace }
	if err := s.Node.Lose(s.t.Context(), runners, fakenode.PowerOff); err != nil {
		s.t.Fatal(err)
	}
	for _, pod := range s.RunnerPods() {
		if pod.Spec.NodeName != "" {
			s.LoseNodeOf(&pod)
		}
	}
}

// condition returns status and reason of a condition of the scale set, empty without one.
func (s *site) condition(about string) string {
	set := &v1alpha1.AutoscalingRunnerSet{}
	key := client.ObjectKey{Namespace: s.RunnerNamespace, Name: name}
	if err := s.Cluster.Client().Get(s.t.Context(), key, set); err != nil {
		s.t.Fatal(err)
	}
	if c := meta.FindStatusCondition(set.Status.Conditions, about); c != nil {
		return string(c.Status) + "/" + c.Reason
	}
	return ""
}

// annotate sets an annotation of the scale set, or removes it if the value is nil.
func (s *site) annotate(annotation string, value *string) {
	s.t.Helper()
	set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.RunnerNamespace, Name: name}}
	before := set.DeepCopy()
	if value != nil {
		set.Annotations = map[string]string{annotation: *value}
	} else {
		before.Annotations = map[string]string{annotation: ""}
	}
	if err := s.Cluster.Client().Patch(s.t.Context(), set, client.MergeFrom(before)); err != nil {
		s.t.Fatal(err)
	}
}
