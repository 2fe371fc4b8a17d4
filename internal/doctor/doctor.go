// Package doctor answers "why is my job queued?". It reads the state of scale sets from the cluster, changes nothing (access
// reviews are not stored), sends nothing to GitHub, and lists what it finds: the most likely cause first, each with what to do
// about it:
//
//	gather (API server) ─▶ Snapshot ─▶ Diagnose (pure) ─▶ []Finding ─▶ text or JSON
//
// It runs wherever there is a kubeconfig, or in the manager's pod. It skips what the caller may not read, and says so. Validate
// checks values and manifests before they are applied.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Severity says what a finding means for jobs.
type Severity string

// Severities, most severe first.
const (
	// Problem: jobs wait, or will, until somebody does something.
	Problem Severity = "problem"
	// Warning: some jobs wait, or something is not as intended.
	Warning Severity = "warning"
	// Info: worth knowing when nothing else explains it.
	Info Severity = "info"
)

// Finding is one possible reason.
type Finding struct {
	Severity Severity `json:"severity"`
	// Object is KIND NAMESPACE/NAME, or empty if the finding is about the cluster.
	Object string `json:"object,omitempty"`
	// Reason is one word that stays the same across versions. Message says what was found, and Fix what to do about it.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Fix     string `json:"fix,omitempty"`
}

// Options say what to check and how to report it.
type Options struct {
	// Namespace and Name select scale sets; empty means all.
	Namespace, Name string
	// Output is "text" or "json".
	Output string
}

// ErrProblems is returned by Run if it found a Problem: something keeps jobs from running.
var ErrProblems = errors.New("problems were found")

// Run gathers, diagnoses and writes the report. It fails with ErrProblems, or with the reason why the check could not run.
func Run(ctx context.Context, cluster Cluster, options Options, output io.Writer) error {
	snapshot, err := Gather(ctx, cluster, options.Namespace, options.Name)
	if err != nil {
		return err
	}
	report := Report{Managers: managers(snapshot), Sets: summaries(snapshot), Findings: Diagnose(snapshot)}
	if err := report.write(output, options.Output); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if len(report.Findings) > 0 && report.Findings[0].Severity == Problem {
		return ErrProblems
	}
	return nil
}
