// Package dashboards reads the Grafana dashboards of the controller's chart, for tests that check them against metrics and a real
// Prometheus, and for the pictures of them in docs/ (package picture). It supports the part of Grafana's format that these
// dashboards use.
package dashboards

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Board is one dashboard.
type Board struct {
	// Name is that of the file, without its extension.
	Name                    string `json:"-"`
	UID, Title, Description string
	Panels                  []Panel
	Templating              struct {
		List []Variable
	}
}

// Variable is what a user can choose at the top of a dashboard.
type Variable struct {
	Name, Type string
	Query      any
}

// Panel is one figure or graph.
type Panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ X, Y, W, H int } // of 24 columns
	FieldConfig              struct {
		Defaults  Field
		Overrides []Override
	}
	Targets []Target
}

// Override changes how one series, given by its name, is shown. Only its color is supported.
type Override struct {
	Matcher    struct{ Options string }
	Properties []struct {
		Value struct{ FixedColor string }
	}
}

// Color returns the name of the color that the panel gives a series, empty if it gives none.
func (p *Panel) Color(series string) string {
	for _, override := range p.FieldConfig.Overrides {
		if override.Matcher.Options == series && len(override.Properties) > 0 {
			return override.Properties[0].Value.FixedColor
		}
	}
	return ""
}

// Field is how values are shown.
type Field struct {
	Unit       string
	Min        *float64
	Thresholds struct {
		Steps []struct {
			Color string
			Value *float64 // nil in the first step
		}
	}
	Mappings []struct {
		Options map[string]struct{ Text, Color string }
	}
}

// Target is one query and the name of the series that it finds, in which {{label}} stands for a label's value.
type Target struct{ Expr, LegendFormat string }

// Load reads all dashboards of a directory, sorted by name. It fails if there is none or one can't be read.
func Load(directory string) ([]Board, error) {
	files, err := filepath.Glob(filepath.Join(directory, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("list dashboards in %s: %w", directory, err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no dashboards in %s", directory)
	}
	slices.Sort(files)
	boards := make([]Board, len(files))
	for i, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(content, &boards[i]); err != nil {
			return nil, fmt.Errorf("read dashboard %s: %w", file, err)
		}
		boards[i].Name = strings.TrimSuffix(filepath.Base(file), ".json")
	}
	return boards, nil
}

var (
	variable    = regexp.MustCompile(`\$(\w+)`)
	placeholder = regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)
)

// Resolve replaces the variables of a query with their values, as Grafana does. A variable without a value stays.
func Resolve(expression string, variables map[string]string) string {
	return variable.ReplaceAllStringFunc(expression, func(found string) string {
		if value, ok := variables[found[1:]]; ok {
			return value
		}
		return found
	})
}

// Legend returns the name of a series with these labels.
func (t Target) Legend(labels map[string]string) string {
	return placeholder.ReplaceAllStringFunc(t.LegendFormat, func(found string) string {
		return labels[placeholder.FindStringSubmatch(found)[1]]
	})
}
