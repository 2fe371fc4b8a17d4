package listener_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/listener"
)

var errAway = errors.New("the API server is away")

// nursery is a cluster reduced to one rule: as many simulated runners are alive as the listener asks for, and a runner
// counts until its end was published (jobPatchID). It never removes one.
type nursery struct {
	t      *testing.T
	client *actions.Client
	setID  int

	mu        sync.Mutex
	set       listener.RunnerSet
	runners   map[string]*v1alpha1.EphemeralRunnerStatus
	peak      int
	status    v1alpha1.ListenerState
	awayUntil time.Time

	context context.Context
	work    sync.WaitGroup
}

func newNursery(t *testing.T, client *actions.Client, setID int) *nursery {
	ctx, cancel := context.WithCancel(context.Background())
	n := &nursery{t: t, client: client, setID: setID, runners: map[string]*v1alpha1.EphemeralRunnerStatus{}, context: ctx}
	t.Cleanup(func() {
		cancel()
		n.work.Wait()
	})
	return n
}

// away makes every request fail for a while; 0 ends that.
func (n *nursery) away(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.awayUntil = time.Now().Add(d)
}

// locked runs work unless the server is away.
func (n *nursery) locked(work func()) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if time.Now().Before(n.awayUntil) {
		return errAway
	}
	work()
	return nil
}

func (n *nursery) RunnerSet(context.Context) (*listener.RunnerSet, error) {
	var read listener.RunnerSet
	err := n.locked(func() { read = n.set })
	return &read, err
}

func (n *nursery) Publish(_ context.Context, publication listener.Publication) (*listener.RunnerSet, error) {
	var answer listener.RunnerSet
	err := n.locked(func() {
		if publication.PatchID < n.set.PatchID {
			n.t.Errorf("patchID went back from %d to %d", n.set.PatchID, publication.PatchID)
		}
		n.set.Publication = publication
		n.fill()
		answer = n.set
	})
	return &answer, err
}

func (n *nursery) ReportState(_ context.Context, status v1alpha1.ListenerStatus) error {
	return n.locked(func() { n.status, n.set.Listener = status.State, &status })
}

func (n *nursery) ReportJob(_ context.Context, runner string, status v1alpha1.EphemeralRunnerStatus) error {
	return n.locked(func() {
		n.runners[runner] = &status
		n.fill()
	})
}

// fill makes the runners that are missing.
func (n *nursery) fill() {
	taken := n.taken()
	n.peak = max(n.peak, taken)
	for ; taken < n.set.Replicas; taken++ {
		name := fmt.Sprint("runner-", len(n.runners))
		n.runners[name] = &v1alpha1.EphemeralRunnerStatus{}
		n.work.Go(func() { n.run(name) })
	}
}

func (n *nursery) taken() (count int) {
	for _, status := range n.runners {
		if !status.JobCompleted() || n.set.PatchID < status.JobPatchID {
			count++
		}
	}
	return count
}

func (n *nursery) run(name string) {
	made, err := n.client.GenerateJITConfig(n.context, n.setID, actions.JITConfigRequest{Name: name})
	if err != nil {
		if n.context.Err() == nil {
			n.t.Errorf("JIT config of %s: %v", name, err)
		}
		return
	}
	_, _ = fakegithub.RunRunner(n.context, made.EncodedJITConfig, fakegithub.RunnerOptions{}) // ends with the test if it got no job
}

func count[T any](n *nursery, what func() T) T {
	n.mu.Lock()
	defer n.mu.Unlock()
	return what()
}

func (n *nursery) replicas() int { return count(n, func() int { return n.set.Replicas }) }
func (n *nursery) alive() int    { return count(n, n.taken) }
func (n *nursery) most() int     { return count(n, func() int { return n.peak }) }
func (n *nursery) made() int     { return count(n, func() int { return len(n.runners) }) }
func (n *nursery) session() string {
	return count(n, func() string { return n.set.SessionID })
}
func (n *nursery) state() string { return count(n, func() string { return string(n.status) }) }

func (n *nursery) completed() int {
	return count(n, func() (done int) {
		for _, status := range n.runners {
			if status.JobCompleted() {
				done++
			}
		}
		return done
	})
}
