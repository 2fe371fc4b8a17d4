// Package process runs programs for tests so that none of them outlives the test: each has a process group of its own,
// is reaped when it ends, and is killed by the kernel when the test binary dies without stopping it.
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

// Start starts the command in a process group of its own. It fails when the program can't be started.
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

// run stays on one thread from start to end: the kernel sends the death signal of a parent when the thread that
// started the child ends, not when the whole parent does.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.command.Start()
	started <- err
	if err != nil {
		return
	}
	// The exit code is read from the process state; an error here says nothing beyond it.
	_ = p.command.Wait()
	close(p.done)
}

// Done is closed when the program has ended and is reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running tells whether the program has not ended yet.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// ExitCode waits for the program's end and returns its exit code, 128 + the signal's number for one that a signal
// ended, as a shell and a container runtime do.
func (p *Process) ExitCode() int {
	<-p.done
	status, ok := p.command.ProcessState.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return p.command.ProcessState.ExitCode()
}

// Signal sends the signal to the program and everything it has started. A program that has ended is no error.
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

// Pause freezes the program and everything it has started until Resume, and returns when the program does nothing any more.
func (p *Process) Pause() error {
	if err := p.Signal(syscall.SIGSTOP); err != nil || !p.Running() {
		return err
	}
	return awaitStop(p.command.Process.Pid)
}

// Resume lets a paused program go on.
func (p *Process) Resume() error { return p.Signal(syscall.SIGCONT) }

// Stop ends the program: SIGTERM, SIGKILL when it still runs after grace (at once when grace is zero), and waits.
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
