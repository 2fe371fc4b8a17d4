// Package doctor answers "why is my job queued?". It reads the state of scale sets from the cluster, changes nothing
// (access reviews are not stored), sends nothing to GitHub, and lists what it finds: the most likely cause first, each
// with what to do about it:
//
//	snapshot.Gather (API server) ─▶ Snapshot ─▶ diagnosis.Diagnose (pure) ─▶ findings ─▶ Report: text or JSON
//
// It runs wherever there is a kubeconfig, or in the manager's pod. It skips what the caller may not read, and says so.
package doctor

import (
	"context"
	"fmt"
	"io"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/output"
	"github.com/harrier-ci/harrier/operations/doctor/diagnosis"
	"github.com/harrier-ci/harrier/operations/doctor/snapshot"
	"github.com/harrier-ci/harrier/operations/finding"
)

// Options select the scale sets to check, and the form of the report.
type Options struct {
	// Namespace and Name select scale sets; empty means all.
	Namespace, Name string
	// Output is "text" or "json".
	Output string
}

// Run gathers, diagnoses and writes the report. It fails with finding.ErrProblems if it found a Problem, or
// with the reason why the check could not run.
func Run(ctx context.Context, cluster snapshot.Cluster, options Options, to io.Writer) error {
	s, err := snapshot.Gather(ctx, cluster, options.Namespace, options.Name)
	if err != nil {
		return err
	}
	report := Report{Managers: []Manager{}, Sets: summaries(s), Findings: diagnosis.Diagnose(s)}
	for i := range s.Managers {
		m := &s.Managers[i]
		report.Managers = append(report.Managers,
			Manager{m.Namespace, m.Name, m.Labels[v1alpha1.LabelVersion], m.Status.AvailableReplicas})
	}
	if err := report.write(to, options.Output); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if len(report.Findings) > 0 && report.Findings[0].Severity == finding.Problem {
		return finding.ErrProblems
	}
	return nil
}

// write renders the report as "json" or as text for people.
func (r *Report) write(to io.Writer, format string) error {
	if r.Findings == nil {
		r.Findings = []finding.Finding{} // an empty list, not null
	}
	if format == "json" {
		return output.WriteJSON(to, r, true)
	}
	_, err := io.WriteString(to, r.text())
	return err
}
