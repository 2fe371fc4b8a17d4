package doctor

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/harrier-ci/harrier/internal/output"
	"github.com/harrier-ci/harrier/operations/doctor/snapshot"
	"github.com/harrier-ci/harrier/operations/finding"
)

// Report is the doctor's answer.
type Report struct {
	Managers []Manager         `json:"managers"`
	Sets     []Summary         `json:"scaleSets"`
	Findings []finding.Finding `json:"findings"`
}

// Manager is an installation of the controller's chart.
type Manager struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Version is the chart's version, from its label.
	Version string `json:"version,omitempty"`
	Ready   int32  `json:"readyPods"`
}

// Summary is a scale set in numbers.
type Summary struct {
	Namespace    string `json:"namespace"`
	Name         string `json:"name"`
	AssignedJobs int    `json:"assignedJobs"`
	Desired      int    `json:"desiredRunners"`
	Pending      int    `json:"pendingRunners"`
	Idle         int    `json:"idleRunners"`
	Busy         int    `json:"busyRunners"`
	Failed       int    `json:"failedRunners"`
	// JobPods counts the pods that container hooks have for running jobs.
	JobPods int `json:"jobPods,omitempty"`
	// Max is nil if there is no limit.
	Max      *int   `json:"maxRunners,omitempty"`
	Listener string `json:"listener,omitempty"`
}

// summaries returns the numbers of all sets.
func summaries(s *snapshot.Snapshot) []Summary {
	list := []Summary{}
	for i := range s.Sets {
		set := &s.Sets[i]
		status := &set.Status
		summary := Summary{
			Namespace: set.Namespace, Name: set.Name, AssignedJobs: status.AssignedJobs, Desired: status.DesiredRunners,
			Pending: status.PendingEphemeralRunners, Idle: status.IdleRunners, Busy: status.BusyRunners,
			Failed: status.FailedEphemeralRunners, JobPods: len(set.JobPods), Max: set.Spec.MaxRunners,
		}
		if current := set.RunnerSet(); current != nil && current.Status.Listener != nil {
			summary.Listener = string(current.Status.Listener.State)
		}
		list = append(list, summary)
	}
	return list
}

// text returns the report for people: a line for each manager, a table of the scale sets, and the numbered findings.
func (r *Report) text() string {
	var text strings.Builder
	for _, m := range r.Managers {
		fmt.Fprintf(&text, "Manager %s: version %s, %s\n", output.OneLine(m.Namespace+"/"+m.Name),
			output.OneLine(orUnknown(m.Version)), finding.Counted(int(m.Ready), "pod ready", "pods ready"))
	}
	if len(r.Sets) == 1 {
		text.WriteString(r.Sets[0].line())
	} else {
		text.WriteString(table(r.Sets))
	}
	for i, joined := range together(r.Findings) {
		fmt.Fprintf(&text, "\n%d. %s", i+1, joined)
	}
	if len(r.Findings) == 0 {
		text.WriteString("\nNothing is wrong.\n")
	}
	return text.String()
}

// most returns the limit in words.
func (s *Summary) most() string {
	if s.Max == nil {
		return "no limit"
	}
	return fmt.Sprintf("at most %d", *s.Max)
}

// line describes one set in words.
func (s *Summary) line() string {
	jobPods := ""
	if s.JobPods > 0 {
		jobPods = " " + finding.Counted(s.JobPods, "job pod,", "job pods,")
	}
	return fmt.Sprintf("%s: %s, %s (%s), %d pending, %d idle, %d busy, %d failed,%s listener %s\n",
		output.OneLine(s.Namespace+"/"+s.Name), finding.Counted(s.AssignedJobs, "job assigned", "jobs assigned"),
		finding.Counted(s.Desired, "runner wanted", "runners wanted"), s.most(),
		s.Pending, s.Idle, s.Busy, s.Failed, jobPods, output.OneLine(orUnknown(s.Listener)))
}

// table returns a line for each set, or "" if there are no sets.
func table(sets []Summary) string {
	if len(sets) == 0 {
		return ""
	}
	var text strings.Builder
	lines := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0) // writing to a strings.Builder never fails
	fmt.Fprintln(lines, "\nSCALE SET\tJOBS\tRUNNERS WANTED\tLIMIT\tPENDING\tIDLE\tBUSY\tFAILED\tLISTENER")
	for i := range sets {
		s := &sets[i]
		fmt.Fprintf(lines, "%s\t%d\t%d\t%s\t%d\t%d\t%d\t%d\t%s\n",
			output.OneLine(s.Namespace+"/"+s.Name), s.AssignedJobs, s.Desired, s.most(), s.Pending, s.Idle, s.Busy, s.Failed,
			output.OneLine(orUnknown(s.Listener)))
	}
	_ = lines.Flush()
	return text.String()
}

// shared is a finding that also applies to other objects.
type shared struct {
	finding.Finding
	others []string
}

// together joins findings that people would read as one: findings with the same text, and findings of severity Info
// with the same reason. Fifty idle scale sets are one thing to read about, not fifty. The JSON lists them one by one.
func together(findings []finding.Finding) (joined []shared) {
	first := map[finding.Finding]int{}
	for _, one := range findings {
		alike := one
		alike.Object = ""
		if one.Severity == finding.Info {
			alike.Message, alike.Fix = "", ""
		}
		at, known := first[alike]
		if !known {
			first[alike] = len(joined)
			joined = append(joined, shared{Finding: one})
			continue
		}
		joined[at].others = append(joined[at].others, one.Object)
	}
	return joined
}

// namedOthers limits a finding's other objects that are named.
const namedOthers = 10

// String returns the finding as text, starting with its severity.
func (s shared) String() string {
	text := strings.ToUpper(string(s.Severity)) + " " + s.Reason
	if s.Object != "" {
		text += " (" + s.Object + ")"
	}
	text = output.OneLine(text) + "\n   " + output.OneLine(s.Message) + "\n"
	if s.Fix != "" {
		text += "   To do: " + output.OneLine(s.Fix) + "\n"
	}
	if len(s.others) == 0 {
		return text
	}
	return text + "   The same applies to " + output.OneLine(finding.Listed(s.others, namedOthers)) + "\n"
}

func orUnknown(text string) string {
	if text == "" {
		return "unknown"
	}
	return text
}
