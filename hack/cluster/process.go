package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// processes are those that a cluster has started. They are recorded in a file as they start, so that a later run can
// stop the processes of one that was killed.
type processes struct {
	layout layout

	mu       sync.Mutex
	recorded []recordedProcess
	// failure names the first process that ended by itself. ended is closed when failure is set.
	failure  error
	ended    chan struct{}
	stopping bool
	// reaped is done when all children have been waited for.
	reaped sync.WaitGroup
}

// recordedProcess identifies a process for ever: process IDs are reused, but not together with the start time and the
// boot.
type recordedProcess struct {
	Name    string `json:"name"`
	PID     int    `json:"pid"`
	Started uint64 `json:"startedClockTicks"`
	Boot    string `json:"boot"`
}

func newProcesses(l layout) *processes { return &processes{layout: l, ended: make(chan struct{})} }

// start runs a program in a session of its own, so that Ctrl-C reaches only the process that started the cluster, which
// then stops it in order. Output goes to the log of that name.
func (p *processes) start(name, program string, arguments ...string) error {
	log, err := os.Create(p.layout.log(name))
	if err != nil {
		return fmt.Errorf("create log of %s: %w", name, err)
	}
	defer func() { _ = log.Close() }() // the child has its own descriptor
	command := exec.Command(program, arguments...)
	command.Dir = p.layout.state()
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	err = p.record(name, command.Process.Pid)
	p.reaped.Go(func() { p.reap(name, command) })
	return err
}

func (p *processes) record(name string, pid int) error {
	started, err := startTime(pid)
	if err != nil {
		return err
	}
	boot, err := bootID()
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recorded = append(p.recorded, recordedProcess{Name: name, PID: pid, Started: started, Boot: boot})
	content, err := json.Marshal(p.recorded)
	if err != nil {
		return err
	}
	return os.WriteFile(p.layout.record(), content, 0o600)
}

// reap waits for a child. If it ends while nobody is stopping the cluster, that is the cluster's failure.
func (p *processes) reap(name string, command *exec.Cmd) {
	err := command.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopping || p.failure != nil {
		return
	}
	p.failure = fmt.Errorf("%s ended (%v); last lines of %s:\n%s",
		name, exitText(err), p.layout.log(name), lastLines(p.layout.log(name), 8))
	close(p.ended)
}

func exitText(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// err returns nil as long as no process has ended by itself.
func (p *processes) err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failure
}

// expectEnd says that from now on processes are meant to end.
func (p *processes) expectEnd() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopping = true
}

// readRecord returns the processes that an earlier run recorded, none if there is no record.
func readRecord(l layout) ([]recordedProcess, error) {
	content, err := os.ReadFile(l.record())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var recorded []recordedProcess
	if err := json.Unmarshal(content, &recorded); err != nil {
		return nil, fmt.Errorf("read %s: %w", l.record(), err)
	}
	return recorded, nil
}

// running reports whether exactly the recorded process still runs. A zombie does not.
func (r recordedProcess) running() bool {
	boot, err := bootID()
	if err != nil || boot != r.Boot {
		return false
	}
	started, err := startTime(r.PID)
	return err == nil && started == r.Started
}

// kill ends processes immediately: their data is about to be deleted, so there is nothing for them to finish.
func kill(ctx context.Context, recorded []recordedProcess) error {
	for _, process := range recorded {
		if process.running() {
			_ = syscall.Kill(process.PID, syscall.SIGKILL) // it may have ended in between
		}
	}
	for _, process := range recorded {
		err := poll(ctx, 10*time.Second, func() bool { return !process.running() })
		if err != nil {
			return fmt.Errorf("%s (process %d) does not end after SIGKILL: %w", process.Name, process.PID, err)
		}
	}
	return nil
}

// poll calls done every 50 ms until it returns true, for limit at most.
func poll(ctx context.Context, limit time.Duration, done func() bool) error {
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, limit, true,
		func(context.Context) (bool, error) { return done(), nil })
}

// startTime returns the time at which a process started, in clock ticks since boot. It fails if there is no such
// process or it is a zombie.
func startTime(pid int) (uint64, error) {
	content, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, fmt.Errorf("read the start time of process %d: %w", pid, err)
	}
	return parseStartTime(string(content))
}

// parseStartTime returns field 22 of /proc/PID/stat. Field 2, the program's name in parentheses, may contain anything,
// so fields are counted from the last parenthesis, which precedes field 3, the state.
func parseStartTime(stat string) (uint64, error) {
	_, rest, found := cutLast(stat, ")")
	fields := strings.Fields(rest)
	if !found || len(fields) < 20 {
		return 0, fmt.Errorf("unexpected content of /proc/PID/stat: %q", stat)
	}
	if state := fields[0]; state == "Z" || state == "X" {
		return 0, fmt.Errorf("process has ended (state %s)", state)
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

func cutLast(text, separator string) (before, after string, found bool) {
	if i := strings.LastIndex(text, separator); i >= 0 {
		return text[:i], text[i+len(separator):], true
	}
	return text, "", false
}

func bootID() (string, error) {
	content, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(content)), err
}

// lastLines returns the end of a log for an error message, or why it can't be read.
func lastLines(file string, count int) string {
	content, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-count):], "\n")
}
