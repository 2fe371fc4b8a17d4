// Package sums adds jobs up: what is counted of each, how sums of sums are made and bounded, in which columns the
// database has them, and which rows they come to.
package sums

import (
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/phases"
	"github.com/harrier-ci/harrier/operations/history/fold"
	"github.com/harrier-ci/harrier/operations/history/histogram"
	"github.com/harrier-ci/harrier/operations/history/rows"
)

// Sums are those of the jobs of one kind. They are written in the order of Numbers.
type Sums struct {
	jobs, succeeded, failed, canceled, lost, measured int64
	// elsewhere is the number of jobs of which a part of the work was done where nothing measures.
	elsewhere int64
	// shortOfMemory is the number of jobs that lost a process, or their pod, for lack of memory: they would have used more.
	shortOfMemory int64
	runSeconds    int64
	// cpuRequested and cpuUsed are thousandths of a CPU times seconds, memoryRequested MiB times seconds.
	cpuRequested, memoryRequested, cpuUsed int64
	// waited is the number of jobs with known waits; waits are their seconds by phase, in the order of waitPhases.
	waited int64
	waits  [8]int64
	// The largest requests.
	cpuRequest, memoryRequest int64

	peakMemory, cpuAverage, throttled histogram.Histogram
	times                             histogram.List
	// limits are the times during which scale sets were at their limits, by limit.
	limits limitTimes
	// machines are what was requested on which kinds of machines.
	machines machineAmounts
}

// NumberColumns are the columns of Numbers.
const NumberColumns = "jobs, succeeded, failed, canceled, lost, measured, elsewhere, short_of_memory, run_seconds, " +
	"cpu_requested, memory_requested, cpu_used, waited, " +
	"wait_assigned, wait_created, wait_registered, wait_placed, wait_image_pulled, wait_container_up, wait_started, " +
	"wait_limited, " +
	"cpu_request_millis, memory_request_bytes"

// HistogramColumns are those of Histograms.
const HistogramColumns = "peak_memory, cpu_average, throttled, wait_times, limit_times, machine_amounts"

// Numbers returns the columns of numbers, in the order of NumberColumns.
func (s *Sums) Numbers() []*int64 {
	numbers := []*int64{&s.jobs, &s.succeeded, &s.failed, &s.canceled, &s.lost, &s.measured, &s.elsewhere, &s.shortOfMemory,
		&s.runSeconds, &s.cpuRequested, &s.memoryRequested, &s.cpuUsed, &s.waited}
	for i := range s.waits {
		numbers = append(numbers, &s.waits[i])
	}
	return append(numbers, &s.cpuRequest, &s.memoryRequest)
}

// Limits of the figures of one job: its own pod states its requests, and sums must not overflow. They are beyond the
// largest machines.
const (
	maxCPUMillis  = 10_000_000 // ten thousand CPUs
	maxMemoryMiB  = 64 << 20   // 64 TiB
	maxRunSeconds = int64(rows.LongestRun / time.Second)
)

// plus adds without overflow.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// New returns no sums.
func New() *Sums {
	return &Sums{times: newWaitTimes(), limits: limitTimes{}, machines: machineAmounts{}}
}

// Count counts a job.
func (s *Sums) Count(job *rows.Job) {
	s.jobs++
	switch job.Result {
	case "succeeded":
		s.succeeded++
	case "failed":
		s.failed++
	case "canceled":
		s.canceled++
	}
	if job.LostCause != "" {
		s.lost++
	}
	if ptr.Deref(job.OOMKills, 0) > 0 || job.LostCause == string(v1alpha1.LostCauseOOMKilled) ||
		job.LostCause == string(v1alpha1.LostCauseEvicted) {
		s.shortOfMemory++
	}
	run := min(int64(job.RunTime().Seconds()), maxRunSeconds)
	s.runSeconds += run
	cpu, memory := min(ptr.Deref(job.CPURequestMillis, 0), maxCPUMillis), ptr.Deref(job.MemoryRequestBytes, 0)
	cpuRun, memoryRun := cpu*run, min(memory>>20, maxMemoryMiB)*run
	s.cpuRequested, s.memoryRequested = plus(s.cpuRequested, cpuRun), plus(s.memoryRequested, memoryRun)
	s.machines.count(job, run, cpuRun, memoryRun)
	s.cpuRequest, s.memoryRequest = max(s.cpuRequest, cpu), max(s.memoryRequest, memory)
	if job.Elsewhere == "" {
		s.measure(job)
	} else {
		s.elsewhere++
	}
	waits := job.Waits()
	if len(waits) > 0 {
		s.waited++
	}
	whole := int64(0)
	for _, wait := range waits {
		i, took := slices.Index(waitPhases[:], wait.Phase), int64(wait.Took.Seconds())
		if i < 0 {
			continue
		}
		s.waits[i] += took
		whole += took
		if wait.Phase == phases.Limited {
			s.limits.add(job, took)
		} else {
			s.times[i].Add(took)
		}
	}
	if len(waits) > 0 {
		s.times[wholeWait].Add(whole)
	}
}

// measure counts what a job used, of all that did its work.
func (s *Sums) measure(job *rows.Job) {
	if job.CPUMicroseconds != nil {
		s.cpuUsed = plus(s.cpuUsed, min(*job.CPUMicroseconds/1000, maxCPUMillis*maxRunSeconds))
	}
	if job.PeakMemoryBytes != nil {
		s.measured++
		s.peakMemory.Add(*job.PeakMemoryBytes)
	}
	if average := job.CPUAverageMillis(); average != nil {
		s.cpuAverage.Add(*average)
	}
	if throttled := job.ThrottledPercent(); throttled != nil {
		s.throttled.Add(*throttled)
	}
}

// Rules say how sums of kinds of jobs, and those of an answer, are bounded. A kind counts by the time that its jobs
// took, and a second for each job.
var Rules = fold.Rules[*Sums]{
	New: New, Merge: func(into, from *Sums) { into.Merge(from) },
	Weight: func(of *Sums) int64 { return plus(of.runSeconds, of.jobs) },
}

// Merge adds sums.
func (s *Sums) Merge(more *Sums) {
	s.MergeNumbers(more)
	s.peakMemory.Include(more.peakMemory)
	s.cpuAverage.Include(more.cpuAverage)
	s.throttled.Include(more.throttled)
	s.times.Include(more.times)
	s.limits.include(more.limits)
	s.machines.addAll(more.machines)
}

// MergeNumbers adds the numbers of sums.
func (s *Sums) MergeNumbers(more *Sums) {
	cpu, memory := max(s.cpuRequest, more.cpuRequest), max(s.memoryRequest, more.memoryRequest)
	numbers := s.Numbers()
	for i, number := range more.Numbers() {
		*numbers[i] = plus(*numbers[i], *number)
	}
	s.cpuRequest, s.memoryRequest = cpu, memory
}

// Without returns the numbers of sums less those of a part of them, as far as there are so many: the two may have been read
// one after the other.
func (s *Sums) Without(part *Sums) *Sums {
	rest := New()
	rest.MergeNumbers(s)
	numbers := rest.Numbers()
	for i, number := range part.Numbers() {
		*numbers[i] = max(0, *numbers[i]-*number)
	}
	return rest
}

// Histograms have the form that the database has.
type Histograms struct{ PeakMemory, CPUAverage, Throttled, Times, Limits, Machines string }

// Columns returns the columns of histograms, in the order of HistogramColumns.
func (h *Histograms) Columns() []any {
	return []any{&h.PeakMemory, &h.CPUAverage, &h.Throttled, &h.Times, &h.Limits, &h.Machines}
}

// Histograms returns the histograms for the database.
func (s *Sums) Histograms() Histograms {
	return Histograms{s.peakMemory.String(), s.cpuAverage.String(), s.throttled.String(), s.times.String(),
		s.limits.String(), s.machines.String()}
}

// MergeHistograms adds histograms that the database has had.
func (s *Sums) MergeHistograms(h *Histograms) {
	s.peakMemory.Merge(h.PeakMemory)
	s.cpuAverage.Merge(h.CPUAverage)
	s.throttled.Merge(h.Throttled)
	s.times.Merge(h.Times)
	s.limits.merge(h.Limits)
	s.machines.addText(h.Machines)
}

// SummedColumns are the sums of all numbers, in the order of Sums.Numbers; of requests it is the largest. Sums of whole
// numbers overflow, and one tenant's impossible jobs must not keep all others from an answer; those of numbers with a
// fraction don't, and are exact up to 2^53.
var SummedColumns = func() string {
	names := strings.Split(NumberColumns, ", ")
	for i, name := range names {
		names[i] = Summed(name)
		if strings.HasSuffix(name, "_request_millis") || strings.HasSuffix(name, "_request_bytes") {
			names[i] = "MAX(CAST(" + name + " AS DOUBLE PRECISION))"
		}
	}
	return strings.Join(names, ", ")
}()

// Summed is the sum of a column.
func Summed(column string) string { return "SUM(CAST(" + column + " AS DOUBLE PRECISION))" }
