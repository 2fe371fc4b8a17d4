// Command valuesdoc writes docs/values-<chart>.md: a reference of all values of a chart, made from its values.yaml
// (order, defaults, examples) and its values.schema.json (types, meaning, keys that values.yaml doesn't show).
// hack/generate.sh runs it in the project's root:
//
//	go run ./hack/valuesdoc
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// charts are in the order in which users install them.
var charts = []string{"gha-runner-scale-set-controller", "gha-runner-scale-set"}

func main() {
	for _, chart := range charts {
		if err := document(filepath.Join("charts", chart), filepath.Join("docs", "values-"+chart+".md")); err != nil {
			fmt.Fprintf(os.Stderr, "valuesdoc: %s: %v\n", chart, err)
			os.Exit(1)
		}
	}
}

// document writes the reference of the chart in the directory to the target.
func document(directory, target string) error {
	values, err := os.ReadFile(filepath.Join(directory, "values.yaml"))
	if err != nil {
		return err
	}
	schema, err := os.ReadFile(filepath.Join(directory, "values.schema.json"))
	if err != nil {
		return err
	}
	page, err := reference(filepath.Base(directory), values, schema)
	if err != nil {
		return err
	}
	return os.WriteFile(target, []byte(page), 0o644)
}
