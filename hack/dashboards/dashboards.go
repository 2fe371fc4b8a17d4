// Package dashboards reads the Grafana dashboards of the controller's chart, for tests that check them against metrics
// and a real Prometheus. It reads the part of Grafana's format that these tests need.
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

// Variable is a choice at the top of a dashboard.
type Variable struct {
	Name, Type string
	Query      any
}

// Panel is one figure or graph.
type Panel struct {
	ID                 int
	Title, Description string
	Targets            []Target
}

// Target is one query.
type Target struct{ Expr string }

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

var variable = regexp.MustCompile(`\$(\w+)`)

// Resolve replaces the variables of a query with their values, as Grafana does. A variable without a value stays.
func Resolve(expression string, variables map[string]string) string {
	return variable.ReplaceAllStringFunc(expression, func(found string) string {
		if value, ok := variables[found[1:]]; ok {
			return value
		}
		return found
	})
}
