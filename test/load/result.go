package load

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/test/rig"
)

// Result is the outcome of one measurement. Times are in seconds, memory in MiB, CPU in milliseconds.
type Result struct {
	Scenario string    `json:"scenario"`
	Began    time.Time `json:"began"`
	CPUs     int       `json:"cpus"`
	Jobs     int       `json:"jobs"`
	// JITLatency and Latency are the simulated GitHub's.
	JITLatency float64 `json:"jitLatency"`
	Latency    float64 `json:"latency"`

	// Floor has the times of the plain client, before and after the load, and FloorCPU its cost to the API server per
	// runner.
	Floor    []float64 `json:"floor,omitempty"`
	FloorCPU []float64 `json:"floorCPU,omitempty"`
	// Created is the time from queueing a job to the creation of its runner's pod, AllCreated that to the creation of
	// the last pod. Ratio is AllCreated divided by the mean of Floor.
	Created    Spread  `json:"created"`
	AllCreated float64 `json:"allCreated"`
	Ratio      float64 `json:"ratio,omitempty"`
	// Marked is the time from the first report about a job to the label on its pod that says so. Budgets of users may
	// select by it; that of the chart has protected the pod since its creation, unless its runner was idle.
	Marked Spread `json:"marked"`
	// Gone is the time from the end of a job to the removal of its pod, Removed the part of it after the node had
	// reported the pod's end, Drained the time from the end of the last job to the removal of the last pod.
	Gone    Spread  `json:"gone"`
	Removed Spread  `json:"removed"`
	Drained float64 `json:"drained"`

	// Requests are requests to the API server, without watches and leases. RequestsPerRunner is their number divided by
	// that of jobs, OwnPerRunner the same for requests about runners, their Secrets and pods. SharedPerSecond is the
	// number of the others, which are about sets, divided by the duration.
	RequestsPerRunner float64                   `json:"requestsPerRunner"`
	OwnPerRunner      float64                   `json:"ownPerRunner"`
	SharedPerSecond   float64                   `json:"sharedPerSecond"`
	Reads             int                       `json:"reads"`
	Requests          map[string]map[string]int `json:"requests"`
	// GitHubPerRunner is the number of calls by manager and listeners, without polls, divided by that of jobs. GitHub
	// has them by endpoint.
	GitHubPerRunner float64        `json:"gitHubPerRunner"`
	GitHub          map[string]int `json:"gitHub"`

	Runners int `json:"runners"`
	// Claims is the number of PersistentVolumeClaims created, with -claims. Each is one of the runner's own requests.
	Claims      int      `json:"claims,omitempty"`
	OverCreated int      `json:"overCreated"`
	Leaked      []string `json:"leaked"`
	Refused     []string `json:"refused"`

	Manager  Process `json:"manager"`
	Listener Process `json:"listener"`
	// APIServer includes the requests of the simulated node and of the measurement itself.
	APIServer Process `json:"apiServer"`

	// Single is the same load on a single scale set, in the scenarios that have many.
	Single *Result `json:"single,omitempty"`

	// Notes are figures that only one scenario has.
	Notes map[string]string `json:"notes,omitempty"`
}

// Process has the resources that all processes of a program have used together. CPUPerRunner is absent if there were no
// runners.
type Process struct {
	Processes    int     `json:"processes"`
	CPU          float64 `json:"cpu"`
	CPUPerRunner float64 `json:"cpuPerRunner,omitempty"`
	Resident     float64 `json:"resident"`
	ResidentPeak float64 `json:"residentPeak"`
}

func processOf(before, after rig.Usage, runners int) Process {
	const mebibyte = 1 << 20
	used := Process{
		Processes: after.Processes, CPU: float64((after.CPU - before.CPU).Milliseconds()),
		Resident: float64(after.Resident) / mebibyte, ResidentPeak: float64(after.ResidentPeak) / mebibyte,
	}
	if runners > 0 {
		used.CPUPerRunner = used.CPU / float64(runners)
	}
	return used
}

// String returns the value of a table row.
func (p Process) String() string {
	cpu := fmt.Sprintf("%.1f ms CPU per runner", p.CPUPerRunner)
	if p.CPUPerRunner == 0 {
		cpu = fmt.Sprintf("%.0f ms CPU", p.CPU)
	}
	return fmt.Sprintf("%s, %.0f MiB, at most %.0f MiB (processes: %d)", cpu, p.Resident, p.ResidentPeak, p.Processes)
}

// String returns the table.
func (r Result) String() string {
	var table strings.Builder
	row := func(name, format string, values ...any) {
		fmt.Fprintf(&table, "%-30s "+format+"\n", append([]any{name}, values...)...)
	}
	row("scenario", "%s: %d jobs, %d CPUs, JIT %.2f s, other calls %.2f s", r.Scenario, r.Jobs, r.CPUs, r.JITLatency,
		r.Latency)
	if len(r.Floor) > 0 {
		row("floor", "%.2f s, %.1f ms CPU of the API server per runner", r.Floor, r.FloorCPU)
		row("all pods created", "%.2f s: %.2f times the floor", r.AllCreated, r.Ratio)
	}
	if r.Jobs > 0 {
		r.perRunner(row)
	}
	row("runners", "%d, too many: %d, leaked: %d, refused requests: %d", r.Runners, r.OverCreated, len(r.Leaked),
		len(r.Refused))
	if r.Claims > 0 {
		row("claims created", "%d", r.Claims)
	}
	row("manager", "%s", r.Manager)
	row("listener", "%s", r.Listener)
	row("API server", "%s", r.APIServer)
	if r.Single != nil {
		r.compare(row)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Notes)) {
		row(name, "%s", r.Notes[name])
	}
	r.counts(row)
	return table.String()
}

// compare adds the rows about the same load on a single set.
func (r Result) compare(row func(name, format string, values ...any)) {
	single := r.Single
	row("the single set", "all pods created in %.2f s: %.2f times the floor; created p99 %.2f s, gone p99 %.2f s",
		single.AllCreated, single.Ratio, single.Created.P99, single.Gone.P99)
	row("  per runner", "%.2f API requests; CPU: manager %.1f ms, API server %.1f ms", single.RequestsPerRunner,
		single.Manager.CPUPerRunner, single.APIServer.CPUPerRunner)
	row("many sets over the single one", "created p99 %s, gone p99 %s, API server's CPU %s",
		timesOver(r.Created.P99, single.Created.P99), timesOver(r.Gone.P99, single.Gone.P99),
		timesOver(r.APIServer.CPUPerRunner, single.APIServer.CPUPerRunner))
}

// timesOver formats the ratio of a figure to a base, which may not have been measured.
func timesOver(figure, base float64) string {
	if base == 0 {
		return "unknown"
	}
	return fmt.Sprintf("%.2f", figure/base)
}

// perRunner adds the rows of costs that only jobs cause.
func (r Result) perRunner(row func(name, format string, values ...any)) {
	row("queued → pod created", "%s", r.Created)
	row("job reported → pod marked busy", "%s", r.Marked)
	row("finished → pod gone", "%s", r.Gone)
	row("  of it, after the node's report", "%s", r.Removed)
	row("last finished → last pod gone", "%.2f s", r.Drained)
	row("API requests per runner", "%.2f, %.2f of them its own (%d reads in all)", r.RequestsPerRunner, r.OwnPerRunner,
		r.Reads)
	row("GitHub calls per runner", "%.2f", r.GitHubPerRunner)
}

// counts adds a row for each kind of request.
func (r Result) counts(row func(name, format string, values ...any)) {
	for _, program := range slices.Sorted(maps.Keys(r.Requests)) {
		for _, what := range slices.Sorted(maps.Keys(r.Requests[program])) {
			row("  "+program, "%6d %s", r.Requests[program][what], what)
		}
	}
	for _, endpoint := range slices.Sorted(maps.Keys(r.GitHub)) {
		row("  GitHub", "%6d %s", r.GitHub[endpoint], endpoint)
	}
}

// write stores the result as JSON.
func (r Result) write(path string) error {
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the result: %w", err)
	}
	return os.WriteFile(path, append(content, '\n'), 0o600)
}

// over compares the creation of all pods with the plain client's, before and after the load.
func (r *Result) over(jobs int, before, after plain) {
	r.Floor = []float64{seconds(before.took), seconds(after.took)}
	for _, one := range []plain{before, after} {
		r.FloorCPU = append(r.FloorCPU, float64(one.apiServer.Milliseconds())/float64(max(1, jobs)))
	}
	r.Ratio = r.AllCreated / ((r.Floor[0] + r.Floor[1]) / 2)
}

// newResult returns a result with the values known before the measurement.
func newResult(s *settings, jobs int) Result {
	return Result{
		Scenario: s.scenario, Began: time.Now().UTC(), CPUs: runtime.NumCPU(), Jobs: jobs,
		JITLatency: seconds(s.jit), Latency: seconds(s.latency), Notes: map[string]string{},
	}
}
