// Package remarks tells what has become of the fields of ARC's legacy objects: the value that each is now, or the reason
// for which there is none, the step instead, and whose step that is.
package remarks

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/harrier-ci/harrier/internal/output"
	"github.com/harrier-ci/harrier/operations/finding"
)

// Report is the answer to a conversion. It has names, labels and paths of fields, and no value of a variable.
type Report struct {
	Sets     []*Set    `json:"scaleSets"`
	Findings []Finding `json:"findings"`
}

// Set is a scale set to install, and what it was made from.
type Set struct {
	// Name is that of the scale set and of its Helm release. Namespace is empty if the object names none.
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
	// File has the values, empty if they are written to standard output.
	File string `json:"file,omitempty"`
	// From names the object as KIND NAMESPACE/NAME.
	From      string       `json:"from"`
	RunsOn    RunsOn       `json:"runsOn"`
	Converted []Conversion `json:"converted"`
}

// Header returns comments with the origin of the values, the new runs-on, and the command that installs them.
func (s *Set) Header() string {
	namespace := s.Namespace
	if namespace == "" {
		namespace = "NAMESPACE"
	}
	lines := []string{
		"Values of the chart gha-runner-scale-set, made by manager convert of " + s.From + ".",
		"runs-on: " + bracketed(s.RunsOn.Old) + " becomes runs-on: " + s.RunsOn.New,
		"helm install " + s.Name + " charts/gha-runner-scale-set --namespace " + namespace + " --values " + s.Name +
			".yaml",
	}
	var header strings.Builder
	for _, line := range lines {
		header.WriteString("# " + output.OneLine(line) + "\n")
	}
	return header.String()
}

// RunsOn has the labels that workflows write.
type RunsOn struct {
	// Old are the labels of the legacy runners, with those that GitHub gives them by itself: workflows ask for all of
	// these or some.
	Old []string `json:"old"`
	// New is the name of the scale set, which workflows may write instead of all labels.
	New string `json:"new"`
	// Labels are those that stay, for workflows that ask for several.
	Labels []string `json:"labels,omitempty"`
}

// Conversion is a field of the legacy object, and the value that it is now.
type Conversion struct {
	Field string `json:"field"`
	Value string `json:"value"`
}

// Who takes the next step.
const (
	Installer     = "whoever installs the scale set"
	Author        = "whoever writes the workflows"
	Builder       = "whoever builds the runner image"
	Administrator = "whoever administers the cluster"
)

// Finding names something that has not become a value as it stands. A Problem needs somebody's hand, a Warning
// somebody's look, an Info nothing.
type Finding struct {
	finding.Finding
	// Fields are the paths that it is about.
	Fields []string `json:"fields,omitempty"`
	// Whose names those who take the step in Fix.
	Whose string `json:"whose,omitempty"`
}

// Write writes the report in the format json, or else as text.
func (r *Report) Write(to io.Writer, format string) error {
	if r.Sets == nil {
		r.Sets = []*Set{} // empty lists, not null
	}
	if r.Findings == nil {
		r.Findings = []Finding{}
	}
	if format != "json" {
		_, err := io.WriteString(to, r.text())
		return err
	}
	return output.WriteJSON(to, r, true)
}

// NeedsHand reports whether somebody has to do something before the scale sets do what the legacy objects did.
func (r *Report) NeedsHand() bool { return r.count(finding.Problem) > 0 }

func (r *Report) count(severity finding.Severity) (found int) {
	for i := range r.Findings {
		if r.Findings[i].Severity == severity {
			found++
		}
	}
	return found
}

// Sort puts what needs a hand first, then what needs a look. Within these, the order of the input stays.
func (r *Report) Sort() {
	order := []finding.Severity{finding.Problem, finding.Warning, finding.Info}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return slices.Index(order, a.Severity) - slices.Index(order, b.Severity)
	})
}

// text returns the report for people. Whatever comes from the input stays on its line.
func (r *Report) text() string {
	var text strings.Builder
	for _, set := range r.Sets {
		line := fmt.Sprintf("%s is now the scale set %s", set.From, set.Name)
		if set.File != "" {
			line += ", values in " + set.File
		}
		fmt.Fprintln(&text, output.OneLine(line))
		for _, one := range set.Converted {
			fmt.Fprintln(&text, "   "+output.OneLine(one.Field+" -> "+one.Value))
		}
	}
	if len(r.Sets) > 0 {
		fmt.Fprintln(&text, "\nWhat workflows write after runs-on:")
	}
	for _, set := range r.Sets {
		line := fmt.Sprintf("   %s, or some of these -> %s", bracketed(set.RunsOn.Old), set.RunsOn.New)
		if len(set.RunsOn.Labels) > 0 {
			line += ", or labels among " + bracketed(set.RunsOn.Labels)
		}
		fmt.Fprintln(&text, output.OneLine(line))
	}
	for i := range r.Findings {
		fmt.Fprintf(&text, "\n%d. %s", i+1, r.Findings[i].text())
	}
	warnings := r.count(finding.Warning)
	switch {
	case r.NeedsHand():
	case warnings > 0:
		fmt.Fprintf(&text, "\nNothing has to be done by hand if the above (WARNING: %d) is as you want it; "+
			"warnings don't count for the exit code.\n", warnings)
	default:
		fmt.Fprintln(&text, "\nNothing is left to do by hand.")
	}
	return text.String()
}

// maxNamed limits the fields of a finding that the text names; the JSON has all.
const maxNamed = 12

func (f *Finding) text() string {
	text := strings.ToUpper(string(f.Severity)) + " " + f.Reason
	if f.Object != "" {
		text += " (" + output.OneLine(f.Object) + ")"
	}
	text += "\n"
	if len(f.Fields) > 0 {
		text += "   " + output.OneLine(finding.Listed(f.Fields, maxNamed)) + "\n"
	}
	text += "   " + output.OneLine(f.Message) + "\n"
	if f.Fix != "" {
		text += "   To do (" + f.Whose + "): " + output.OneLine(f.Fix) + "\n"
	}
	return text
}

func bracketed(labels []string) string { return "[" + strings.Join(labels, ", ") + "]" }
