package load

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

const (
	// patience bounds every wait for jobs and for what they leave.
	patience = 15 * time.Minute
	// What is waited for is checked every look. That does not affect figures: they come from both servers' logs.
	look = 250 * time.Millisecond
)

// measurement has the counts of the moment when the load began.
type measurement struct {
	t                 *testing.T
	rig               *rig.Rig
	began             time.Time
	known             int // jobs that had been completed
	requests          rig.Requests
	gitHub            map[string]int
	manager, listener rig.Usage
	apiServer         rig.Usage
	// endProfiles ends the profiles that began with the measurement.
	endProfiles func()
}

// begin begins a measurement.
func begin(t *testing.T, r *rig.Rig) *measurement {
	t.Helper()
	return &measurement{
		t: t, rig: r, known: len(r.GitHub.Jobs("completed")), requests: r.Requests(), gitHub: gitHubCalls(r),
		manager: r.Usage(rig.ManagerProgram), listener: r.Usage(rig.ListenerProgram),
		apiServer: apiServerUsage(t, r.Cluster),
		began:     time.Now(), endProfiles: func() {},
	}
}

// apiServerUsage returns the usage of the API server so far.
func apiServerUsage(t *testing.T, cluster *testkube.Cluster) rig.Usage {
	t.Helper()
	used, err := rig.APIServerUsage(cluster)
	if err != nil {
		t.Fatal(err)
	}
	return used
}

// profiled also takes profiles during the measurement if the flags ask for them.
func (m *measurement) profiled(s *settings) *measurement {
	m.t.Helper()
	m.endProfiles = s.startProfile(m.t, m.rig)
	return m
}

// gitHubCalls counts the calls of manager and listeners by endpoint, without polls: these hang most of the time and
// cost nothing.
func gitHubCalls(r *rig.Rig) map[string]int {
	calls := map[string]int{}
	for _, counter := range r.GitHub.Counters() {
		if counter.Endpoint != "get-message" && !strings.HasPrefix(counter.Endpoint, "simulated-runner/") {
			calls[counter.Endpoint] += counter.Count
		}
	}
	return calls
}

// awaitJobs waits until that many jobs have been completed since the beginning, and then until nothing is left of their
// runners.
func (m *measurement) awaitJobs(jobs int) {
	m.t.Helper()
	m.awaitCompleted(jobs)
	gomega.NewWithT(m.t).Eventually(m.rig.Leftovers, patience, look).WithArguments(context.Background()).
		Should(gomega.BeEmpty(), "left of the runners")
}

func (m *measurement) awaitCompleted(jobs int) {
	m.t.Helper()
	gomega.NewWithT(m.t).Eventually(func() int { return m.rig.GitHub.Snapshot().JobsByState["completed"] },
		patience, look).
		Should(gomega.Equal(m.known+jobs), "completed jobs")
}

// end fills in the result. All jobs of the load must be done by then.
func (m *measurement) end(result *Result) {
	m.t.Helper()
	manager, listener := m.rig.Usage(rig.ManagerProgram), m.rig.Usage(rig.ListenerProgram)
	apiServer := apiServerUsage(m.t, m.rig.Cluster)
	m.endProfiles()
	jobs := m.jobs()
	m.times(result, jobs)
	m.count(result)
	result.Manager = processOf(m.manager, manager, result.Runners)
	result.Listener = processOf(m.listener, listener, result.Runners)
	result.APIServer = processOf(m.apiServer, apiServer, result.Runners)
}

// jobs returns the completed jobs that have been queued since the beginning.
func (m *measurement) jobs() []fakegithub.Job {
	var ours []fakegithub.Job
	for _, job := range m.rig.GitHub.Jobs("completed") {
		if !job.QueuedAt.Before(m.began) {
			ours = append(ours, job)
		}
	}
	return ours
}

func (m *measurement) times(result *Result, jobs []fakegithub.Job) {
	m.t.Helper()
	if len(jobs) == 0 {
		return
	}
	events, err := m.rig.Cluster.AuditEvents(testkube.AuditFilter{Since: m.began, Namespace: m.rig.RunnerNamespace})
	if err != nil {
		m.t.Fatal(err)
	}
	lives := livesOf(jobs, podTimesOf(events))
	result.Created = spreadOf(between(lives, queued, created))
	result.Marked = spreadOf(between(lives, reported, marked))
	result.Gone = spreadOf(between(lives, completed, gone))
	result.Removed = spreadOf(between(lives, told, gone))
	result.AllCreated = seconds(latest(lives, created).Sub(m.began))
	result.Drained = seconds(latest(lives, gone).Sub(latest(lives, completed)))
}

func (m *measurement) count(result *Result) {
	m.t.Helper()
	requests := m.rig.Requests().Minus(m.requests)
	result.Requests = map[string]map[string]int{"manager": requests.Manager, "listener": requests.Listener}
	result.Runners = requests.Created["ephemeralrunners"]
	result.Claims = requests.Created["persistentvolumeclaims"]
	result.OverCreated = result.Runners - result.Jobs
	result.RequestsPerRunner = float64(requests.Total()) / float64(max(1, result.Jobs))
	m.sort(result)
	result.Refused = requests.Refused
	m.countGitHub(result)
	left, err := m.rig.Leftovers(context.Background())
	if err != nil {
		m.t.Fatal(err)
	}
	result.Leaked = left
}

// sort separates requests about runners from those about sets, and counts reads.
func (m *measurement) sort(result *Result) {
	own, shared := 0, 0
	for _, counts := range result.Requests {
		for what, count := range counts {
			verb, resource, _ := strings.Cut(what, " ")
			if verb == "get" || verb == "list" {
				result.Reads += count
			}
			switch resource {
			case "ephemeralrunners", "ephemeralrunners/status", "pods", "secrets", "persistentvolumeclaims":
				own += count
			default:
				shared += count
			}
		}
	}
	result.OwnPerRunner = float64(own) / float64(max(1, result.Jobs))
	result.SharedPerSecond = float64(shared) / time.Since(m.began).Seconds()
}

func (m *measurement) countGitHub(result *Result) {
	result.GitHub = map[string]int{}
	total := 0
	for endpoint, calls := range gitHubCalls(m.rig) {
		if more := calls - m.gitHub[endpoint]; more > 0 {
			result.GitHub[endpoint] = more
			total += more
		}
	}
	result.GitHubPerRunner = float64(total) / float64(max(1, result.Jobs))
}
