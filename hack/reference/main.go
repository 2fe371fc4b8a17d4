// Command reference writes docs/crds.md, docs/flags.md, docs/reasons.md and docs/causes.md from the code: the fields of the four kinds
// from their CustomResourceDefinitions, conditions and reasons from the constants of the API package, flags from the
// programs' own usage, what is said about reasons from package meaning. hack/generate.sh runs it in the project's root:
//
//	go run ./hack/reference
package main

import (
	"fmt"
	"os"
	"strings"
)

func main() {
	for target, page := range map[string]func() (string, error){
		"docs/crds.md": resources, "docs/flags.md": flags, "docs/reasons.md": reasons, "docs/causes.md": causes,
	} {
		text, err := page()
		if err == nil {
			err = os.WriteFile(target, []byte(text), 0o644)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "reference: %s: %v\n", target, err)
			os.Exit(1)
		}
	}
}

// table appends a table to the page; cells are Markdown. A table without rows is left out.
func table(page *strings.Builder, head []string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(page, "\n| %s |\n%s|\n", strings.Join(head, " | "), strings.Repeat("|---", len(head)))
	for _, row := range rows {
		fmt.Fprintf(page, "| %s |\n", strings.Join(row, " | "))
	}
}

// code formats text as code, but leaves empty text empty.
func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

// cell turns a text into one line that a table can contain.
func cell(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}
