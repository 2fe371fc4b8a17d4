// Package doctor answers "why is my job queued?". It reads what the cluster shows of scale sets, writes nothing (an access
// review is created and stored nowhere), asks GitHub nothing, and lists what it finds with the most likely cause first and
// what to do about each:
//
//	gather (API server) ─▶ Snapshot ─▶ Diagnose (pure) ─▶ []Finding ─▶ text or JSON
//
// It runs wherever a kubeconfig is, or in the manager's pod. What the caller may not read is left out and said to be.
// Validate, beside it, checks values and manifests before they are applied.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Severity says what a finding means for jobs.
type Severity string

// Severities, the worst first.
const (
	// Problem: jobs wait, or will, until somebody does something.
	Problem Severity = "problem"
	// Warning: some jobs wait, or something is not as it was meant.
	Warning Severity = "warning"
	// Info: worth knowing when nothing else explains it.
	Info Severity = "info"
)

// Finding is one possible reason.
type Finding struct {
	Severity Severity `json:"severity"`
	// Object is KIND NAMESPACE/NAME, or empty where it is about the cluster.
	Object string `json:"object,omitempty"`
	// Reason is one word that stays the same between versions; Message says what is the case and Fix what to do.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Fix     string `json:"fix,omitempty"`
}

// Options say what to look at and how to answer.
type Options struct {
	// Namespace and Name select scale sets; empty means all.
	Namespace, Name string
	// Output is "text" or "json".
	Output string
}

// ErrProblems says that jobs can't run as things are. It is what Run fails with when it has found a Problem.
var ErrProblems = errors.New("problems were found")

// Run gathers, diagnoses and writes the answer. It fails with ErrProblems, or with what kept it from looking.
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
