// Package diagnosis finds in a snapshot of a cluster what may keep jobs from running. It is pure: a check is a function
// of a scale set and what belongs to it.
package diagnosis

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/meaning"
	"github.com/harrier-ci/harrier/operations/doctor/snapshot"
	"github.com/harrier-ci/harrier/operations/finding"
)

// namedObjects limits the objects that a finding names.
const namedObjects = 10

// set is a scale set that is checked.
type set struct {
	*snapshot.Set
	// templateAnnotates: the manager leaves the annotations of node autoscalers to templates.
	templateAnnotates bool
}

// finding returns a finding about the set.
func (s set) finding(severity finding.Severity, reason, message, fix string) finding.Finding {
	return finding.Finding{
		Severity: severity,
		Object:   "AutoscalingRunnerSet " + s.Namespace + "/" + s.Name,
		Reason:   reason,
		Message:  message,
		Fix:      fix,
	}
}

// condition returns a condition of the set if it has the status.
func (s set) condition(about string, status metav1.ConditionStatus) *metav1.Condition {
	if c := meta.FindStatusCondition(s.Status.Conditions, about); c != nil && c.Status == status {
		return c
	}
	return nil
}

// fromCondition returns a condition as a finding, or none if it is nil.
func (s set) fromCondition(severity finding.Severity, c *metav1.Condition) []finding.Finding {
	if c == nil {
		return nil
	}
	message := strings.TrimSuffix(c.Message, meaning.For(c.Reason).Next()) // the fix says it
	if message == "" {
		message = fmt.Sprintf("condition %s is %s", c.Type, c.Status)
	}
	fix := meaning.OfCondition(c.Type, c.Reason)
	if c.Type == v1alpha1.ConditionDegraded && fix == meaning.OfRunner(c.Reason) {
		fix = s.fixOfRunner(c.Reason)
	}
	return []finding.Finding{s.finding(severity, c.Reason, message, fix)}
}

// tally counts objects with the same reason, and keeps one as an example.
type tally struct {
	count            int
	example, message string
}

// add counts an object under a reason.
func add(tallies map[string]*tally, reason, name, message string) {
	if tallies[reason] == nil {
		tallies[reason] = &tally{example: name, message: message}
	}
	tallies[reason].count++
}
