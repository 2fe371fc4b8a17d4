package fakenode

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// configurationRetry is the pause before a missing Secret or ConfigMap is looked for again.
	configurationRetry = time.Second
	// lastRestartBackOff is the longest back-off, as in a kubelet.
	lastRestartBackOff = 5 * time.Minute
)

// begin mounts claims, waits for the start latency and plays the faults that keep containers from starting. It reports
// whether they start.
func (p *player) begin(fault Fault) bool {
	waiting := "ContainerCreating"
	if len(p.pod.Spec.InitContainers) > 0 {
		waiting = "PodInitializing"
	}
	p.mu.Lock()
	for _, container := range slices.Concat(p.pod.Spec.InitContainers, p.pod.Spec.Containers) {
		p.containers[container.Name] = &corev1.ContainerStatus{Name: container.Name, Image: container.Image,
			Started: new(bool),
			State:   corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: waiting}}}
	}
	p.mu.Unlock()
	if fault != (Fault{}) || len(p.pod.Spec.InitContainers) > 0 {
		// Without a fault or init containers, Running follows so soon that a request for this would be wasted.
		signal(p.changed)
	}
	if fault.Reject != "" {
		p.fail(outcome{reason: fault.Reject, message: "Pod was rejected: " + fault.Reject})
		return false
	}
	if fault.NeverStart || (p.node.options.Claims != nil && !p.mountClaims()) {
		return false
	}
	p.mu.Lock()
	p.view.sandbox = true
	p.mu.Unlock()
	if fault.ImagePull {
		p.waitForImage()
		return false
	}
	return p.pause(p.wanted, p.node.options.StartLatency+fault.Delay)
}

// waitForImage reports what users see if an image can't be pulled.
func (p *player) waitForImage() {
	for _, reason := range []string{"ErrImagePull", "ImagePullBackOff"} {
		p.update(func() {
			for _, container := range p.pod.Spec.Containers {
				p.containers[container.Name].State.Waiting = &corev1.ContainerStateWaiting{
					Reason: reason, Message: "Back-off pulling image \"" + container.Image + "\""}
			}
		})
		if !p.pause(p.wanted, p.node.options.StartLatency) {
			return
		}
	}
}

// loop runs a container until it has ended and is not restarted, and returns its last exit code. up, if not nil, is
// closed when the container has started for the first time.
func (p *player) loop(ctx context.Context, spec corev1.Container, policy corev1.RestartPolicy, up chan<- struct{}) int {
	for restarts := int32(0); ; restarts++ {
		code := p.once(ctx, spec, restarts, up)
		up = nil
		if ctx.Err() != nil || !restartWanted(policy, code) {
			return code
		}
		if !p.backOff(ctx, spec.Name, restarts) {
			return code
		}
	}
}

// backOff pauses before the next start, but not before the first restart. It reports whether there is to be a next
// start.
func (p *player) backOff(ctx context.Context, name string, restarts int32) bool {
	if restarts == 0 {
		return ctx.Err() == nil
	}
	pause := restartPause(p.node.options.RestartBackOff, restarts)
	p.update(func() {
		status := p.containers[name]
		status.LastTerminationState = corev1.ContainerState{Terminated: status.State.Terminated}
		status.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
			Reason: "CrashLoopBackOff", Message: "back-off " + pause.String() + " restarting failed container " + name}}
	})
	return p.pause(ctx, pause)
}

// restartPause returns the pause before a restart: first before the second one, and twice as long before each further
// one.
func restartPause(first time.Duration, restarts int32) time.Duration {
	pause := first
	for range restarts - 1 {
		if pause *= 2; pause >= lastRestartBackOff {
			return lastRestartBackOff
		}
	}
	return pause
}

// once starts a container a single time, waits for its end, and returns its exit code.
func (p *player) once(ctx context.Context, spec corev1.Container, restarts int32, up chan<- struct{}) int {
	p.awaitThaw()
	run, runner, ok := p.prepare(ctx, spec, restarts)
	if !ok {
		return killedExitCode
	}
	runContext, cancel := context.WithCancel(ctx)
	defer cancel()
	over, finish := context.WithCancel(p.present)
	defer finish()
	run.cancel, run.over = cancel, over
	if !p.enter(run) {
		return killedExitCode
	}
	p.update(func() { p.started(run) })
	if up != nil {
		close(up)
	}
	probing, stopProbing := context.WithCancel(runContext)
	defer stopProbing()
	p.node.playing.Go(func() { run.probe(probing) })
	code := runner.Run(runContext, run)
	if run.wasKilled() {
		code = killedExitCode
	}
	p.leave(run)
	p.update(func() { p.terminated(run, code) })
	return code
}

// prepare resolves the environment, waiting for the Secrets and ConfigMaps that it refers to, and assigns ports. It
// returns false if the pod has to stop before that.
func (p *player) prepare(ctx context.Context, spec corev1.Container, restarts int32) (*Container, Runner, bool) {
	runner := p.runnerFor(spec)
	for ctx.Err() == nil {
		environment, err := p.environment(ctx, spec)
		var addresses map[int32]string
		if err == nil {
			addresses, err = p.furnish(ctx, runner, environment)
		}
		if err == nil {
			return &Container{
				Pod: p.pod, Spec: spec, Environment: environment, RestartCount: restarts, player: p,
				addresses: addresses, killed: make(chan struct{}),
			}, runner, true
		}
		p.update(func() {
			p.containers[spec.Name].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
				Reason: "CreateContainerConfigError", Message: err.Error()}}
		})
		p.pause(ctx, configurationRetry)
	}
	return nil, nil, false
}

// furnish gives a runner that is a real program its ports and the pod's volumes.
func (p *player) furnish(ctx context.Context, runner Runner, environment map[string]string) (map[int32]string, error) {
	program, ok := runner.(portMapper)
	if !ok {
		return nil, nil
	}
	if err := p.mountVolumes(ctx); err != nil {
		return nil, err
	}
	return assignPorts(program.portVariables(), environment)
}

func (p *player) runnerFor(spec corev1.Container) Runner {
	if runner := p.node.options.Runners[spec.Name]; runner != nil {
		return runner
	}
	for _, container := range p.pod.Spec.InitContainers {
		if container.Name == spec.Name {
			return defaultRunner(!isSidecar(container))
		}
	}
	return defaultRunner(false)
}

// enter adds the run to those that can be killed. It returns false if the pod's containers have been killed already.
func (p *player) enter(run *Container) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killed {
		return false
	}
	p.runs[run.Spec.Name] = run
	return true
}

func (p *player) leave(run *Container) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.runs, run.Spec.Name)
}

// started and terminated write the container's status. The caller holds the lock.
func (p *player) started(run *Container) {
	status := p.containers[run.Spec.Name]
	if status.State.Terminated != nil {
		status.LastTerminationState = corev1.ContainerState{Terminated: status.State.Terminated}
	}
	started := metav1.NewTime(p.node.options.Clock.Now())
	status.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}}
	status.RestartCount = run.RestartCount
	up := run.addressOf(run.Spec.StartupProbe) == ""
	status.Started = &up
	status.Ready = up && run.addressOf(run.Spec.ReadinessProbe) == ""
}

func (p *player) terminated(run *Container, code int) {
	reason := "Completed"
	switch {
	case run.wasKilled():
		reason = run.reason
	case code != 0:
		reason = "Error"
	}
	status := p.containers[run.Spec.Name]
	ended := &corev1.ContainerStateTerminated{
		ExitCode:   int32(code),
		Reason:     reason,
		FinishedAt: metav1.NewTime(p.node.options.Clock.Now()),
	}
	if status.State.Running != nil {
		ended.StartedAt = status.State.Running.StartedAt
	}
	status.State = corev1.ContainerState{Terminated: ended}
	status.Started, status.Ready = new(bool), false
}
