// Command metricsdoc writes docs/metrics.md, the reference of metrics, to standard output. hack/generate.sh runs it.
package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/harrier-ci/harrier/hack/metricsdoc/catalog"
)

const head = `# Metrics

<!-- Written by hack/generate.sh from the code; don't edit. -->

What manager, listeners and [ledger](history.md) export. Metrics of jobs are shown with their default labels; [observability](observability.md)
says how to choose others. The manager also exports the metrics of controller-runtime, client-go and Go.
`

func main() {
	if err := write(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(output io.Writer) error {
	text := &strings.Builder{}
	text.WriteString(head)
	source := ""
	for _, metric := range catalog.All() {
		if !metric.Own() {
			continue
		}
		if metric.Source != source {
			source = metric.Source
			fmt.Fprintf(text, "\n## Of the %s\n\n| name | type | labels | what |\n|---|---|---|---|\n", source)
		}
		fmt.Fprintf(text, "| `%s` | %s | %s | %s |\n", metric.Name, metric.Type(), strings.Join(metric.Labels, ", "),
			metric.Help)
	}
	_, err := io.WriteString(output, text.String())
	return err
}
