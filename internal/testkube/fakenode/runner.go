package fakenode

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// Runner is what a container does.
type Runner interface {
	// Run returns the exit code. ctx ends when the container gets its SIGTERM, Container.Killed with its SIGKILL (which
	// ends ctx, too); Run has to return soon after the latter. A killed container's exit code is 137, whatever Run returns.
	Run(ctx context.Context, container *Container) int
}

// RunnerFunc is a Runner that is a function.
type RunnerFunc func(ctx context.Context, container *Container) int

// Run calls the function.
func (f RunnerFunc) Run(ctx context.Context, container *Container) int { return f(ctx, container) }

// WithEnvironment is a Runner for functions that need the container's environment only, as simulated GitHub runners do.
func WithEnvironment(run func(ctx context.Context, environment map[string]string) int) Runner {
	return RunnerFunc(func(ctx context.Context, c *Container) int { return run(ctx, c.Environment) })
}

// Exit is a Runner that exits at once.
func Exit(code int) Runner {
	return RunnerFunc(func(context.Context, *Container) int { return code })
}

// UntilStopped is a Runner that runs until SIGTERM and then exits 0.
func UntilStopped() Runner {
	return RunnerFunc(func(ctx context.Context, _ *Container) int { <-ctx.Done(); return 0 })
}

// portMapper is a Runner whose ports are real ones of this machine, and therefore probed: an environment variable with the
// address to listen on for each container port.
type portMapper interface {
	portVariables() map[int32]string
}

// Container is one run of a container. A restart is a new one.
type Container struct {
	Pod          *corev1.Pod       // as first seen, with its node name; not to be changed
	Spec         corev1.Container  // the container's part of it
	Environment  map[string]string // env and envFrom with Secrets, ConfigMaps and fields resolved
	RestartCount int32

	player    *player
	addresses map[int32]string // of the machine, by container port
	cancel    context.CancelFunc
	over      context.Context // ends with the run
	killed    chan struct{}
	killOnce  sync.Once
	reason    string // of the kill, set before killed is closed
}

// Killed is closed when the container gets its SIGKILL.
func (c *Container) Killed() <-chan struct{} { return c.killed }

// terminate is SIGTERM.
func (c *Container) terminate() { c.cancel() }

// kill is SIGKILL. The first reason stays.
func (c *Container) kill(reason string) {
	c.killOnce.Do(func() {
		c.reason = reason
		close(c.killed)
		c.cancel()
	})
}

func (c *Container) wasKilled() bool {
	select {
	case <-c.killed:
		return true
	default:
		return false
	}
}

// defaultRunner is for containers that Options.Runners doesn't name.
func defaultRunner(runsToCompletion bool) Runner {
	if runsToCompletion {
		return Exit(0)
	}
	return UntilStopped()
}
