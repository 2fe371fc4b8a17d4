package rig

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/internal/testkube"
)

// Program is one of the product's programs.
type Program string

// The product's programs.
const (
	ManagerProgram  Program = "manager"
	ListenerProgram Program = "listener"
	LedgerProgram   Program = "ledger"
)

// clockTick is the unit of CPU times in /proc: there are 100 a second on every architecture that Go supports.
const clockTick = 10 * time.Millisecond

// Usage has the resources that all processes of a program have used together.
type Usage struct {
	Processes int
	CPU       time.Duration
	// Resident and ResidentPeak are bytes of memory, now and at most. They include shared pages of the program file.
	Resident, ResidentPeak int64
}

// Usage returns the usage of the program's running processes. It reads Linux's /proc and finds no process elsewhere.
func (r *Rig) Usage(program Program) Usage {
	r.t.Helper()
	var used Usage
	for _, directory := range r.processes(program) {
		// A process that ends in between is not counted.
		if one, err := usageOf(directory); err == nil {
			used.Processes++
			used.CPU += one.CPU
			used.Resident += one.Resident
			used.ResidentPeak += one.ResidentPeak
		}
	}
	return used
}

// APIServerUsage returns the usage of the cluster's API server. It reads Linux's /proc, and fails if that has no such
// process. On other systems it returns zeros.
func APIServerUsage(cluster *testkube.Cluster) (Usage, error) {
	if runtime.GOOS != "linux" {
		return Usage{}, nil
	}
	used, err := usageOf(filepath.Join("/proc", strconv.Itoa(cluster.APIServerID())))
	if err != nil {
		return Usage{}, fmt.Errorf("read what the API server has used: %w", err)
	}
	used.Processes = 1
	return used, nil
}

// mark is the value of programVariable in the environment of the program's processes.
func (r *Rig) mark(program Program) string { return r.SystemNamespace + "/" + string(program) }

// processes finds the program's processes by their environment, which is inherited even through a wrapper script.
func (r *Rig) processes(program Program) []string {
	var found []string
	environments, _ := filepath.Glob("/proc/[0-9]*/environ") // the pattern is a constant
	for _, path := range environments {
		content, err := os.ReadFile(path)
		if err == nil &&
			bytes.Contains(append([]byte{0}, content...), []byte("\x00"+programVariable+"="+r.mark(program)+"\x00")) {
			found = append(found, filepath.Dir(path))
		}
	}
	return found
}

func usageOf(directory string) (used Usage, err error) {
	if used.CPU, err = cpuOf(directory); err != nil {
		return used, err
	}
	status, err := os.ReadFile(filepath.Join(directory, "status"))
	if err != nil {
		return used, err
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		kilobytes, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		switch name {
		case "VmRSS":
			used.Resident = kilobytes << 10
		case "VmHWM":
			used.ResidentPeak = kilobytes << 10
		}
	}
	return used, nil
}

// cpuOf adds user and system time, fields 14 and 15 of stat. Field 2, the name in parentheses, may contain spaces, so
// fields are counted from its end.
func cpuOf(directory string) (time.Duration, error) {
	stat, err := os.ReadFile(filepath.Join(directory, "stat"))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("read the CPU time of %s: its stat has %d fields after the name", directory, len(fields))
	}
	var ticks int64
	for _, field := range fields[11:13] {
		count, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read the CPU time of %s: %w", directory, err)
		}
		ticks += count
	}
	return time.Duration(ticks) * clockTick, nil
}
