// Command shape measures how packages are cut into files, and holds each to its limits: a room that needs more than ten
// files, or files that all use each other, can't be read from top to bottom. make lint runs it.
//
//	go run ./hack/shape [-list] [-o json] [DIRECTORY …]
//
// It reads syntax only, no types: a method counts as used wherever its name is, so that names which several types share
// give arrows too many. The limits are for comparing a tree with itself.
//
// Exit codes: 0 every package is within its limits, 1 one is not, 2 it could not be measured.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
)

// Exit codes.
const (
	exitExceeded = 1
	exitFailed   = 2
)

func main() {
	flags := flag.NewFlagSet("shape", flag.ExitOnError) // -h exits with 0, wrong use with 2
	list := flags.Bool("list", false, "list the functions that are used a single time, in another file than their own")
	output := flags.String("o", "table", "output: table or json")
	flags.Usage = func() {
		fmt.Fprintf(flags.Output(), "usage: shape [-list] [-o table|json] [DIRECTORY …]\n\nMeasures the "+
			"packages below the directories, %v by default.\n\n", judged)
		flags.PrintDefaults()
	}
	_ = flags.Parse(os.Args[1:])
	roots := flags.Args()
	if len(roots) == 0 {
		roots = judged
	}
	packages, err := measureAll(roots)
	if err == nil {
		err = write(os.Stdout, *output, *list, packages)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "shape:", err)
		os.Exit(exitFailed)
	}
	exceeded := false
	for _, p := range packages {
		for _, what := range p.beyond(limitsOf(p.Directory)) {
			fmt.Fprintf(os.Stderr, "shape: %s %s\n", p.Directory, what)
			exceeded = true
		}
	}
	if exceeded {
		os.Exit(exitExceeded)
	}
}

func write(out io.Writer, format string, list bool, packages []measured) error {
	switch format {
	case "json":
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(packages)
	case "table":
	default:
		return fmt.Errorf("-o %s: want table or json", format)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PACKAGE\tFILES\tLINES\tARROWS\tPER FILE\tFRAGMENTS")
	for _, p := range packages {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%.1f\t%d\n", p.Directory, p.Files, p.Lines, p.Arrows, p.arrowsPerFile(),
			len(p.Fragments))
	}
	if err := table.Flush(); err != nil || !list {
		return err
	}
	for _, p := range packages {
		for _, f := range p.Fragments {
			if _, err := fmt.Fprintf(out, "%s/%s: %s, %d lines, used in %s\n", p.Directory, f.File, f.Name, f.Lines,
				f.UsedIn); err != nil {
				return err
			}
		}
	}
	return nil
}
