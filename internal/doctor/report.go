package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Report is the doctor's answer.
type Report struct {
	Sets     []Summary `json:"scaleSets"`
	Findings []Finding `json:"findings"`
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
	// Max is nil where there is no limit.
	Max      *int   `json:"maxRunners,omitempty"`
	Listener string `json:"listener,omitempty"`
}

func summaries(s *Snapshot) []Summary {
	list := []Summary{}
	for i := range s.Sets {
		set := &s.Sets[i]
		status := &set.Status
		summary := Summary{
			Namespace: set.Namespace, Name: set.Name, AssignedJobs: status.AssignedJobs, Desired: status.DesiredRunners,
			Pending: status.PendingEphemeralRunners, Idle: status.IdleRunners, Busy: status.BusyRunners,
			Failed: status.FailedEphemeralRunners, Max: set.Spec.MaxRunners,
		}
		if current := set.runnerSet(); current != nil && current.Status.Listener != nil {
			summary.Listener = string(current.Status.Listener.State)
		}
		list = append(list, summary)
	}
	return list
}

// write renders the report as "json" or as text for people.
func (r *Report) write(output io.Writer, format string) error {
	if r.Findings == nil {
		r.Findings = []Finding{} // an empty list, not null
	}
	if format == "json" {
		encoder := json.NewEncoder(output)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	}
	_, err := io.WriteString(output, r.text())
	return err
}

func (r *Report) text() string {
	var text strings.Builder
	for _, set := range r.Sets {
		most := "no limit"
		if set.Max != nil {
			most = fmt.Sprintf("at most %d", *set.Max)
		}
		fmt.Fprintf(&text, "%s/%s: %d jobs assigned, %d runners wanted (%s), %d pending, %d idle, %d busy, %d failed, listener %s\n",
			set.Namespace, set.Name, set.AssignedJobs, set.Desired, most, set.Pending, set.Idle, set.Busy, set.Failed, orUnknown(set.Listener))
	}
	for i, finding := range r.Findings {
		fmt.Fprintf(&text, "\n%d. %s %s", i+1, strings.ToUpper(string(finding.Severity)), finding.Reason)
		if finding.Object != "" {
			fmt.Fprintf(&text, " (%s)", finding.Object)
		}
		fmt.Fprintf(&text, "\n   %s\n", finding.Message)
		if finding.Fix != "" {
			fmt.Fprintf(&text, "   To do: %s\n", finding.Fix)
		}
	}
	if len(r.Findings) == 0 {
		text.WriteString("\nNothing is wrong.\n")
	}
	return text.String()
}

func orUnknown(text string) string {
	if text == "" {
		return "unknown"
	}
	return text
}
