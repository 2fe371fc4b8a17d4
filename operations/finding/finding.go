// Package finding has the form in which the doctor and its checks of values tell what is wrong with an object, and what
// to do about it.
package finding

import (
	"errors"
	"fmt"
	"strings"
)

// Severity is the meaning of a finding for jobs.
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

// ErrProblems says that a Problem was found: something keeps jobs from running, or would.
var ErrProblems = errors.New("problems were found")

// Counted returns a number with its noun.
func Counted(count int, one, more string) string {
	if count == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", count, more)
}

// Listed returns the first names of a list, at most that many, and the number of the others.
func Listed(names []string, most int) string {
	text := strings.Join(names[:min(most, len(names))], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
