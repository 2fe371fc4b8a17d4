package ledger

import (
	"math"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/harrier-ci/harrier/internal/history/fold"
	"github.com/harrier-ci/harrier/internal/history/histogram"
)

// sums are those of the jobs of one kind. They are written in the order of numbers.
type sums struct {
	jobs, succeeded, failed, canceled, lost, measured int64
	runSeconds                                        int64
	// cpuRequested and cpuUsed are thousandths of a CPU times seconds, memoryRequested MiB times seconds.
	cpuRequested, memoryRequested, cpuUsed int64
	// waited is the number of jobs with known waits; waits are their seconds by phase, in the order of waitPhases.
	waited int64
	waits  [7]int64
	// The largest requests.
	cpuRequest, memoryRequest int64

	peakMemory, cpuAverage, throttled histogram.Histogram
	times                             histogram.List
}

const numberColumns = "jobs, succeeded, failed, canceled, lost, measured, run_seconds, cpu_requested, " +
	"memory_requested, cpu_used, waited, " +
	"wait_assigned, wait_created, wait_registered, wait_placed, wait_image_pulled, wait_container_up, wait_started, " +
	"cpu_request_millis, memory_request_bytes"

// numbers returns the columns of numbers, in the order of numberColumns.
func (s *sums) numbers() []*int64 {
	numbers := []*int64{&s.jobs, &s.succeeded, &s.failed, &s.canceled, &s.lost, &s.measured, &s.runSeconds,
		&s.cpuRequested, &s.memoryRequested,
		&s.cpuUsed, &s.waited}
	for i := range s.waits {
		numbers = append(numbers, &s.waits[i])
	}
	return append(numbers, &s.cpuRequest, &s.memoryRequest)
}

// Limits of the figures of one job: its own pod states its requests, and sums must not overflow. They are beyond the
// largest machines, and 35 days are the longest that GitHub lets a workflow run take.
const (
	maxCPUMillis  = 10_000_000 // ten thousand CPUs
	maxMemoryMiB  = 64 << 20   // 64 TiB
	maxRunSeconds = 35 * day
)

// plus adds without overflow.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func newSums() *sums { return &sums{times: newWaitTimes()} }

// count counts a job.
func (s *sums) count(job *Job) {
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
	run := min(int64(job.RunTime().Seconds()), maxRunSeconds)
	s.runSeconds += run
	cpu, memory := min(ptr.Deref(job.CPURequestMillis, 0), maxCPUMillis), ptr.Deref(job.MemoryRequestBytes, 0)
	s.cpuRequested = plus(s.cpuRequested, cpu*run)
	s.memoryRequested = plus(s.memoryRequested, min(memory>>20, maxMemoryMiB)*run)
	s.cpuRequest, s.memoryRequest = max(s.cpuRequest, cpu), max(s.memoryRequest, memory)
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
		s.times[i].Add(took)
		whole += took
	}
	if len(waits) > 0 {
		s.times[len(waitPhases)].Add(whole)
	}
}

// sumRules say how sums of kinds of jobs, and those of an answer, are bounded. A kind counts by the time that its jobs
// took, and a second for each job.
var sumRules = fold.Rules[*sums]{
	New: newSums, Merge: func(into, from *sums) { into.merge(from) },
	Weight: func(of *sums) int64 { return plus(of.runSeconds, of.jobs) },
}

// merge adds sums.
func (s *sums) merge(more *sums) {
	s.mergeNumbers(more)
	s.peakMemory.Include(more.peakMemory)
	s.cpuAverage.Include(more.cpuAverage)
	s.throttled.Include(more.throttled)
	s.times.Include(more.times)
}

func (s *sums) mergeNumbers(more *sums) {
	cpu, memory := max(s.cpuRequest, more.cpuRequest), max(s.memoryRequest, more.memoryRequest)
	numbers := s.numbers()
	for i, number := range more.numbers() {
		*numbers[i] = plus(*numbers[i], *number)
	}
	s.cpuRequest, s.memoryRequest = cpu, memory
}

// histograms have the form that the database has.
type histograms struct{ peakMemory, cpuAverage, throttled, times string }

func (h *histograms) columns() []any {
	return []any{&h.peakMemory, &h.cpuAverage, &h.throttled, &h.times}
}

func (s *sums) mergeHistograms(h *histograms) {
	s.peakMemory.Merge(h.peakMemory)
	s.cpuAverage.Merge(h.cpuAverage)
	s.throttled.Merge(h.throttled)
	s.times.Merge(h.times)
}

// Prices are those of a CPU and of a GiB of memory for an hour, in a currency that only the user knows.
type Prices struct{ CPUHour, GiBHour float64 }

// cost is that of the requests.
func (s *sums) cost(prices Prices) float64 {
	return float64(s.cpuRequested)/1000/float64(hour)*prices.CPUHour +
		float64(s.memoryRequested)/1024/float64(hour)*prices.GiBHour
}

// summedColumns are the sums of all numbers, in the order of sums.numbers; of requests it is the largest. Sums of whole
// numbers overflow, and one tenant's impossible jobs must not keep all others from an answer; those of numbers with a
// fraction don't, and are exact up to 2^53.
var summedColumns = func() string {
	names := strings.Split(numberColumns, ", ")
	for i, name := range names {
		names[i] = summed(name)
		if strings.HasSuffix(name, "_request_millis") || strings.HasSuffix(name, "_request_bytes") {
			names[i] = "MAX(CAST(" + name + " AS DOUBLE PRECISION))"
		}
	}
	return strings.Join(names, ", ")
}()

func summed(column string) string { return "SUM(CAST(" + column + " AS DOUBLE PRECISION))" }
