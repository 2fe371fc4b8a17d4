// Package pagetest has a day of an invented installation, to look at the pages without a cluster: for their tests,
// those in a browser, and people who change them. The same moment always gives the same day.
package pagetest

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/operations/finding"
	"github.com/harrier-ci/harrier/operations/history/ledger"
	"github.com/harrier-ci/harrier/operations/history/prices"
	"github.com/harrier-ci/harrier/operations/history/watch"
)

// Name is the name of the cluster.
const Name = "6c1f8f8e-0b5e-4c55-9d55-1d2f3a4b5c6d"

// Prices are those of a CPU and of a GiB for an hour.
var Prices = ledger.Prices{{CPUHour: 0.031, GiBHour: 0.004}}

// Budgets are those of a month.
var Budgets = []prices.Budget{{Repository: "acme/web", PerMonth: 20}, {Namespace: "research", PerMonth: 400}}

// Hostile is a name that a workflow may give a job: it would run a script, turn the direction of writing around, and
// fill pages.
var Hostile = `"><script>alert(1)</script><img src=x onerror=alert(2)>` + "\u202egnp.exe\u202c\u0000\u001b[31m" +
	strings.Repeat("very long ", 1000)

// set is a scale set with the jobs that it runs.
type set struct {
	namespace, name string
	most            int64
	limited         string
	cpu, memory     int64
	// jobs is the number of jobs that run at a time in the middle of the day, and each takes minutes.
	jobs, minutes float64
	workflows     []workflow
}

type workflow struct{ repository, file, job string }

var sets = []set{
	{"team-web", "linux", 12, "MaxRunnersReached", 2000, 4 << 30, 11, 9, []workflow{
		{"acme/web", "ci.yaml", "test (node 24)"}, {"acme/web", "ci.yaml", "lint"}, {"acme/api", "ci.yaml", "test"},
		{"acme/api", "release.yaml", "publish"},
	}},
	{"team-web", "linux-large", 6, "", 8000, 16 << 30, 3, 25, []workflow{
		{"acme/api", "ci.yaml", "integration"}, {"acme/web", "nightly.yaml", "browsers"},
	}},
	{"research", "gpu", 4, "Unschedulable", 12000, 64 << 30, 2, 48, []workflow{{"acme/models", "train.yaml", "train (large)"}}},
	{"research", "linux-arm64", 0, "", 4000, 8 << 30, 1.4, 14, []workflow{{"acme/models", "ci.yaml", "test"}}},
	{"platform", "deploy", 2, "", 500, 1 << 30, 0.6, 6, []workflow{{"acme/platform", "deploy.yaml", "apply (production)"}}},
	{"platform", "linux-privileged", 3, "", 4000, 8 << 30, 1.2, 11, []workflow{{"acme/platform", "images.yaml", "build"}}},
	{"mobile", "android-emulator-x86-64-with-hardware-acceleration", 8, "", 6000, 12 << 30, 4, 19, []workflow{
		{"acme/android", "pull-request.yaml", "instrumented tests (api 36, pixel tablet, landscape)"},
	}},
}

// Fill writes the 24 hours before now into a ledger.
func Fill(ctx context.Context, l *ledger.Ledger, now time.Time) error {
	random := rand.New(rand.NewPCG(7, 11)) //nolint:gosec // the same day each time
	now = now.UTC().Truncate(time.Minute)
	begin := now.Add(-24 * time.Hour)
	gap := ledger.Gap{Cluster: Name, From: begin.Add(9*time.Hour + 10*time.Minute),
		To: begin.Add(9*time.Hour + 50*time.Minute), Reason: ledger.GapStopped}
	if err := l.PutGap(ctx, gap); err != nil {
		return err
	}
	for i := range sets {
		if err := l.PutSamples(ctx, sets[i].samples(begin, now, gap, random)); err != nil {
			return err
		}
		if err := l.Put(ctx, sets[i].past(begin, now, gap, random)); err != nil {
			return err
		}
	}
	for _, jobs := range [][]ledger.Job{attempts(now), weeks(now)} {
		if err := l.Put(ctx, jobs); err != nil {
			return err
		}
	}
	return l.AddUp(ctx)
}

// load returns the load at a moment of the day, from 0.1 to 1.
func load(begin, moment time.Time) float64 {
	return 0.1 + 0.9*math.Pow(math.Sin(math.Pi*moment.Sub(begin).Hours()/24), 2)
}

func (s *set) samples(begin, now time.Time, gap ledger.Gap, random *rand.Rand) (samples []ledger.Sample) {
	for moment := begin; !moment.After(now); moment = moment.Add(10 * time.Minute) {
		if moment.After(gap.From) && moment.Before(gap.To) {
			continue
		}
		wanted := int64(s.jobs*load(begin, moment)*(0.7+0.6*random.Float64()) + 0.5)
		sample := ledger.Sample{Cluster: Name, Namespace: s.namespace, Set: s.name, At: moment, Running: wanted, Idle: 1}
		if s.most > 0 {
			sample.EffectiveMax = new(s.most)
			sample.Running, sample.Waiting = min(wanted, s.most), max(0, wanted-s.most)
		}
		if moment.Equal(now) && s.limited != "" {
			sample.Running, sample.Waiting, sample.Idle, sample.LimitedReason = s.most, 3, 0, s.limited
		}
		samples = append(samples, sample)
	}
	return samples
}

func (s *set) past(begin, now time.Time, gap ledger.Gap, random *rand.Rand) (jobs []ledger.Job) {
	moment := begin
	for {
		pause := s.minutes / s.jobs / load(begin, moment) * (0.5 + random.Float64())
		moment = moment.Add(time.Duration(pause * float64(time.Minute)))
		if !moment.Before(now.Add(-time.Minute)) {
			return jobs
		}
		if moment.After(gap.From) && moment.Before(gap.To) {
			continue
		}
		jobs = append(jobs, s.job(len(jobs), moment.Truncate(time.Second), now, random))
	}
}

func (s *set) job(number int, start, now time.Time, random *rand.Rand) ledger.Job {
	of := s.workflows[random.IntN(len(s.workflows))]
	seconds := func(most float64) time.Duration {
		return time.Duration(1+most*random.ExpFloat64()/2) * time.Second
	}
	job := ledger.Job{
		RunnerUID: fmt.Sprintf("00000000-0000-4000-8000-%s%04d", hex(s.name), number), Cluster: Name,
		Namespace: s.namespace, Set: s.name, Runner: fmt.Sprintf("%s-%05x", s.name, random.IntN(1<<20)), At: start,
		Repository: of.repository, Workflow: of.repository + "/.github/workflows/" + of.file, Ref: "refs/heads/main",
		Name: of.job, RunID: new(int64(19_000_000_000 + random.IntN(1e9))), JobID: fmt.Sprintf("%08x-job", random.Uint32()),
		Event: "push", Started: start, Result: "succeeded",
		Node: fmt.Sprintf("node-%d", 1+random.IntN(9)), NodeType: "m7i.4xlarge",
		CPURequestMillis: new(s.cpu), MemoryRequestBytes: new(s.memory), MemoryLimitBytes: new(s.memory),
	}
	job.ContainerUp = start.Add(-seconds(4))
	job.ImagePulled = job.ContainerUp.Add(-seconds(1))
	job.Placed = job.ImagePulled.Add(-seconds(20))
	job.Registered = job.Placed.Add(-seconds(s.minutes))
	job.Created = job.Registered.Add(-seconds(2))
	job.Assigned = job.Created.Add(-seconds(9 * load(now.Add(-24*time.Hour), start)))
	job.Queued = job.Assigned.Add(-seconds(3))
	ran := time.Duration(s.minutes*(0.4+random.ExpFloat64()*0.6)*60) * time.Second
	job.Finished = start.Add(ran + time.Second)
	switch chance := random.Float64(); {
	case chance < 0.07:
		job.Result = "failed"
	case chance < 0.10:
		job.Result = "canceled"
	case chance < 0.12:
		job.Result, job.LostCause, job.Rerun = "failed", "Evicted", "Done"
	case chance < 0.125:
		job.Result, job.LostCause = "failed", "OOMKilled"
	}
	if job.Finished.After(now) {
		job.Finished, job.Result, job.LostCause, job.Rerun = time.Time{}, "", "", ""
		return job
	}
	used := 0.2 + 0.3*random.Float64()
	job.PeakMemoryBytes = new(int64(float64(s.memory) * used))
	job.CPUMicroseconds = new(int64(used * float64(s.cpu) * 1000 * ran.Seconds()))
	job.CPUPeriods, job.ThrottledPeriods = new(int64(1000)), new(int64(used*200))
	return job
}

// hex tells sets apart in the UIDs of their jobs.
func hex(name string) string {
	sum := fnv.New32a()
	sum.Write([]byte(name)) // it never fails
	return fmt.Sprintf("%08x", sum.Sum32())
}

// Uids of the jobs that attempts returns.
const (
	Lost    = "00000000-0000-4000-8000-00000000aaaa"
	Again   = "00000000-0000-4000-8000-00000000bbbb"
	Harmful = "00000000-0000-4000-8000-00000000cccc"
)

// attempts are a job that was lost and run again, and one with a hostile name.
func attempts(now time.Time) []ledger.Job {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same day each time
	lost := sets[0].job(9001, now.Add(-50*time.Minute), now, random)
	lost.RunnerUID, lost.Runner, lost.Name, lost.RunID = Lost, "linux-lost1", "deploy", new(int64(19_123_456_789))
	lost.Repository, lost.Workflow = "acme/api", "acme/api/.github/workflows/release.yaml"
	lost.Finished, lost.Result, lost.LostCause = now.Add(-41*time.Minute), "failed", "NodeLost"
	lost.Rerun, lost.Attempt, lost.RerunAttempt, lost.JobNumber = "Done", new(int64(1)), new(int64(2)), new(int64(55_123_456_001))
	lost.NodeLabels = "kubernetes.io/arch=amd64,node.kubernetes.io/instance-type=m7i.4xlarge,karpenter.sh/capacity-type=spot"
	again := sets[0].job(9002, now.Add(-38*time.Minute), now, random)
	again.RunnerUID, again.Runner, again.Name, again.RunID = Again, "linux-again", lost.Name, lost.RunID
	again.Repository, again.Workflow = lost.Repository, lost.Workflow
	again.JobNumber, again.Attempt = new(int64(55_123_456_002)), new(int64(2))
	again.Finished, again.Result, again.LostCause, again.Rerun = now.Add(-27*time.Minute), "succeeded", "", ""
	harmful := sets[0].job(9003, now.Add(-20*time.Minute), now, random)
	harmful.RunnerUID, harmful.Name, harmful.Repository, harmful.Workflow = Harmful, Hostile, Hostile, Hostile
	harmful.Ref, harmful.Event, harmful.JobID, harmful.Node = Hostile, Hostile, Hostile, Hostile
	return []ledger.Job{lost, again, harmful}
}

// noGPU is the scheduler's message about a pod that no node suits.
const noGPU = "0/9 nodes are available: 3 Insufficient nvidia.com/gpu, 6 node(s) didn't match Pod's node " +
	"affinity/selector. " + "preemption: 0/9 nodes are available: 9 Preemption is not helpful for scheduling."

// Cluster has the jobs and runners that wait in the invented installation.
type Cluster struct{ At time.Time }

// Now returns what a scale set waits for.
func (c Cluster) Now(_, set string) (now watch.Now) {
	now.Runner = &watch.Runner{Image: "registry.example.com/ci/runner:2.338.0", Version: "2.338.0"}
	switch set {
	case "linux":
		now.Runner.End, now.Runner.Reason = c.At.Add(9*24*time.Hour), v1alpha1.ReasonVersionEndsSoon
		now.Runner.Message = "in nine days GitHub stops giving jobs to runner version 2.338.0 in image " +
			now.Runner.Image + ": use a newer image in the template"
		now.Waiting = []v1alpha1.WaitingJob{
			{Repository: "acme/web", RunID: 19_200_000_001, Name: "test (node 24)",
				WorkflowRef: "acme/web/.github/workflows/ci.yml@refs/heads/main",
				AssignedAt:  metav1.NewTime(c.At.Add(-12 * time.Minute)),
				QueuedAt:    new(metav1.NewTime(c.At.Add(-12 * time.Minute)))},
			{Repository: "acme/api", RunID: 19_200_000_002, Name: Hostile,
				AssignedAt: metav1.NewTime(c.At.Add(-11 * time.Minute))},
		}
		now.Limit = &finding.Finding{Severity: finding.Warning, Reason: "MaxRunnersReached",
			Message: "maxRunners of 12 is reached, with 15 assigned jobs; more jobs wait on GitHub",
			Fix:     "raise maxRunners, or wait for a runner to finish"}
	case "gpu":
		now.Starting = []watch.StartingRunner{{
			Name: "gpu-7k2xq", Created: c.At.Add(-6 * time.Minute), Phase: "registered", Since: c.At.Add(-6 * time.Minute),
			Reason: "Unschedulable", Message: noGPU,
		}}
		now.Limit = &finding.Finding{
			Severity: finding.Problem, Reason: "Unschedulable",
			Message: "1 runner waits, while 0 have a node; for example gpu-7k2xq: " + noGPU,
			Fix:     "add nodes, or make the template ask for less: requests, nodeSelector, affinity, tolerations, volumes",
		}
		now.Needs = []watch.Need{{Kind: watch.Request, Name: "cpu", What: "12"},
			{Kind: watch.Request, Name: "memory", What: "64Gi"},
			{Kind: watch.Request, Name: "nvidia.com/gpu", What: "1"}, {Kind: watch.Label, Name: "pool", What: "gpu"}}
	}
	return now
}

// Waiting returns the same jobs.
func (c Cluster) Waiting() map[types.NamespacedName][]v1alpha1.WaitingJob {
	linux := types.NamespacedName{Namespace: "team-web", Name: "linux"}
	return map[types.NamespacedName][]v1alpha1.WaitingJob{linux: c.Now(linux.Namespace, linux.Name).Waiting}
}

// Sets returns nothing: the samples say how sets look.
func (Cluster) Sets() []ledger.Sample { return nil }

// GitHub returns the address of GitHub.
func (Cluster) GitHub(_, _ string) string { return "https://github.com" }
