package report

import (
	"fmt"
	"slices"
	"strconv"

	"k8s.io/utils/ptr"

	"github.com/harrier-ci/harrier/internal/doctor/finding"
	"github.com/harrier-ci/harrier/internal/output"
	"github.com/harrier-ci/harrier/internal/plugin/ledger"
)

// sizeTable is the table of what jobs use of what they request.
func sizeTable(sizes []ledger.Size) *table[ledger.Size] {
	type row = ledger.Size
	plain := func(head, name string, of func(*row) string) column[row] { return named(head, name, of, of) }
	columns := []column[row]{
		plain("", "cluster", func(s *row) string { return s.Cluster }),
		plain("REPOSITORY", "repository", func(s *row) string { return s.Repository }),
		named("WORKFLOW", "workflow", func(s *row) string { return s.Workflow },
			func(s *row) string { return shortWorkflow(s.Repository, s.Workflow) }),
		plain("JOB", "name", func(s *row) string { return s.Name }),
		plain("", "namespace", func(s *row) string { return s.Namespace }),
		plain("SCALE SET", "set", func(s *row) string { return s.Set }),
		count("RUNS", "jobs", func(s *row) int64 { return s.Jobs }),
		count("KNOWN", "measured", func(s *row) int64 { return s.Measured }),
		amount("", "runHours", 1, func(s *row) float64 { return s.RunHours }),
		figure("CPU", "cpuRequestMillis", "none", ledger.CPU, func(s *row) int64 { return s.CPURequestMillis }),
		figure("P95", "cpuAverageMillisP95", "unknown", ledger.CPU, func(s *row) int64 {
			return ptr.Deref(s.CPUAverageMillisP95, 0)
		}),
		figure("MEMORY", "memoryRequestBytes", "none", ledger.Memory, func(s *row) int64 {
			return s.MemoryRequestBytes
		}),
		figure("P95", "peakMemoryBytesP95", "unknown", ledger.Memory, func(s *row) int64 {
			return ptr.Deref(s.PeakMemoryBytesP95, 0)
		}),
		{"THROTTLED", "throttledPercentP95", false, throttled},
	}
	saving := column[row]{"SAVING", "saving", false, savings}
	if !slices.ContainsFunc(sizes, hasPrice) {
		saving.head = ""
	}
	return &table[ledger.Size]{columns: append(columns, saving), rows: sizes}
}

// figure is a column of numbers of which 0 stands for none, as people say it.
func figure(head, name, none string, shown func(int64) string, of func(*ledger.Size) int64) column[ledger.Size] {
	return column[ledger.Size]{head, name, false, func(s *ledger.Size) (string, string) {
		if of(s) == 0 {
			return none, ""
		}
		return shown(of(s)), strconv.FormatInt(of(s), 10)
	}}
}

func throttled(s *ledger.Size) (text, value string) {
	if s.Measured == 0 || s.ThrottledPercentP95 == nil {
		return "unknown", ""
	}
	value = strconv.FormatInt(*s.ThrottledPercentP95, 10)
	return value + "%", value
}

func hasPrice(s ledger.Size) bool { return s.Saving != 0 }

func savings(s *ledger.Size) (text, value string) {
	if s.Measured == 0 {
		return "unknown", ""
	}
	return strconv.FormatFloat(s.Saving, 'f', 2, 64), strconv.FormatFloat(s.Saving, 'g', -1, 64)
}

// sizeNotes returns what the table of sizes can't show: why something is unknown, and that it is for people to act.
func sizeNotes(sizes []ledger.Size) (notes []string) {
	var unknown []string
	known := false
	for i := range sizes {
		if sizes[i].Measured == 0 {
			unknown = append(unknown, output.Clean(sizes[i].Namespace+"/"+sizes[i].Set))
		} else {
			known = true
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		unknown = slices.Compact(unknown)
		notes = append(notes, fmt.Sprintf("Unknown: runs in %s have left no figures. Whoever installs a scale set "+
			"gets them with feedback.jobLog: true; jobs in pods of their own (containerMode kubernetes) and lost jobs "+
			"leave none.",
			finding.Listed(unknown, 5)))
	}
	if known && !slices.ContainsFunc(sizes, hasPrice) {
		notes = append(notes, "There are no savings, because no prices are set: history.prices of the "+
			"controller's chart.")
	}
	if known {
		notes = append(notes, "P95: of 100 runs 95 use no more, on average of CPU and at the peak of memory. A "+
			"request as large as that fits; nothing is changed here.")
	}
	return notes
}
