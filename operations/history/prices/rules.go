// Package prices says what an hour of a job costs on the machine that it ran on, by the first rule that fits, and what
// budgets there are for a month. It is pure: rules come from the command line, machines from the rows of the ledger.
//
//	labels of a node, extended resources ─▶ text in the database ─▶ Machine ─▶ first Rule that fits, or nothing
package prices

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// Rule says what an hour costs of what a job requests, in a currency that only the user knows. It fits a job whose node has
// all of its labels, if it has a price for all extended resources of the job: a price that is missing is no price of 0.
type Rule struct {
	// NodeLabels has one of these values for each label; a rule without labels fits all nodes.
	NodeLabels map[string]Values `json:"nodeLabels,omitempty"`
	// CPUHour and GiBHour are the prices of a CPU and of a GiB of memory for an hour.
	CPUHour float64 `json:"cpuHour,omitempty"`
	GiBHour float64 `json:"gibHour,omitempty"`
	// ResourceHours are those of one of an extended resource, such as nvidia.com/gpu.
	ResourceHours map[string]float64 `json:"resourceHours,omitempty"`
}

// Rules are asked in their order.
type Rules []Rule

// Values are those that a label may have. In JSON they are a text, a list of texts, or true or false, as YAML has labels
// that nobody has put into quotes.
type Values []string

// UnmarshalJSON reads one value, or several.
func (v *Values) UnmarshalJSON(text []byte) error {
	var one string
	var is bool
	switch {
	case json.Unmarshal(text, &one) == nil:
		*v = Values{one}
	case json.Unmarshal(text, &is) == nil:
		*v = Values{strconv.FormatBool(is)}
	default:
		return json.Unmarshal(text, (*[]string)(v))
	}
	return nil
}

// fit is what is known of whether a rule fits a machine.
type fit int

const (
	fitsNot fit = iota
	// mayFit: it depends on a label that nobody has seen.
	mayFit
	fits
)

func (r *Rule) fits(machine *facts) fit {
	for _, resource := range machine.resources {
		if _, has := r.ResourceHours[resource]; !has {
			return fitsNot
		}
	}
	result := fits
	for name, values := range r.NodeLabels {
		switch value, has, known := machine.label(name); {
		case !known:
			result = mayFit
		case !has || !slices.Contains(values, value):
			return fitsNot
		}
	}
	return result
}

// label returns the value of a label, and whether the node has it; it is not known otherwise.
func (f *facts) label(name string) (value string, has, known bool) {
	value, has = f.labels[name]
	return value, has, has || f.lacks[name] || f.complete && slices.Contains(wellKnown, name)
}

// Price is what a rule says of a machine: Resources are the prices of its extended resources, in their order.
type Price struct {
	CPUHour, GiBHour float64
	Resources        []float64
}

// of returns the price on a machine: that of the first rule that fits, nil if none does, or if a rule before it might.
func (r Rules) of(machine Machine) *Price {
	known := machine.facts()
	for i := range r {
		switch rule := &r[i]; rule.fits(&known) {
		case mayFit:
			return nil
		case fits:
			price := &Price{CPUHour: rule.CPUHour, GiBHour: rule.GiBHour}
			for _, resource := range known.resources {
				price.Resources = append(price.Resources, rule.ResourceHours[resource])
			}
			return price
		}
	}
	return nil
}

// Requests are those of a job, with what the ledger keeps of its node.
type Requests struct {
	NodeLabels, NodeType, ExtendedResources string
	CPUs, GiB                               float64
}

// CostOf returns what requests cost for so many hours, nil if that is unknown.
func (r Rules) CostOf(of Requests, hours float64) *float64 {
	machine, amounts := MachineOf(of.NodeLabels, of.NodeType, of.ExtendedResources)
	price := r.of(machine)
	if price == nil {
		return nil
	}
	anHour := of.CPUs*price.CPUHour + of.GiB*price.GiBHour
	for i, each := range price.Resources {
		anHour += float64(amounts[i]) * each
	}
	return new(anHour * hours)
}

// Lookup remembers the prices of machines, for one question.
type Lookup struct {
	rules Rules
	known map[Machine]*Price
}

// NewLookup returns a lookup of rules.
func NewLookup(rules Rules) *Lookup { return &Lookup{rules: rules, known: map[Machine]*Price{}} }

// Of returns the price on a machine, nil if it is unknown.
func (l *Lookup) Of(machine Machine) *Price {
	price, known := l.known[machine]
	if !known {
		price = l.rules.of(machine)
		l.known[Machine(strings.Clone(string(machine)))] = price // or all of the text that it is a part of stays in memory
	}
	return price
}
