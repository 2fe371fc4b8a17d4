// Package process runs programs for tests, such as the control plane of testkube and the containers of fakenode, so
// that none outlives its test: each has a process group of its own, is reaped when it ends, and is killed by the kernel
// if the test binary dies without stopping it.
package process

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Process is a started program.
type Process struct {
	command *exec.Cmd
	done    chan struct{}
}

// Start starts the command in a process group of its own. It fails if the program can't be started.
func Start(command *exec.Cmd) (*Process, error) {
	command.SysProcAttr = attributes()
	// Grandchildren that keep an output pipe open must not keep Wait from returning.
	command.WaitDelay = time.Second
	p := &Process{command: command, done: make(chan struct{})}
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", command.Path, err)
	}
	return p, nil
}

// run stays on one thread from start to end: the kernel sends a child its parent's death signal when the thread that
// started the child ends, not when the whole parent does.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.command.Start()
	started <- err
	if err != nil {
		return
	}
	// The exit code is read from the process state; an error here adds nothing to it.
	_ = p.command.Wait()
	close(p.done)
}

// ID returns the program's process ID.
func (p *Process) ID() int { return p.command.Process.Pid }

// Done is closed when the program has ended and is reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running reports whether the program has not ended yet.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// ExitCode waits until the program has ended and returns its exit code. If a signal ended it, that is 128 plus the
// signal's number, as in a shell and a container runtime.
func (p *Process) ExitCode() int {
	<-p.done
	status, ok := p.command.ProcessState.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return p.command.ProcessState.ExitCode()
}

// Signal sends the signal to the program and everything it has started. If the program has ended, it does nothing.
func (p *Process) Signal(signal syscall.Signal) error {
	if !p.Running() {
		return nil
	}
	err := syscall.Kill(-p.command.Process.Pid, signal)
	if err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("send %s to %s: %w", signal, p.command.Path, err)
	}
	return nil
}

// Pause freezes the program and everything it has started until Resume is called. It returns when the program has
// stopped.
func (p *Process) Pause() error {
	if err := p.Signal(syscall.SIGSTOP); err != nil || !p.Running() {
		return err
	}
	return awaitStop(p.command.Process.Pid)
}

// Resume lets a paused program continue.
func (p *Process) Resume() error { return p.Signal(syscall.SIGCONT) }

// Stop ends the program and waits until it has ended. It sends SIGTERM, and SIGKILL if the program still runs after
// grace, or SIGKILL immediately if grace is zero.
func (p *Process) Stop(grace time.Duration) error {
	if grace > 0 {
		if err := p.Signal(syscall.SIGTERM); err != nil {
			return err
		}
		select {
		case <-p.done:
			return nil
		case <-time.After(grace):
		}
	}
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}
