package ledger_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	databases "github.com/harrier-ci/harrier/operations/history/database"
	"github.com/harrier-ci/harrier/operations/history/databasetest"
	"github.com/harrier-ci/harrier/operations/history/ledger"
	"github.com/harrier-ci/harrier/operations/history/prices"
)

// rules are those of docs/history-costs.md, in a form that needs no reader.
var rules = ledger.Prices{
	{NodeLabels: map[string]prices.Values{"node.kubernetes.io/instance-type": {"g5.xlarge", "g5.2xlarge"}}, CPUHour: 0.04, GiBHour: 0.005,
		ResourceHours: map[string]float64{"nvidia.com/gpu": 0.9}},
	{NodeLabels: map[string]prices.Values{"kubernetes.io/arch": {"arm64"}, "karpenter.sh/capacity-type": {"spot"}}, CPUHour: 0.008},
	{NodeLabels: map[string]prices.Values{"karpenter.sh/capacity-type": {"spot"}}, CPUHour: 0.012, GiBHour: 0.0016},
	{NodeLabels: map[string]prices.Values{"kubernetes.io/arch": {"arm64"}}, CPUHour: 0.025, GiBHour: 0.0033},
	{NodeLabels: map[string]prices.Values{"karpenter.sh/capacity-type": {"on-demand"}}, CPUHour: 0.031, GiBHour: 0.004},
}

// machine is a node and what is requested there besides 2 CPUs and 4 GiB, with what an hour of that costs, reckoned by
// hand from the rules above; it is negative if nobody knows.
type machine struct {
	labels    map[string]string
	kind      string
	resources map[string]int64
	hour      float64
}

func onNode(kind, arch, capacity string, resources map[string]int64, hour float64) machine {
	return machine{map[string]string{"node.kubernetes.io/instance-type": kind, "kubernetes.io/arch": arch,
		"karpenter.sh/capacity-type": capacity, "kubernetes.io/hostname": "node-1"}, kind, resources, hour}
}

var machines = []machine{
	onNode("m7i.4xlarge", "amd64", "on-demand", nil, 2*0.031+4*0.004),
	onNode("m7i.4xlarge", "amd64", "spot", nil, 2*0.012+4*0.0016),
	onNode("m7g.4xlarge", "arm64", "spot", nil, 2*0.008),
	onNode("m7g.4xlarge", "arm64", "on-demand", nil, 2*0.025+4*0.0033),
	onNode("g5.xlarge", "amd64", "on-demand", map[string]int64{"nvidia.com/gpu": 1}, 2*0.04+4*0.005+0.9),
	onNode("g5.2xlarge", "amd64", "spot", map[string]int64{"nvidia.com/gpu": 2}, 2*0.04+4*0.005+2*0.9),
	onNode("g5.2xlarge", "amd64", "spot", nil, 2*0.04+4*0.005),
	onNode("p5.48xlarge", "amd64", "on-demand", map[string]int64{"nvidia.com/gpu": 8}, -1), // no rule has a price for its GPUs
	onNode("g5.xlarge", "amd64", "on-demand", map[string]int64{"amd.com/gpu": 1}, -1),
	onNode("m7i.large", "amd64", "reserved", nil, -1),
	{nil, "m7i.large", nil, -1},               // a row of before: it may have been spot
	{nil, "g5.xlarge", nil, 2*0.04 + 4*0.005}, // the same, of which its type is enough
	{nil, "", nil, -1},
}

// on has a job run on a machine.
func (m *machine) on(job *ledger.Job) {
	if job.NodeType = m.kind; m.labels != nil {
		job.NodeLabels = rules.NodeLabels(m.labels)
	}
	job.ExtendedResources = prices.ExtendedResources(m.resources)
}

// cost is what is spent, for how many hours that is known and not known.
type cost struct{ amount, known, unknown float64 }

func (c *cost) add(job *ledger.Job, hour float64) {
	hours := job.Finished.Sub(job.Started).Hours()
	if hour < 0 {
		c.unknown += hours
		return
	}
	c.known, c.amount = c.known+hours, c.amount+hours*hour
}

func (c *cost) differs(amount, hours, unpriced float64) bool {
	far := func(a, b float64) bool { return math.Abs(a-b) > 1e-6 }
	return far(c.amount, amount) || far(c.unknown, unpriced) || far(c.known+c.unknown, hours)
}

// TestJobsCostWhatTheirMachinesCost over hours, days, weeks and longer, in all and by each property, on pages and without,
// with spot and on-demand nodes of two architectures, GPUs, machines without a price and rows of before.
func TestJobsCostWhatTheirMachinesCost(t *testing.T) {
	each(t, func(t *testing.T, l *ledger.Ledger) {
		random := rand.New(rand.NewPCG(9, 10))
		var all []ledger.Job
		var whole cost
		by := map[ledger.By]map[string]*cost{}
		for i := range 600 {
			job, m := finished(i, random.IntN(60*24*60)), machines[random.IntN(len(machines))]
			job.Finished = job.Started.Add(time.Duration(1+random.IntN(7200)) * time.Second)
			job.Repository, job.Set, job.Name = fmt.Sprint("acme/", i%4), fmt.Sprint("set-", i%3), fmt.Sprint("job-", i%7)
			m.on(&job)
			all = append(all, job)
			whole.add(&job, m.hour)
			for property, name := range map[ledger.By]string{ledger.ByRepository: job.Repository, ledger.BySet: job.Set,
				ledger.ByWorkflow: job.Repository + job.Workflow, ledger.ByJob: job.Repository + job.Workflow + job.Name,
				ledger.ByDay: job.Finished.UTC().Format(time.DateOnly)} {
				if by[property] == nil {
					by[property] = map[string]*cost{}
				}
				if by[property][name] == nil {
					by[property][name] = &cost{}
				}
				by[property][name].add(&job, m.hour)
			}
		}
		put(t, l, all...)
		addUp(t, l)
		sum, err := l.Usage(t.Context(), ledger.ByAll, ledger.Filter{}, rules)
		if err != nil || whole.differs(sum.Rows[0].Cost, sum.Rows[0].RunHours, sum.Rows[0].UnpricedHours) {
			t.Errorf("all is %+v, want %+v; %v", sum.Rows, whole, err)
		}
		for property, want := range by {
			rows, err := l.UsageBy(t.Context(), property, ledger.Filter{}, rules)
			checkCosts(t, property, want, rows, err)
			paged, err := l.Usage(t.Context(), property, ledger.Filter{Limit: 1000}, rules)
			checkCosts(t, property, want, paged.Rows, err)
		}
	})
}

// TestMachinesWithoutAPriceAreNamed with their hours, before those that have one.
func TestMachinesWithoutAPriceAreNamed(t *testing.T) {
	each(t, func(t *testing.T, l *ledger.Ledger) {
		for i, m := range []int{7, 7, 7, 9, 0, 0} {
			job := finished(i, 0)
			machines[m].on(&job)
			put(t, l, job)
		}
		addUp(t, l)
		found, err := rowsOfPage(l.Machines(t.Context(), ledger.Filter{}, rules))
		want := []ledger.Machine{
			{NodeLabels: "kubernetes.io/arch=amd64,node.kubernetes.io/instance-type=p5.48xlarge,karpenter.sh/capacity-type=on-demand",
				ExtendedResources: "nvidia.com/gpu", RunHours: 0.5},
			{NodeLabels: "kubernetes.io/arch=amd64,node.kubernetes.io/instance-type=m7i.large,karpenter.sh/capacity-type=reserved", RunHours: 1 / 6.0},
			{NodeLabels: "kubernetes.io/arch=amd64,node.kubernetes.io/instance-type=m7i.4xlarge,karpenter.sh/capacity-type=on-demand",
				RunHours: 1 / 3.0, Priced: true, Cost: machines[0].hour / 3},
		}
		if diff := cmp.Diff(want, found, closeTo); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		page, err := l.Machines(t.Context(), ledger.Filter{Limit: 2}, rules)
		if err != nil || len(page.Rows) != 2 || page.Next == "" || page.Total != 3 {
			t.Errorf("a page of them is %+v, %v", page, err)
		}
	})
}

// checkCosts fails the test unless rows have what is wanted, the dearest first.
func checkCosts(t *testing.T, by ledger.By, want map[string]*cost, rows []ledger.Usage, err error) {
	t.Helper()
	if err != nil || len(rows) != len(want) {
		t.Errorf("by %s there are %d rows, want %d; %v", by, len(rows), len(want), err)
	}
	for i := range rows {
		u := &rows[i]
		name := u.Set + u.Repository + u.Workflow + u.Name
		if by == ledger.ByDay {
			name = u.Day.Format(time.DateOnly)
		} else if i > 0 && u.Cost > rows[i-1].Cost {
			t.Errorf("by %s the dearest isn't first", by)
		}
		if want[name] == nil || want[name].differs(u.Cost, u.RunHours, u.UnpricedHours) {
			t.Errorf("by %s %s is %+v, want %+v", by, name, u, want[name])
		}
	}
}

// TestAPriceThatChangesHoldsForThePast: nothing is written again.
func TestAPriceThatChangesHoldsForThePast(t *testing.T) {
	each(t, func(t *testing.T, l *ledger.Ledger) {
		job := finished(1, 0)
		machines[1].on(&job)
		put(t, l, job)
		addUp(t, l)
		for hour, by := range map[float64]ledger.Prices{
			2*0.012 + 4*0.0016: rules, 2 * 7: {{CPUHour: 7}},
			2 * 5: {{NodeLabels: map[string]prices.Values{"karpenter.sh/capacity-type": {"on-demand"}}, CPUHour: 3}, {CPUHour: 5}, {CPUHour: 7}},
			0:     {{NodeLabels: map[string]prices.Values{"kubernetes.io/arch": {"arm64"}}, CPUHour: 3}},
			// Nobody had named this label when the job ran: it may have had it.
			1e-9: {{NodeLabels: map[string]prices.Values{"example.com/pool": {"a"}}, CPUHour: 3}, {CPUHour: 7}},
		} {
			all, err := l.Usage(t.Context(), ledger.ByAll, ledger.Filter{}, by)
			if err != nil || math.Abs(all.Rows[0].Cost-hour/6) > 1e-6 || (hour < 1e-6) != (all.Rows[0].UnpricedHours > 0) {
				t.Errorf("by %+v it is %+v, want %f; %v", by, all.Rows[0], hour/6, err)
			}
		}
	})
}

// TestMachinesAreBounded: what is more than a row tells apart is unknown, and nothing is lost.
func TestMachinesAreBounded(t *testing.T) {
	each(t, func(t *testing.T, l *ledger.Ledger) {
		var many []ledger.Job
		for i := range 300 {
			job := finished(i, i%50)
			m := onNode(fmt.Sprint("type-", i%150), "amd64", "spot", nil, 0)
			m.on(&job)
			many = append(many, job)
		}
		put(t, l, many...)
		addUp(t, l)
		for _, by := range []ledger.By{ledger.ByAll, ledger.BySet, ledger.ByJob, ledger.ByDay} {
			rows, err := l.Usage(t.Context(), by, ledger.Filter{}, rules)
			if err != nil || len(rows.Rows) != 1 || math.Abs(rows.Rows[0].RunHours-50) > 1e-6 {
				t.Fatalf("by %s it is %+v, %v", by, rows, err)
			}
			u := rows.Rows[0]
			if known := u.RunHours - u.UnpricedHours; known < 10 || known > 25 || math.Abs(u.Cost-known*(2*0.012+4*0.0016)) > 1e-6 {
				t.Errorf("by %s %f hours are known, and cost %f", by, known, u.Cost)
			}
		}
	})
}

// TestWhatFitsSavesByThePriceOfItsMachine: on nodes without a price nobody knows what would be saved.
func TestWhatFitsSavesByThePriceOfItsMachine(t *testing.T) {
	each(t, func(t *testing.T, l *ledger.Ledger) {
		for i, m := range machines[:2] {
			job := finished(i, 0)
			m.on(&job)
			put(t, l, job)
		}
		unknown := finished(2, 0)
		machines[7].on(&unknown)
		put(t, l, unknown)
		addUp(t, l)
		sizes, err := rowsOfPage(l.Sizes(t.Context(), ledger.Filter{}, rules))
		// Each used a CPU of two and 1 GiB of four, for ten minutes.
		want := (0.031 + 3*0.004 + 0.012 + 3*0.0016) / 6
		if err != nil || len(sizes) != 1 || math.Abs(sizes[0].Saving-want) > 0.05*want {
			t.Errorf("sizes are %+v, want a saving of %f; %v", sizes, want, err)
		}
	})
}

// TestRowsOfBeforeKeepWhatTheyAreAndKnowTheirType: a ledger of version 8 knows the type of nodes only. What a plain price
// came to stays, a rule on the type holds for jobs that are there, and what is left of jobs that are deleted keeps its sum.
func TestRowsOfBeforeKeepWhatTheyAreAndKnowTheirType(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, at string) {
		const days = 80
		large := version8(t, at, days)
		l := open(t, at)
		ofType := ledger.Prices{{NodeLabels: map[string]prices.Values{"node.kubernetes.io/instance-type": {"large"}}, CPUHour: 3}}
		for _, added := range []bool{false, true} {
			if added {
				addUp(t, l)
			}
			plain, err := l.Usage(t.Context(), ledger.ByAll, ledger.Filter{}, ledger.Prices{{CPUHour: 3}})
			if u := plain.Rows[0]; err != nil || u.Jobs != days || math.Abs(u.Cost-days*3*2/6.0) > 1e-6 || u.UnpricedHours > 0 {
				t.Errorf("at a plain price it is %+v, %v", u, err)
			}
			byType, err := l.Usage(t.Context(), ledger.ByAll, ledger.Filter{}, ofType)
			want := map[bool]float64{true: large * 3 * 2 / 6}[added]
			if u := byType.Rows[0]; err != nil || math.Abs(u.Cost-want) > 1e-6 || math.Abs(u.RunHours-days/6.0) > 1e-6 {
				t.Errorf("at a price of a type it is %+v, want %f; %v", u, want, err)
			}
		}
	})
}

// version8 makes a database of version 8 with a job of ten minutes a day, of which each other one ran on a large node, and
// its sums. The first job is deleted. It returns how many large ones there are in the four weeks whose jobs are all there.
func version8(t *testing.T, at string, days int) (large float64) {
	t.Helper()
	db, err := databases.Connect(at)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	migrations, err := databases.Migrations(db)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrations.UpTo(t.Context(), 8); err != nil {
		t.Fatal(err)
	}
	exec := func(text string, values ...any) {
		t.Helper()
		if _, err := db.Exec(text, values...); err != nil {
			t.Fatal(err)
		}
	}
	fourWeeks := func(day int) int64 { return noon.AddDate(0, 0, day).Add(10*time.Minute).Unix() / (28 * 86400) }
	for day := range days {
		started, kind := noon.AddDate(0, 0, day).Unix(), []string{"large", "small"}[day%2]
		exec("INSERT INTO jobs (runner_uid, cluster, namespace, set_name, runner, at, repository, workflow, ref, job_name, job_id, "+
			"event, result, lost_cause, rerun, node, node_type, started, finished, cpu_request_millis, memory_request_bytes) VALUES "+
			"($1, 'c', 'n', 's', 'r', $2, 'o/r', 'o/r/w', '', 'test', '', '', 'succeeded', '', '', 'node', $3, $2, $4, 2000, 1073741824)",
			fmt.Sprint("uid-", day), started, kind, started+600)
		if kind == "large" && fourWeeks(day) != fourWeeks(0) {
			large++
		}
	}
	for _, span := range []int64{3600, 86400, 7 * 86400, 28 * 86400} {
		for sign, names := range map[int64]string{1: "repository, workflow, job_name", -1: "'', '', ''"} {
			exec(fmt.Sprintf("INSERT INTO usage_periods SELECT %[1]d, finished - finished %% %[2]d, cluster, namespace, set_name, %[3]s, "+
				"COUNT(*), COUNT(*), 0, 0, 0, 0, 600 * COUNT(*), 1200000 * COUNT(*), 614400 * COUNT(*), 0, 0, 0, 0, 0, 0, 0, 0, 0, 2000, "+
				"1073741824, '', '', '', '', 0, 0, 0, 0, '' FROM jobs GROUP BY finished - finished %% %[2]d, cluster, namespace, set_name, "+
				"repository, workflow, job_name", sign*span, span, names))
		}
	}
	exec("DELETE FROM jobs WHERE runner_uid = 'uid-0'")
	return large
}

// TestWhatIsRequestedBesidesIsTheMost: pods of container hooks come and go, and two ledgers report in any order.
func TestWhatIsRequestedBesidesIsTheMost(t *testing.T) {
	each(t, func(t *testing.T, l *ledger.Ledger) {
		reports := []string{"", "nvidia.com/gpu=9", "nvidia.com/gpu=10", "nvidia.com/gpu=8"}
		for i := range reports {
			job := finished(i, 0)
			for j := range reports {
				job.ExtendedResources = reports[(i+j)%len(reports)]
				put(t, l, job)
			}
			if got := jobs(t, l, ledger.Filter{RunnerUID: job.RunnerUID})[0].ExtendedResources; got != "nvidia.com/gpu=10" {
				t.Errorf("it is %q", got)
			}
		}
	})
}
