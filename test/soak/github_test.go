package soak

import (
	"context"
	"sync"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
)

// github registers runners, and refuses to remove those in busy.
type github struct {
	mutex      sync.Mutex
	registered int
	names      map[int]string
	busy       map[string]bool
}

func newGitHub() *github { return &github{names: map[int]string{}, busy: map[string]bool{}} }

// GenerateJITConfig registers a runner.
func (g *github) GenerateJITConfig(
	_ context.Context, scaleSetID int, request actions.JITConfigRequest,
) (*actions.JITConfig, error) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.registered++
	g.names[g.registered] = request.Name
	runner := actions.RunnerReference{ID: g.registered, Name: request.Name, RunnerScaleSetID: scaleSetID}
	return &actions.JITConfig{Runner: runner, EncodedJITConfig: "config"}, nil
}

// RemoveRunner removes a registration unless the runner is busy.
func (g *github) RemoveRunner(_ context.Context, id int) error {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.busy[g.names[id]] {
		return actions.ErrJobStillRunning
	}
	delete(g.names, id)
	return nil
}

// GetRunner finds a registration by ID.
func (g *github) GetRunner(_ context.Context, id int) (*actions.RunnerReference, error) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if name, known := g.names[id]; known {
		return &actions.RunnerReference{ID: id, Name: name, RunnerScaleSetID: 1}, nil
	}
	return nil, actions.ErrRunnerNotFound
}

// ListOfflineRunners finds none: all registered runners count as online.
func (g *github) ListOfflineRunners(context.Context, time.Duration) (*actions.OfflineRunners, error) {
	return &actions.OfflineRunners{ListedAt: time.Now()}, nil
}

// GetRunnerByName finds a registration by name.
func (g *github) GetRunnerByName(_ context.Context, name string) (*actions.RunnerReference, error) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	for id, registered := range g.names {
		if registered == name {
			return &actions.RunnerReference{ID: id, Name: name, RunnerScaleSetID: 1}, nil
		}
	}
	return nil, actions.ErrRunnerNotFound
}

// take gives the runner a job. end ends the job and removes the registration, as GitHub does.
func (g *github) take(name string) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.busy[name] = true
}

func (g *github) end(name string) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	delete(g.busy, name)
	for id, registered := range g.names {
		if registered == name {
			delete(g.names, id)
		}
	}
}
