package report

import (
	"fmt"
	"slices"
	"strconv"

	"k8s.io/utils/ptr"

	"github.com/harrier-ci/harrier/internal/output"
	"github.com/harrier-ci/harrier/operations/finding"
	"github.com/harrier-ci/harrier/operations/plugin/ledger"
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
		figure("P95", "cpuAverageMillisP95", unknown, ledger.CPU, func(s *row) int64 {
			return ptr.Deref(s.CPUAverageMillis, 0)
		}),
		figure("MEMORY", "memoryRequestBytes", "none", ledger.Memory, func(s *row) int64 {
			return s.MemoryRequestBytes
		}),
		figure("P95", "peakMemoryBytesP95", unknown, ledger.Memory, func(s *row) int64 {
			return ptr.Deref(s.PeakMemoryBytes, 0)
		}),
		figure("FITS", "memoryFitBytes", unknown, ledger.Memory, func(s *row) int64 { return ptr.Deref(s.MemoryFitBytes, 0) }),
		count("", "shortOfMemory", func(s *row) int64 { return s.ShortOfMemory }),
		{"THROTTLED", "throttledPercentP95", false, throttled},
	}
	saving := column[row]{"SAVING", "saving", false, savings}
	elsewhere := count("", "elsewhere", func(s *row) int64 { return s.Elsewhere })
	if !slices.ContainsFunc(sizes, hasPrice) {
		saving.head = ""
	}
	return &table[ledger.Size]{columns: append(columns, saving, elsewhere), rows: sizes}
}

// figure is a column of numbers of which 0 stands for none, as people say it.
func figure(head, name, none string, shown func(int64) string, of func(*ledger.Size) int64) column[ledger.Size] {
	return column[ledger.Size]{head, name, false, func(s *ledger.Size) (string, string) {
		if of(s) == 0 {
			return orUnmeasured(s, none), ""
		}
		return shown(of(s)), strconv.FormatInt(of(s), 10)
	}}
}

const unknown = "unknown"

// orUnmeasured returns the word for a figure that is not known, and says so if that is because nothing measures the job.
func orUnmeasured(s *ledger.Size, word string) string {
	if word == unknown && s.Elsewhere > 0 {
		return "not measured"
	}
	return word
}

func throttled(s *ledger.Size) (text, value string) {
	if s.Measured == 0 || s.ThrottledPercent == nil {
		return orUnmeasured(s, unknown), ""
	}
	value = strconv.FormatInt(*s.ThrottledPercent, 10)
	return value + "%", value
}

func hasPrice(s ledger.Size) bool { return s.Saving != 0 }

func savings(s *ledger.Size) (text, value string) {
	if s.Measured == 0 {
		return orUnmeasured(s, unknown), ""
	}
	return strconv.FormatFloat(s.Saving, 'f', 2, 64), strconv.FormatFloat(s.Saving, 'g', -1, 64)
}

// sizeNotes returns what the table of sizes can't show: why something is unknown, and that it is for people to act.
func sizeNotes(sizes []ledger.Size) (notes []string) {
	var silent, elsewhere []string
	known := false
	for i := range sizes {
		if sizes[i].Elsewhere > 0 {
			elsewhere = append(elsewhere, output.Clean(sizes[i].Namespace+"/"+sizes[i].Set))
		} else if sizes[i].Measured == 0 {
			silent = append(silent, output.Clean(sizes[i].Namespace+"/"+sizes[i].Set))
		} else {
			known = true
		}
	}
	if len(elsewhere) > 0 {
		slices.Sort(elsewhere)
		notes = append(notes, fmt.Sprintf("Not measured: of runs in %s a part of the work is done by Docker, by pods of container "+
			"hooks or by other containers with requests. Only the runner's container is measured, so there is no advice.",
			finding.Listed(slices.Compact(elsewhere), 5)))
	}
	if len(silent) > 0 {
		slices.Sort(silent)
		silent = slices.Compact(silent)
		notes = append(notes, fmt.Sprintf("Unknown: runs in %s have left no figures. Whoever installs a scale set "+
			"gets them with feedback.jobLog: true; jobs in pods of their own (containerMode kubernetes) and lost jobs "+
			"leave none.",
			finding.Listed(silent, 5)))
	}
	if known && !slices.ContainsFunc(sizes, hasPrice) {
		notes = append(notes, "There are no savings, because no prices are set: history.prices of the "+
			"controller's chart.")
	}
	if known {
		notes = append(notes, "P95: of 100 runs 95 use no more, on average of CPU and at the peak of memory. "+
			"FITS is a request and limit of memory that none of these runs would have exceeded, 20 % above their largest peak; it is "+
			"unknown for less than 14 days or 20 runs, where a run is not measured, and where one was short of memory. "+
			"Nothing is changed here.")
	}
	return notes
}
