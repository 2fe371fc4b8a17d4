package integration

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/internal/testkube/fakenode"
	"github.com/harrier-ci/harrier/test/rig"
)

// What a runner does when its job was cancelled.
const (
	exitsGone = "exits, and its record goes"
	exitsKept = "exits, and its record stays"
	hangs     = "hangs"
)

// matrix is a matrix of jobs that is cancelled when its runners are up.
type matrix struct {
	kind      string
	up        atomic.Int32
	cancelled chan struct{}
}

// cancelledRunners plays a rig's runner containers: those that start while there is a matrix get none of its jobs.
func cancelledRunners(current *atomic.Pointer[matrix], of func() *rig.Rig) fakenode.Runner {
	return fakenode.RunnerFunc(func(ctx context.Context, container *fakenode.Container) int {
		m := current.Load()
		if m == nil {
			return of().RunRunner(ctx, container)
		}
		m.up.Add(1)
		select {
		case <-m.cancelled:
		case <-ctx.Done():
			return fakegithub.ExitDone
		}
		switch m.kind {
		case hangs:
			<-ctx.Done()
		case exitsGone:
			for _, runner := range of().GitHub.Snapshot().Runners {
				if runner.Name == container.Pod.Name {
					_ = of().GitHub.RemoveRunner(runner.ID) // the manager may have been first
				}
			}
		}
		return fakegithub.ExitDone
	})
}

// Two matrices that people cancel when their runners are up are nobody's fault, whatever the runners do then: real jobs
// start after them, and the set blames nobody. How soon they start is asserted where time is played
// (TestCancelledMatricesCostNothing); here it is printed, since on a busy machine it says more of the machine.
func TestCancelledMatrices(t *testing.T) {
	const matrixJobs, realJobs = 30, 40
	g := gomega.NewWithT(t)
	var current atomic.Pointer[matrix]
	var r *rig.Rig
	r = rig.Start(t, testkube.Borrow(t), rig.Options{MaxRunners: 50, Containers: map[string]fakenode.Runner{
		v1alpha1.RunnerContainerName: cancelledRunners(&current, func() *rig.Rig { return r }),
	}})
	t.Logf("on a quiet set: %s", rig.TimingOf(r.WaitDone(r.QueueJobs(realJobs, time.Second))))
	for _, kind := range []string{exitsGone, exitsKept, hangs} {
		for range 2 {
			m := &matrix{kind: kind, cancelled: make(chan struct{})}
			current.Store(m)
			ids := r.QueueJobs(matrixJobs, time.Second)
			g.Eventually(m.up.Load, rig.Patience).Should(gomega.BeNumerically(">=", matrixJobs), "%s: runners are up", kind)
			for _, id := range ids {
				if err := r.GitHub.CancelJob(id); err != nil {
					t.Fatal(err)
				}
			}
			close(m.cancelled)
		}
		current.Store(nil)
		t.Logf("a runner %s: %s", kind, rig.TimingOf(r.WaitDone(r.QueueJobs(realJobs, time.Second))))
		set := readSet(t, r, rig.DefaultSet)
		for _, about := range []string{v1alpha1.ConditionDegraded, v1alpha1.ConditionStatisticsDoubtful} {
			if meta.IsStatusConditionTrue(set.Status.Conditions, about) {
				t.Errorf("a runner %s: %+v", kind, meta.FindStatusCondition(set.Status.Conditions, about))
			}
		}
	}
}
