// Package upgrade upgrades from releases before this one, while jobs run, and goes back: real programs of both, built
// from their commits, on a test API server (package rig).
package upgrade

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// Until there is a release, a commit plays the one before; where the clone is too shallow to have it, its oldest one.
const played = "ae13a352"

var from = flag.String("upgrade.from", played, "the releases to upgrade from: commits, tags or directories, separated by commas")

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(rig.Main(m))
}

// Jobs that run through an upgrade and the way back stay on their runners and succeed, and new ones get runners at every
// point. The CRDs are replaced before everything else, as they are with the controller's chart, or after it, by somebody
// who applies them by hand: until then the new manager waits.
func TestUpgradeAndBackWhileJobsRun(t *testing.T) {
	ours, err := filepath.Abs(filepath.Join(root, "apis", "crds"))
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.SplitSeq(*from, ",") {
		former := formerProduct(t, name)
		for _, first := range []bool{true, false} {
			when := "CRDs last"
			if first {
				when = "CRDs first"
			}
			t.Run(name+"/"+when, func(t *testing.T) { upgradeAndBack(t, former, ours, first) })
		}
	}
}

func upgradeAndBack(t *testing.T, former formerRelease, ours string, first bool) {
	cluster := testkube.Borrow(t)
	s := suite{t: t, Rig: rig.Start(t, cluster, rig.Options{MinRunners: 1, Product: former.Product})}
	s.replaceCRDs(former.crds)
	s.WaitDone(s.QueueJobs(1, 0))
	held := s.QueueJobs(3, rig.Held)
	s.awaitBusy(3)
	set, scaleSets := s.busyPods(), len(s.GitHub.Snapshot().ScaleSets)

	s.become(rig.Product{}, ours, first)
	s.sameRunners(set)
	s.WaitDone(s.QueueJobs(2, 0))

	s.become(former.Product, former.crds, !first) // the way back is the other way round
	s.sameRunners(set)
	s.WaitDone(s.QueueJobs(2, 0))

	s.become(rig.Product{}, ours, first)
	s.sameRunners(set)
	s.EndJobs(held)
	s.WaitDone(s.QueueJobs(1, 0))
	s.AwaitQuiet()
	if after := len(s.GitHub.Snapshot().ScaleSets); after != scaleSets {
		t.Errorf("GitHub had %d scale sets, and has %d", scaleSets, after)
	}
}

// suite is a rig whose product is replaced.
type suite struct {
	*rig.Rig

	t *testing.T
}

// become upgrades to a product, whose CRDs are replaced first or last, and returns when its manager and its listener
// are the only ones.
func (s suite) become(product rig.Product, crds string, first bool) {
	s.t.Helper()
	if first {
		s.replaceCRDs(crds)
	}
	s.Upgrade(product)
	if !first {
		s.replaceCRDs(crds)
	}
	tag := ":test"
	if product.Tag != "" {
		tag = ":" + product.Tag
	}
	gomega.NewWithT(s.t).Eventually(func() (strange []string) {
		ready := 0
		for _, pod := range s.pods(s.SystemNamespace) {
			condition := kube.PodCondition(&pod, corev1.PodReady)
			switch {
			case !strings.HasSuffix(pod.Spec.Containers[0].Image, tag):
				strange = append(strange, pod.Name+" of the other")
			case condition == nil || condition.Status != corev1.ConditionTrue:
				strange = append(strange, pod.Name+" not ready")
			default:
				ready++
			}
		}
		if ready < 2 {
			strange = append(strange, "manager or listener is missing")
		}
		return strange
	}, rig.Patience).Should(gomega.BeEmpty(), "pods of %s", tag)
	s.AwaitListening(rig.DefaultSet)
}

// replaceCRDs gives the cluster the CRDs of a directory, and nothing of those that were there.
func (s suite) replaceCRDs(directory string) {
	s.t.Helper()
	if _, err := s.Kubectl("replace", "--filename", directory); err != nil {
		s.t.Fatal(err)
	}
}

func (s suite) pods(namespace string) []corev1.Pod {
	s.t.Helper()
	pods := &corev1.PodList{}
	if err := s.Cluster.Client().List(s.t.Context(), pods, client.InNamespace(namespace)); err != nil {
		s.t.Fatal(err)
	}
	return pods.Items
}

func (s suite) awaitBusy(count int) {
	s.t.Helper()
	gomega.NewWithT(s.t).Eventually(func() []string { return s.busyPods() }, rig.Patience).Should(gomega.HaveLen(count))
}

// busyPods returns the pods whose runners have a job, with their UIDs.
func (s suite) busyPods() (names []string) {
	s.t.Helper()
	busy := map[string]bool{}
	for _, runner := range s.GitHub.Snapshot().Runners {
		busy[runner.Name] = runner.Busy
	}
	for _, pod := range s.RunnerPods() {
		if busy[pod.Name] {
			names = append(names, pod.Name+" "+string(pod.UID))
		}
	}
	slices.Sort(names)
	return names
}

func (s suite) sameRunners(before []string) {
	s.t.Helper()
	if after := s.busyPods(); !slices.Equal(before, after) {
		s.t.Errorf("jobs ran on %v, and run on %v", before, after)
	}
}
