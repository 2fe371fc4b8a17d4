// Command ledger measures the ledger of jobs: the duration of the page's questions at a million rows, the size of these
// rows, the share of a CPU that 42,000 jobs an hour cost, and its memory. Each tenth job has a name of its own, as if
// workflows put commits into the names of jobs, unless names repeat: then there are 1,200 kinds. `make ledger` runs it;
// docs/history-database.md has the figures.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/harrier-ci/harrier/operations/history/ledger"
)

func main() {
	rows := flag.Int("rows", 1_000_000, "number of jobs, spread over 90 days")
	at := flag.String("database", "", "URL of an empty PostgreSQL; empty: SQLite in a temporary directory")
	flag.BoolVar(&repeat, "repeat", false, "names of jobs repeat: 1,200 kinds")
	flag.Parse()
	if err := run(context.Background(), *rows, *at); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// repeat is set if no job has a name of its own.
var repeat bool

// now is the end of the 90 days.
var now = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func run(ctx context.Context, rows int, at string) error {
	directory, err := os.MkdirTemp("", "ledger-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(directory)
	embedded := at == ""
	if embedded {
		at = filepath.Join(directory, "history.db")
	}
	l, err := ledger.Open(ctx, at)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := fill(ctx, l, rows); err != nil {
		return err
	}
	if embedded {
		info, err := os.Stat(at)
		if err != nil {
			return err
		}
		fmt.Printf("the file has %.0f MiB for %d jobs, %.0f MiB for a million\n", float64(info.Size())/(1<<20), rows,
			float64(info.Size())/(1<<20)/float64(rows)*1e6)
	}
	if err := feed(ctx, l, at); err != nil {
		return err
	}
	if err := sustain(ctx, l, rows); err != nil {
		return err
	}
	if err := ask(ctx, l, rows); err != nil {
		return err
	}
	return askTogether(ctx, l)
}

// machines are labels of nodes as an autoscaler chooses them: jobs of a name run on all of them.
var machines = []string{
	"kubernetes.io/arch=amd64,node.kubernetes.io/instance-type=m7i.4xlarge,karpenter.sh/capacity-type=spot",
	"kubernetes.io/arch=amd64,node.kubernetes.io/instance-type=m7a.4xlarge,karpenter.sh/capacity-type=spot",
	"kubernetes.io/arch=amd64,node.kubernetes.io/instance-type=m6i.4xlarge,karpenter.sh/capacity-type=spot",
	"kubernetes.io/arch=amd64,node.kubernetes.io/instance-type=m7i.4xlarge,karpenter.sh/capacity-type=on-demand",
	"kubernetes.io/arch=amd64,node.kubernetes.io/instance-type=c7i.8xlarge,karpenter.sh/capacity-type=spot",
}

// fill writes jobs of 90 days, in batches as large as the recorder's.
func fill(ctx context.Context, l *ledger.Ledger, rows int) error {
	began, used := time.Now(), cpu()
	const batch = 500
	apart := 90 * 24 * time.Hour / time.Duration(rows)
	for first := 0; first < rows; first += batch {
		jobs := make([]ledger.Job, 0, batch)
		for number := first; number < min(rows, first+batch); number++ {
			jobs = append(jobs, job(number, now.Add(-apart*time.Duration(rows-number))))
		}
		if err := l.Put(ctx, jobs); err != nil {
			return err
		}
	}
	fmt.Printf("%d jobs were written in %.0f s, with %.0f s of a CPU\n", rows, time.Since(began).Seconds(),
		(cpu() - used).Seconds())
	began = time.Now()
	if err := l.AddUp(ctx); err != nil {
		return err
	}
	fmt.Printf("their periods were added up in %.0f s\n", time.Since(began).Seconds())
	return nil
}

// job returns a finished job of one of 200 repositories with two workflows of three jobs each, which share 20 sets; each
// tenth has a name that no other job has.
func job(number int, start time.Time) ledger.Job {
	random := rand.New(rand.NewPCG(uint64(number), 1))
	service := int(random.ExpFloat64()*30) % 200
	repository := fmt.Sprintf("acme/service-%d", service)
	j := ledger.Job{
		RunnerUID: fmt.Sprintf("%08x-1234-4abc-8def-%012x", random.Uint32(), number),
		Cluster:   "9b2f5a4e-0000-4000-8000-000000000000",
		Namespace: fmt.Sprintf("team-%d", service%5), Set: fmt.Sprintf("linux-%d", service%20),
		Runner: fmt.Sprintf("linux-abcde-runner-%d", number),
		At:     start, Repository: repository,
		Workflow: fmt.Sprintf("%s/.github/workflows/%d.yaml", repository, random.IntN(2)),
		Ref:      "refs/heads/main",
		Name:     []string{"build", "test", "lint"}[random.IntN(3)], RunID: new(int64(10_000_000_000 + number/3)),
		JobID: fmt.Sprintf("%016x-job", random.Uint64()), Event: "push", Queued: start.Add(-60 * time.Second),
		Assigned: start.Add(-59 * time.Second),
		Created:  start.Add(-58 * time.Second), Registered: start.Add(-57 * time.Second),
		Placed:      start.Add(-50 * time.Second),
		ImagePulled: start.Add(-12 * time.Second), ContainerUp: start.Add(-10 * time.Second), Started: start,
		Finished: start.Add(time.Duration(30+random.IntN(900)) * time.Second), Result: "succeeded",
		Node:     fmt.Sprintf("node-%d", random.IntN(50)),
		NodeType: "m7i.4xlarge", NodeLabels: machines[random.IntN(len(machines))], CPURequestMillis: new(int64(2000)), MemoryRequestBytes: new(int64(4 << 30)),
		PeakMemoryBytes: new(random.Int64N(4 << 30)), CPUMicroseconds: new(random.Int64N(900_000_000)),
		CPUPeriods:       new(int64(5000)),
		ThrottledPeriods: new(random.Int64N(500)),
	}
	if random.IntN(100) == 0 {
		j.Result, j.LostCause = "canceled", "Evicted"
	}
	switch random.IntN(5) {
	case 0, 1:
		j.Event, j.Ref = "pull_request", fmt.Sprintf("refs/pull/%d/merge", number)
	case 2:
		j.Ref = fmt.Sprintf("refs/heads/ticket-%d", number)
	}
	if number%10 == 0 && !repeat {
		j.Name = fmt.Sprintf("test %08x%032x", random.Uint32(), number)
	}
	return j
}

// ask measures the questions of the page.
func ask(ctx context.Context, l *ledger.Ledger, rows int) error {
	prices := ledger.Prices{{CPUHour: 0.03, GiBHour: 0.004}}
	ago := func(days int) time.Time { return now.AddDate(0, 0, -days).Truncate(24 * time.Hour) } // as the page reads 7d
	jobs := func(filter ledger.Filter) func() error {
		return func() error {
			filter.Limit = 100
			_, err := l.Jobs(ctx, filter)
			return err
		}
	}
	usage := func(by ledger.By, filter ledger.Filter) func() error {
		return func() error { _, err := l.UsageBy(ctx, by, filter, prices); return err }
	}
	waits := func(filter ledger.Filter) func() error {
		return func() error { _, err := l.WaitsBy(ctx, "", filter); return err }
	}
	one := job(rows/2, now)
	for _, question := range append(aboutTrends(ctx, l, ago), []question{
		{"the last 100 jobs", jobs(ledger.Filter{})},
		{"100 jobs of a set, a month ago", jobs(ledger.Filter{Namespace: "team-0", Set: "linux-0", To: ago(30)})},
		{"100 jobs of a repository in a week", jobs(ledger.Filter{Repository: "acme/service-7", From: ago(7)})},
		{"100 jobs of a workflow", jobs(ledger.Filter{Workflow: "acme/service-150/.github/workflows/1.yaml"})},
		{"lost jobs of 90 days", jobs(ledger.Filter{Lost: true, From: ago(90)})},
		{"jobs of a run", jobs(ledger.Filter{RunID: *one.RunID})},
		{"a job by its id", jobs(ledger.Filter{JobID: one.JobID})},
		{"a page that finds no name, 90 days", jobs(ledger.Filter{Text: "no such name", From: ago(90)})},
		{"a page that finds no result", jobs(ledger.Filter{Result: "none", From: ago(90)})},
		{"a job by its runner's name", jobs(ledger.Filter{Runner: one.Runner, From: ago(90)})},
		{"use by repository, a day", usage(ledger.ByRepository, ledger.Filter{From: ago(1)})},
		{"use by repository, 90 days", usage(ledger.ByRepository, ledger.Filter{From: ago(90)})},
		{"use by repository, 30 days", usage(ledger.ByRepository, ledger.Filter{From: ago(30)})},
		{"use by workflow, 30 days", usage(ledger.ByWorkflow, ledger.Filter{From: ago(30)})},
		{"use by job, 7 days", usage(ledger.ByJob, ledger.Filter{From: ago(7)})},
		{"use by set, a day", usage(ledger.BySet, ledger.Filter{From: now.Add(-24 * time.Hour)})},
		{"use by day, 90 days", usage(ledger.ByDay, ledger.Filter{From: ago(90)})},
		{"waits, 24 hours", waits(ledger.Filter{From: now.Add(-24 * time.Hour)})},
		{"waits, 7 days", waits(ledger.Filter{From: ago(7)})},
		{"waits of a set, 7 days", waits(ledger.Filter{Namespace: "team-0", Set: "linux-0", From: ago(7)})},
		{"sizes, 7 days", func() error { _, err := l.Sizes(ctx, ledger.Filter{From: ago(7)}, prices); return err }},
		{"sizes, 30 days", func() error { _, err := l.Sizes(ctx, ledger.Filter{From: ago(30)}, prices); return err }},
		{"100 jobs of a branch", jobs(ledger.Filter{Branch: "main", From: ago(30)})},
		{"use by job, page 3, 30 days", func() error {
			_, err := l.Usage(ctx, ledger.ByJob, ledger.Filter{From: ago(30), Limit: 100, After: "200"}, prices)
			return err
		}},
		{"waits by job, page 3, 30 days", func() error {
			_, err := l.WaitsBy(ctx, ledger.ByJob, ledger.Filter{From: ago(30), Limit: 100, After: "200"})
			return err
		}},
		{"sizes, page 3, 30 days", func() error {
			_, err := l.Sizes(ctx, ledger.Filter{From: ago(30), Limit: 100, After: "200"}, prices)
			return err
		}},
	}...) {
		const times = 11
		var took []time.Duration
		used := cpu()
		for range times {
			began := time.Now()
			if err := question.ask(); err != nil {
				return fmt.Errorf("%s: %w", question.name, err)
			}
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		fmt.Printf("%-36s %5.1f ms, at most %5.1f ms, with %5.1f ms of a CPU\n", question.name,
			milliseconds(took[times/2]),
			milliseconds(took[times-1]), milliseconds((cpu()-used)/times))
	}
	return nil
}

// question is what the page asks.
type question struct {
	name string
	ask  func() error
}

// aboutTrends are the questions of the page of trends.
func aboutTrends(ctx context.Context, l *ledger.Ledger, ago func(days int) time.Time) []question {
	trends := func(by ledger.By, every string, filter ledger.Filter) func() error {
		filter.Limit = 20 // as the page asks
		return func() error { _, err := l.Trends(ctx, by, every, filter); return err }
	}
	return []question{
		{"trends of all jobs by day, 30 days", trends(ledger.ByAll, "day", ledger.Filter{From: ago(30)})},
		{"trends of all jobs by week, 90 days", trends(ledger.ByAll, "week", ledger.Filter{From: ago(90)})},
		{"trends of a repository by day, 30 days", trends(ledger.ByAll, "day", ledger.Filter{Repository: "acme/service-7",
			From: ago(30)})},
		{"trends of a job on main, 30 days", trends(ledger.ByAll, "day", ledger.Filter{Repository: "acme/service-7",
			Workflow: "acme/service-7/.github/workflows/1.yaml", Name: "test", Branch: "main", From: ago(30)})},
		{"trends by repository, a week", trends(ledger.ByRepository, "day", ledger.Filter{From: ago(7)})},
		{"trends by job, a week", trends(ledger.ByJob, "day", ledger.Filter{From: ago(7)})},
		{"trends by job, by week, 30 days", trends(ledger.ByJob, "week", ledger.Filter{From: ago(30)})},
		{"trends by job, by week, 90 days", trends(ledger.ByJob, "week", ledger.Filter{From: ago(90)})},
		{"trends by branch, by week, 30 days", trends(ledger.ByBranch, "week", ledger.Filter{From: ago(30)})},
		{"trends by event, by week, 30 days", trends(ledger.ByEvent, "week", ledger.Filter{From: ago(30)})},
		{"what got worse", func() error { _, err := l.Changes(ctx, ledger.Filter{Now: now}); return err }},
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// sustain writes an hour of 42,000 jobs, second by second: each job is reported at its start, twice while it runs and at
// its end, and the periods are added up each minute. Each tenth job has a new name.
func sustain(ctx context.Context, l *ledger.Ledger, rows int) error {
	const (
		perHour = 42_000
		minutes = 60
	)
	forgetPeak()
	began, used, longest := time.Now(), cpu(), time.Duration(0)
	number := rows
	for second := range minutes * 60 {
		var batch []ledger.Job
		for ; number < rows+(second+1)*perHour/3600; number++ {
			ended := job(number, now.Add(time.Duration(second)*time.Second))
			started := ended
			started.Finished, started.Result, started.PeakMemoryBytes = time.Time{}, "", nil
			batch = append(batch, started, started, started, ended)
		}
		if err := l.Put(ctx, batch); err != nil {
			return err
		}
		if second%60 == 59 {
			adding := time.Now()
			if err := l.AddUp(ctx); err != nil {
				return err
			}
			longest = max(longest, time.Since(adding))
		}
	}
	fmt.Printf("%d jobs an hour take %.1f %% of a CPU; their hour was written in %.0f s, and adding up took %.1f s at most\n",
		perHour, 100*(cpu()-used).Seconds()/(minutes*60), time.Since(began).Seconds(), longest.Seconds())
	fmt.Printf("the process had %.0f MiB of memory at most meanwhile\n", peak())
	return nil
}

// askTogether asks the largest questions as often at a time as the page and the API do.
func askTogether(ctx context.Context, l *ledger.Ledger) error {
	forgetPeak()
	var group sync.WaitGroup
	failures := make([]error, 16)
	for i := range failures {
		group.Go(func() {
			filter := ledger.Filter{From: now.AddDate(0, 0, -30)}
			_, sizes := l.Sizes(ctx, filter, ledger.Prices{{CPUHour: 1}})
			_, used := l.UsageBy(ctx, ledger.ByJob, filter, ledger.Prices{{CPUHour: 1}})
			_, waited := l.WaitsBy(ctx, ledger.ByJob, filter)
			failures[i] = errors.Join(sizes, used, waited)
		})
	}
	group.Wait()
	fmt.Printf("%d questions by job at a time: the process had %.0f MiB of memory at most\n", len(failures), peak())
	return errors.Join(failures...)
}

// cpu returns the CPU time of this process.
func cpu() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
