package prices

import (
	"fmt"
	"math"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

const (
	// An argument of a program has 128 KiB at most.
	longestList = 64 << 10
	mostRules   = 200
	mostLabels  = 8
	mostValues  = 100
	mostBudgets = 200
	// mostMoney is more than anybody has; sums stay finite.
	mostMoney = 1e12
)

// ParseError names the part of a list that can't be.
type ParseError struct{ Path, Want string }

func (e *ParseError) Error() string { return e.Path + " " + e.Want }

// Parse reads rules as JSON or YAML.
func Parse(text string) (Rules, error) {
	var rules Rules
	if err := read("prices", text, &rules); err != nil {
		return nil, err
	}
	if len(rules) > mostRules {
		return nil, &ParseError{"prices", fmt.Sprintf("has %d rules: it may have %d", len(rules), mostRules)}
	}
	for i := range rules {
		if err := rules[i].check(fmt.Sprintf("prices[%d]", i)); err != nil {
			return nil, err
		}
	}
	return rules, nil
}

func read(name, text string, into any) error {
	if len(text) > longestList {
		return &ParseError{name, fmt.Sprintf("has %d bytes: it may have %d", len(text), longestList)}
	}
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return nil
}

func (r *Rule) check(path string) error {
	if len(r.NodeLabels) > mostLabels || len(r.ResourceHours) > mostResources {
		return &ParseError{path, fmt.Sprintf("may name %d labels and %d resources", mostLabels, mostResources)}
	}
	for name, values := range r.NodeLabels {
		if err := checkLabel(path+".nodeLabels", name, values); err != nil {
			return err
		}
	}
	prices := map[string]float64{".cpuHour": r.CPUHour, ".gibHour": r.GiBHour}
	for name, price := range r.ResourceHours {
		if len(validation.IsQualifiedName(name)) > 0 || !IsExtended(name) {
			return &ParseError{path + ".resourceHours", fmt.Sprintf("has %q: it must be an extended resource, such as "+
				"nvidia.com/gpu; CPU and memory have cpuHour and gibHour", shown(name))}
		}
		prices[".resourceHours."+name] = price
	}
	for name, price := range prices {
		if !isMoney(price) {
			return &ParseError{path + name, wantMoney}
		}
	}
	if r.CPUHour == 0 && r.GiBHour == 0 && len(r.ResourceHours) == 0 {
		return &ParseError{path, "has no price: set cpuHour, gibHour or resourceHours"}
	}
	return nil
}

func checkLabel(path, name string, values Values) error {
	if wrong := validation.IsQualifiedName(name); len(wrong) > 0 {
		return &ParseError{path, fmt.Sprintf("has %q, which is no name of a label: %s", shown(name), wrong[0])}
	}
	if path += "." + name; len(values) == 0 || len(values) > mostValues {
		return &ParseError{path, fmt.Sprintf("needs 1 to %d values", mostValues)}
	}
	for _, value := range values {
		if wrong := validation.IsValidLabelValue(value); len(wrong) > 0 {
			return &ParseError{path, fmt.Sprintf("has %q, which is no value of a label: %s", shown(value), wrong[0])}
		}
	}
	return nil
}

const wantMoney = "must be a number from 0 to a million millions"

func isMoney(amount float64) bool { return !math.IsNaN(amount) && amount >= 0 && amount <= mostMoney }

// shown returns as much of a text as an error repeats.
func shown(text string) string {
	const most = 64
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
