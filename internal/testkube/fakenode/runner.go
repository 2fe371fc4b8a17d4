package fakenode

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// Runner plays a container.
type Runner interface {
	// Run returns the exit code. ctx ends with the container's SIGTERM or SIGKILL; Container.Killed is closed with its
	// SIGKILL, soon after which Run has to return. The exit code of a killed container is 137, whatever Run returns.
	Run(ctx context.Context, container *Container) int
}

// RunnerFunc is a Runner that is a function.
type RunnerFunc func(ctx context.Context, container *Container) int

// Run calls the function.
func (f RunnerFunc) Run(ctx context.Context, container *Container) int { return f(ctx, container) }

// WithEnvironment is a Runner for functions that need only the container's environment, such as simulated GitHub
// runners.
func WithEnvironment(run func(ctx context.Context, environment map[string]string) int) Runner {
	return RunnerFunc(func(ctx context.Context, c *Container) int { return run(ctx, c.Environment) })
}

// Exit is a Runner that exits immediately.
func Exit(code int) Runner {
	return RunnerFunc(func(context.Context, *Container) int { return code })
}

// UntilStopped is a Runner that runs until SIGTERM and then exits 0.
func UntilStopped() Runner {
	return RunnerFunc(func(ctx context.Context, _ *Container) int { <-ctx.Done(); return 0 })
}

// portMapper is a Runner that listens on real ports of this machine, which can be probed. For each container port,
// portVariables names the environment variable that gets the address to listen on.
type portMapper interface {
	portVariables() map[int32]string
}

// Container is one run of a container. A restart is a new one.
type Container struct {
	Pod          *corev1.Pod       // as first seen, with its node name; must not be changed
	Spec         corev1.Container  // the container's part of the pod
	Environment  map[string]string // env and envFrom with Secrets, ConfigMaps and fields resolved
	RestartCount int32

	player    *player
	addresses map[int32]string // on this machine, by container port
	cancel    context.CancelFunc
	over      context.Context // ends with the run
	killed    chan struct{}
	killOnce  sync.Once
	reason    string // of the kill, set before killed is closed
}

// Killed is closed when the container gets its SIGKILL.
func (c *Container) Killed() <-chan struct{} { return c.killed }

// terminate does what SIGTERM does.
func (c *Container) terminate() { c.cancel() }

// kill does what SIGKILL does. If it is called again, the first reason stays.
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
