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
	"github.com/harrier-ci/harrier/internal/listener/cluster"
)

var errAway = errors.New("the API server is away")

// simulatedCluster is a cluster reduced to one rule: as many simulated runners are alive as the listener asks for, and
// a runner counts until a patchID of at least its jobPatchID is published after its end. It never removes a runner.
type simulatedCluster struct {
	t      *testing.T
	client *actions.Client
	setID  int

	mu        sync.Mutex
	set       cluster.RunnerSet
	runners   map[string]*v1alpha1.EphemeralRunnerStatus
	peak      int
	status    v1alpha1.ListenerState
	awayUntil time.Time

	context context.Context
	work    sync.WaitGroup
}

func newSimulatedCluster(t *testing.T, client *actions.Client, setID int) *simulatedCluster {
	ctx, cancel := context.WithCancel(context.Background())
	c := &simulatedCluster{
		t:       t,
		client:  client,
		setID:   setID,
		runners: map[string]*v1alpha1.EphemeralRunnerStatus{},
		context: ctx,
	}
	t.Cleanup(func() {
		cancel()
		c.work.Wait()
	})
	return c
}

// away makes every request fail for that long; 0 ends that.
func (c *simulatedCluster) away(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.awayUntil = time.Now().Add(d)
}

// locked runs work under the lock unless the server is away.
func (c *simulatedCluster) locked(work func()) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Now().Before(c.awayUntil) {
		return errAway
	}
	work()
	return nil
}

func (c *simulatedCluster) RunnerSet(context.Context) (*cluster.RunnerSet, error) {
	var read cluster.RunnerSet
	err := c.locked(func() { read = c.set })
	return &read, err
}

func (c *simulatedCluster) Publish(_ context.Context, publication cluster.Publication) (*cluster.RunnerSet, error) {
	var answer cluster.RunnerSet
	err := c.locked(func() {
		if publication.PatchID < c.set.PatchID {
			c.t.Errorf("patchID went back from %d to %d", c.set.PatchID, publication.PatchID)
		}
		c.set.Publication = publication
		c.fill()
		answer = c.set
	})
	return &answer, err
}

func (c *simulatedCluster) WriteStatus(_ context.Context, status v1alpha1.ListenerStatus) error {
	return c.locked(func() { c.status, c.set.Listener = status.State, &status })
}

func (c *simulatedCluster) ReportJob(_ context.Context, runner string, status v1alpha1.EphemeralRunnerStatus) error {
	return c.locked(func() {
		c.runners[runner] = &status
		c.fill()
	})
}

// fill creates the missing runners.
func (c *simulatedCluster) fill() {
	taken := c.taken()
	c.peak = max(c.peak, taken)
	for ; taken < c.set.Replicas; taken++ {
		name := fmt.Sprint("runner-", len(c.runners))
		c.runners[name] = &v1alpha1.EphemeralRunnerStatus{}
		c.work.Go(func() { c.run(name) })
	}
}

func (c *simulatedCluster) taken() (count int) {
	for _, status := range c.runners {
		if !status.JobCompleted() || c.set.PatchID < status.JobPatchID {
			count++
		}
	}
	return count
}

func (c *simulatedCluster) run(name string) {
	made, err := c.client.GenerateJITConfig(c.context, c.setID, actions.JITConfigRequest{Name: name})
	if err != nil {
		if c.context.Err() == nil {
			c.t.Errorf("JIT config of %s: %v", name, err)
		}
		return
	}
	// Ends with the test if it got no job.
	_, _ = fakegithub.RunRunner(c.context, made.EncodedJITConfig, fakegithub.RunnerOptions{})
}

func count[T any](c *simulatedCluster, what func() T) T {
	c.mu.Lock()
	defer c.mu.Unlock()
	return what()
}

func (c *simulatedCluster) replicas() int { return count(c, func() int { return c.set.Replicas }) }
func (c *simulatedCluster) alive() int    { return count(c, c.taken) }
func (c *simulatedCluster) most() int     { return count(c, func() int { return c.peak }) }
func (c *simulatedCluster) made() int     { return count(c, func() int { return len(c.runners) }) }
func (c *simulatedCluster) session() string {
	return count(c, func() string { return c.set.SessionID })
}
func (c *simulatedCluster) state() string { return count(c, func() string { return string(c.status) }) }

func (c *simulatedCluster) completed() int {
	return count(c, func() (done int) {
		for _, status := range c.runners {
			if status.JobCompleted() {
				done++
			}
		}
		return done
	})
}
