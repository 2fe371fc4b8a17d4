package listenertest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/listener/cluster"
)

// Cluster is an API server for one set. Hooks answer before the default does.
type Cluster struct {
	Mu    sync.Mutex
	Begun time.Time
	Set   cluster.RunnerSet
	// Calls lists the calls with their times, such as "3s publish 2 #8".
	Calls     []string
	Published []cluster.Publication
	States    []v1alpha1.ListenerStatus
	Jobs      map[string]v1alpha1.EphemeralRunnerStatus

	reads int

	OnPublish func() error
	OnState   func() error
	OnJob     func(runner string) error
}

func (c *Cluster) note(format string, values ...any) {
	c.Calls = append(c.Calls, time.Since(c.Begun).String()+" "+fmt.Sprintf(format, values...))
}

// RunnerSet implements cluster.Cluster.
func (c *Cluster) RunnerSet(context.Context) (*cluster.RunnerSet, error) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	c.reads++
	read := c.Set
	return &read, nil
}

// Reads returns the number of reads of the set.
func (c *Cluster) Reads() int {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return c.reads
}

// Publish implements cluster.Cluster.
func (c *Cluster) Publish(_ context.Context, publication cluster.Publication) (*cluster.RunnerSet, error) {
	if hook := Guarded(&c.Mu, &c.OnPublish); hook != nil {
		if err := hook(); err != nil {
			return nil, err
		}
	}
	c.Mu.Lock()
	defer c.Mu.Unlock()
	c.note("publish %d #%d", publication.Replicas, publication.PatchID-c.Set.PatchID)
	c.Published = append(c.Published, publication)
	return &cluster.RunnerSet{
		Publication: publication,
		UID:         c.Set.UID,
		Capacity:    c.Set.Capacity,
		Runners:     c.Set.Runners,
		Listener:    c.Set.Listener,
	}, nil
}

// WriteStatus implements cluster.Cluster.
func (c *Cluster) WriteStatus(_ context.Context, status v1alpha1.ListenerStatus) error {
	if hook := Guarded(&c.Mu, &c.OnState); hook != nil {
		if err := hook(); err != nil {
			return err
		}
	}
	c.Mu.Lock()
	defer c.Mu.Unlock()
	c.States = append(c.States, status)
	c.Set.Listener = &status
	return nil
}

// ReportJob implements cluster.Cluster.
func (c *Cluster) ReportJob(ctx context.Context, runner string, status v1alpha1.EphemeralRunnerStatus) error {
	if hook := Guarded(&c.Mu, &c.OnJob); hook != nil {
		if err := hook(runner); err != nil {
			return err
		}
	}
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if c.Jobs == nil {
		c.Jobs = map[string]v1alpha1.EphemeralRunnerStatus{}
	}
	c.Jobs[runner] = status
	c.note("report %s %s", runner, status.JobResult)
	return nil
}

// Last returns the latest publication.
func (c *Cluster) Last() cluster.Publication {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if len(c.Published) == 0 {
		return cluster.Publication{}
	}
	return c.Published[len(c.Published)-1]
}

// Publications returns the number of writes of the set.
func (c *Cluster) Publications() int {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return len(c.Published)
}

// State returns the last state and its reason.
func (c *Cluster) State() string {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if len(c.States) == 0 {
		return ""
	}
	last := c.States[len(c.States)-1]
	return string(last.State) + "/" + last.Reason
}

// Status returns the last status, and StatusWrites the number of them.
func (c *Cluster) Status() (status v1alpha1.ListenerStatus) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if len(c.States) > 0 {
		status = c.States[len(c.States)-1]
	}
	return status
}

// StatusWrites returns the number of writes of the status.
func (c *Cluster) StatusWrites() int {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return len(c.States)
}

// Job returns the latest report about a runner.
func (c *Cluster) Job(runner string) v1alpha1.EphemeralRunnerStatus {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return c.Jobs[runner]
}

// Guarded reads, under mu, what a test may have changed in the meantime.
func Guarded[T any](mu *sync.Mutex, of *T) T {
	mu.Lock()
	defer mu.Unlock()
	return *of
}
