// Command shape measures how packages are cut into files, and holds each to its limits: files that all use each other
// can't be read from top to bottom. Controllers are measured with their rooms, too. make lint runs it.
//
//	go run ./hack/shape [-list] [-circles] [-figures] [-o json] [DIRECTORY …]
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
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

// Exit codes.
const (
	exitExceeded = 1
	exitFailed   = 2
)

// report is what is printed.
type report struct {
	Packages []measured `json:"packages"`
	// WithRooms are controllers, and others that were cut into rooms, each with all packages below it.
	WithRooms []measured `json:"withRooms"`
	Product   *figures   `json:"product,omitempty"`
}

func main() {
	flags := flag.NewFlagSet("shape", flag.ExitOnError) // -h exits with 0, wrong use with 2
	list := flags.Bool("list", false, "list the functions that are used a single time, in another file than their own")
	circles := flags.Bool("circles", false, "list arrows in circles of controllers with their rooms, and why")
	all := flags.Bool("figures", false, "measure the product as a whole, too: lines, dependencies, memory")
	output := flags.String("o", "table", "output: table or json")
	flags.Usage = func() {
		fmt.Fprintf(flags.Output(), "usage: shape [-list] [-circles] [-figures] [-o table|json] [DIRECTORY …]\n\nMeasures "+
			"the packages below the directories, %v by default.\n\n", judged)
		flags.PrintDefaults()
	}
	_ = flags.Parse(os.Args[1:])
	exceeded, err := run(flags.Args(), *output, *list, *circles, *all)
	if err != nil {
		fmt.Fprintln(os.Stderr, "shape:", err)
		os.Exit(exitFailed)
	}
	if exceeded {
		os.Exit(exitExceeded)
	}
}

func run(roots []string, output string, list, circles, all bool) (exceeded bool, err error) {
	measureWholes := len(roots) == 0
	if len(roots) == 0 {
		roots = judged
	}
	files, err := filesBelow(roots...)
	if err != nil {
		return false, err
	}
	var r report
	if r.Packages, err = measurePackages(files); err != nil {
		return false, err
	}
	if measureWholes {
		if r.WithRooms, err = measureControllers(); err != nil {
			return false, err
		}
	}
	if all {
		product, err := measureProduct()
		if err != nil {
			return false, err
		}
		r.Product = &product
	}
	if err := write(os.Stdout, output, list, r); err != nil {
		return false, err
	}
	if circles {
		listCircles(r.WithRooms)
	}
	lines, err := fileLines(roots...)
	if err != nil {
		return false, err
	}
	for _, warning := range warnings(r.Packages, r.WithRooms, lines) {
		fmt.Fprintln(os.Stderr, "shape: warning:", warning)
	}
	for _, p := range r.Packages {
		for _, what := range p.beyond(limitsOf(p.Directory)) {
			fmt.Fprintf(os.Stderr, "shape: %s %s\n", p.Directory, what)
			exceeded = true
		}
	}
	return exceeded, nil
}

// measureControllers measures each controller with its rooms, without fakes for tests.
func measureControllers() (controllers []measured, err error) {
	for _, root := range wholes {
		files, err := filesBelow(root)
		if err != nil {
			return nil, err
		}
		maps.DeleteFunc(files, func(directory string, _ []string) bool { return strings.HasSuffix(directory, "test") })
		whole, err := measure(root, files)
		if err != nil {
			return nil, err
		}
		controllers = append(controllers, whole)
	}
	return controllers, nil
}

// listCircles prints the arrows that lie in circles.
func listCircles(controllers []measured) {
	for i := range controllers {
		for _, arrow := range controllers[i].InCircles {
			fmt.Println(arrow)
		}
	}
}

func write(out io.Writer, format string, list bool, r report) error {
	switch format {
	case "json":
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	case "table":
	default:
		return fmt.Errorf("-o %s: want table or json", format)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, part := range []struct {
		title string
		rows  []measured
	}{{"PACKAGE", r.Packages}, {"WITH ITS ROOMS", r.WithRooms}} {
		if len(part.rows) == 0 {
			continue
		}
		fmt.Fprintln(table, part.title+"\tFILES\tLINES\tARROWS\tPER FILE\tIN CIRCLES\tFRAGMENTS")
		for _, m := range part.rows {
			fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%.1f\t%d\t%d\n", m.Directory, m.Files, m.Lines, m.Arrows,
				m.arrowsPerFile(), m.Circles, len(m.Fragments))
		}
	}
	if r.Product != nil {
		fmt.Fprintf(table, "code lines of the product\t%d\n", r.Product.CodeLines)
		fmt.Fprintf(table, "code lines of its core\t%d\n", r.Product.CoreCodeLines)
		fmt.Fprintf(table, "fields that are remembered of a runner set\t%d\n", r.Product.MemoryFields)
		for _, name := range slices.Sorted(maps.Keys(r.Product.Dependencies)) {
			fmt.Fprintf(table, "direct dependencies of module %s\t%d\n", name, r.Product.Dependencies[name])
		}
	}
	if err := table.Flush(); err != nil || !list {
		return err
	}
	for _, p := range r.Packages {
		for _, f := range p.Fragments {
			if _, err := fmt.Fprintf(out, "%s/%s: %s, %d lines, used in %s\n", p.Directory, f.File, f.Name, f.Lines,
				f.UsedIn); err != nil {
				return err
			}
		}
	}
	return nil
}
