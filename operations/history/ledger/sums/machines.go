package sums

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/harrier-ci/harrier/operations/history/ledger/period"
	"github.com/harrier-ci/harrier/operations/history/prices"
	"github.com/harrier-ci/harrier/operations/history/rows"
)

// machineAmounts are what jobs requested on each kind of machine: prices are applied when somebody asks, so that a price
// that is changed holds for the past, and sums must be kept apart by all that a rule can ask for. What sums have besides,
// in run_seconds, cpu_requested and memory_requested, is of machines of which nothing is known: those of a version
// before this column.
type machineAmounts map[prices.Machine]amounts

// amounts are seconds of jobs, thousandths of a CPU times seconds, MiB times seconds, and seconds of each extended
// resource of the machine.
type amounts []int64

const (
	ofRun = iota
	ofCPU
	ofMemory
	firstResource
)

// mostMachines bounds the kinds of machines that a row tells apart. Clusters that choose among all types of a provider
// have been seen with about forty; what is more is of nodes that few jobs ran on, and counts as unknown.
const mostMachines = 64

func (m machineAmounts) add(machine prices.Machine, more amounts) {
	of := m[machine]
	if of == nil {
		of = make(amounts, len(more))
		m[machine] = of
	}
	for i := range min(len(of), len(more)) {
		of[i] = plus(of[i], more[i])
	}
}

// count adds what a job requested for so many seconds.
func (m machineAmounts) count(job *rows.Job, run, cpu, memory int64) {
	if run == 0 {
		return
	}
	machine, resources := prices.MachineOf(job.NodeLabels, job.NodeType, job.ExtendedResources)
	of := amounts{run, cpu, memory}
	for _, number := range resources {
		of = append(of, number*run)
	}
	m.add(machine, of)
	m.limit()
}

func (m machineAmounts) addAll(more machineAmounts) {
	for machine, of := range more {
		m.add(machine, of)
	}
	m.limit()
}

// slack is how many times the machines that are kept are held while jobs are counted: the least are known at the end.
const slack = 2

// limit puts the least of too many machines together.
func (m machineAmounts) limit() {
	if len(m) > slack*mostMachines {
		m.fold()
	}
}

func (m machineAmounts) fold() {
	if len(m) <= mostMachines {
		return
	}
	told := slices.DeleteFunc(m.sorted(), func(of prices.Machine) bool { return of == prices.Folded })
	slices.SortStableFunc(told, func(a, b prices.Machine) int { return cmp.Compare(m[b][ofRun], m[a][ofRun]) })
	for _, least := range told[mostMachines-1:] {
		gone := m[least]
		delete(m, least)
		m.add(prices.Folded, gone[:firstResource])
	}
}

func (m machineAmounts) sorted() []prices.Machine { return slices.Sorted(maps.Keys(m)) }

// String returns LABELS|RESOURCES|AMOUNT,AMOUNT… of each, with semicolons between them.
func (m machineAmounts) String() string {
	m.fold()
	var text strings.Builder
	for i, machine := range m.sorted() {
		if i > 0 {
			text.WriteByte(';')
		}
		text.WriteString(string(machine))
		for j, amount := range m[machine] {
			text.WriteByte("|,"[min(j, 1)])
			text.WriteString(strconv.FormatInt(amount, 10))
		}
	}
	return text.String()
}

// addText adds those of a text that String has made. What isn't such a text counts as of machines of which nothing is known.
func (m machineAmounts) addText(text string) {
	var of parsed
	more := machineAmounts{}
	for text != "" {
		var machine prices.Machine
		var right bool
		if machine, right, text = of.next(text); right {
			more.add(prices.Machine(strings.Clone(string(machine))), of.amounts())
		}
	}
	m.addAll(more)
}

// mostAmounts is more than a machine has: eight extended resources are kept of a job.
const mostAmounts = firstResource + 16

// parsed has the amounts of a machine in a text. A question reads a hundred thousand of them, so nothing is made anew for
// each.
type parsed struct {
	numbers [mostAmounts]int64
	read    int
}

func (p *parsed) amounts() amounts { return p.numbers[:p.read] }

// next reads the first machine of a text, and returns what is left of the text; right is false if it is none.
func (p *parsed) next(text string) (machine prices.Machine, right bool, rest string) {
	part, rest, _ := strings.Cut(text, ";")
	end := strings.LastIndexByte(part, '|')
	if end < 0 {
		return "", false, rest
	}
	p.read = 0
	for more := part[end+1:]; ; {
		number, after, found := strings.Cut(more, ",")
		amount, err := strconv.ParseInt(number, 10, 64)
		if err != nil || amount < 0 || p.read == mostAmounts {
			return "", false, rest
		}
		p.numbers[p.read] = amount
		p.read++
		if more = after; !found {
			return prices.Machine(part[:end]), p.read >= firstResource, rest
		}
	}
}

// Cost is what the requests of jobs cost, as far as a price is known.
type Cost struct {
	Amount float64
	// run are the seconds of all jobs, and priced of those that Amount is of.
	run, priced float64
}

// Hours are those of all jobs.
func (c *Cost) Hours() float64 { return c.run / float64(period.Hour) }

// UnpricedHours are the hours of jobs whose cost is not known.
func (c *Cost) UnpricedHours() float64 { return max(0, c.run-c.priced) / float64(period.Hour) }

// Plus adds costs.
func (c *Cost) Plus(more *Cost) {
	c.Amount, c.run, c.priced = c.Amount+more.Amount, c.run+more.run, c.priced+more.priced
}

// Compare orders costs and, where they are the same, the times that jobs ran: the largest first.
func (c *Cost) Compare(other *Cost) int {
	return cmp.Or(cmp.Compare(other.Amount, c.Amount), cmp.Compare(other.run, c.run))
}

// add adds amounts at the price of their machine.
func (c *Cost) add(of amounts, price *prices.Price) {
	c.run += float64(of[ofRun])
	if price == nil {
		return
	}
	c.priced += float64(of[ofRun])
	c.Amount += float64(of[ofCPU])/1000/float64(period.Hour)*price.CPUHour +
		float64(of[ofMemory])/1024/float64(period.Hour)*price.GiBHour
	for i, each := range price.Resources {
		if firstResource+i < len(of) {
			c.Amount += float64(of[firstResource+i]) / float64(period.Hour) * each
		}
	}
}

// CostColumns returns the columns of a CostRow; without rules it doesn't matter on which machines jobs ran.
func CostColumns(rules prices.Rules) string {
	if len(rules) == 0 {
		return "run_seconds, cpu_requested, memory_requested, ''"
	}
	return MachineColumns
}

// MachineColumns are those of a CostRow with its machines, whatever the rules are.
const MachineColumns = "run_seconds, cpu_requested, memory_requested, machine_amounts"

// CostRow has what costs are made of in the form that the database has.
type CostRow struct {
	run, cpu, memory int64
	machines         string
	parsed           parsed
}

// Columns returns the columns of a row, in the order of CostColumns.
func (r *CostRow) Columns() []any { return []any{&r.run, &r.cpu, &r.memory, &r.machines} }

// Add adds the costs of a row.
func (c *Cost) Add(row *CostRow, at *prices.Lookup) {
	row.Each(at, func(_ prices.Machine, price *prices.Price, of amounts) { c.add(of, price) })
}

// Each calls do with each machine of a row, its price, which is nil if it is unknown, and what was requested there.
func (r *CostRow) Each(at *prices.Lookup, do func(prices.Machine, *prices.Price, amounts)) {
	rest := [firstResource]int64{r.run, r.cpu, r.memory}
	for text := r.machines; text != ""; {
		var machine prices.Machine
		var right bool
		if machine, right, text = r.parsed.next(text); right {
			do(machine, at.Of(machine), r.parsed.amounts())
			amounts(rest[:]).minus(r.parsed.amounts())
		}
	}
	do(prices.Unknown, at.Of(prices.Unknown), rest[:])
}

// Machines are the costs on each kind of machine.
type Machines map[prices.Machine]*Cost

// Add adds the costs of a row.
func (m Machines) Add(row *CostRow, at *prices.Lookup) {
	row.Each(at, func(machine prices.Machine, price *prices.Price, of amounts) {
		if of[ofRun] == 0 {
			return
		}
		cost := m[machine]
		if cost == nil {
			cost = &Cost{}
			m[prices.Machine(strings.Clone(string(machine)))] = cost
		}
		cost.add(of, price)
	})
}

// Rows returns a row for each, those without a price first, and of these the one with most hours.
func (m Machines) Rows() []rows.Machine {
	all := []rows.Machine{}
	for machine, cost := range m {
		labels, resources := machine.Parts()
		all = append(all, rows.Machine{NodeLabels: labels, ExtendedResources: resources, RunHours: cost.Hours(),
			Priced: cost.priced > 0, Cost: cost.Amount})
	}
	slices.SortFunc(all, func(a, b rows.Machine) int {
		priced := cmp.Compare(b.RunHours, a.RunHours)
		if a.Priced != b.Priced {
			priced = 1
			if b.Priced {
				priced = -1
			}
		}
		return cmp.Or(priced, cmp.Compare(a.NodeLabels+"|"+a.ExtendedResources, b.NodeLabels+"|"+b.ExtendedResources))
	})
	return all
}

func (a amounts) minus(less amounts) {
	for i := range a {
		a[i] = max(0, a[i]-less[i])
	}
}

// each calls do with the amounts on each machine, and with what is left for unknown ones.
func (s *Sums) each(do func(prices.Machine, amounts)) {
	rest := amounts{s.runSeconds, s.cpuRequested, s.memoryRequested}
	for _, machine := range s.machines.sorted() {
		do(machine, s.machines[machine])
		rest.minus(s.machines[machine])
	}
	do(prices.Unknown, rest)
}

// Cost is that of the requests.
func (s *Sums) Cost(at *prices.Lookup) Cost {
	var cost Cost
	s.each(func(machine prices.Machine, of amounts) { cost.add(of, at.Of(machine)) })
	return cost
}
