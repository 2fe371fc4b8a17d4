// Package top shows scale sets and what limits each, live: two watches fill a view, and on a clock's tick the view
// becomes a table.
//
//	watch (sets, runner sets) ─▶ view ─▶ rows, jobs that wait (pure) ─▶ tables (pure) ─▶ screen, lines or JSON
package top

import (
	"cmp"
	"slices"
	"strings"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/meaning"
	"github.com/harrier-ci/harrier/internal/output"
	"github.com/harrier-ci/harrier/operations/doctor/diagnosis"
	"github.com/harrier-ci/harrier/operations/doctor/snapshot"
)

// Row is a scale set in one line.
type Row struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Runners with a job, without one, not up yet, and failed.
	Busy    int `json:"busyRunners"`
	Idle    int `json:"idleRunners"`
	Pending int `json:"pendingRunners"`
	Failed  int `json:"failedRunners"`
	// Jobs are those that GitHub has assigned to the set. Waiting are those of them that no runner has, and those that
	// GitHub keeps because the set has no room, which nobody here knows by name.
	Jobs    int `json:"assignedJobs"`
	Waiting int `json:"waitingJobs"`
	// Min and Max are the numbers in force. Max is nil if there is no limit.
	Min int  `json:"minRunners"`
	Max *int `json:"maxRunners,omitempty"`
	// Why says in few words what keeps the set from running more jobs, or that its runner version ends; empty if nothing
	// does. Reason, Message and Fix are the doctor's.
	Why     string `json:"why"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Fix     string `json:"fix,omitempty"`
}

// rowOf returns the row of a set with its runner sets, the one in use first.
func rowOf(set *v1alpha1.AutoscalingRunnerSet) Row {
	status := &set.Status
	row := Row{
		Namespace: set.Namespace, Name: set.Name, Busy: status.BusyRunners, Idle: status.IdleRunners,
		Pending: status.PendingEphemeralRunners,
		Failed:  status.FailedEphemeralRunners, Jobs: status.AssignedJobs,
		Waiting: max(0, status.AssignedJobs-status.BusyRunners) + max(0, status.AvailableJobs),
		Min:     status.EffectiveMinRunners, Max: status.EffectiveMaxRunners,
	}
	seen := &snapshot.Set{AutoscalingRunnerSet: *set}
	if found := cmp.Or(diagnosis.Foremost(seen), diagnosis.Expiring(seen)); found != nil {
		row.Reason, row.Message, row.Fix = found.Reason, found.Message, found.Fix
		row.Why = meaning.For(found.Reason).InFewWords()
	}
	if len(status.ActiveSchedules) > 0 && row.Why == "" {
		row.Why = "schedule " + strings.Join(status.ActiveSchedules, ", ")
	}
	row.Why = output.Clean(row.Why)
	return row
}

// Orders are the values of --sort-by.
var Orders = []string{"name", "busy", "jobs", "waiting"}

// sorted puts rows into an order; the greatest number comes first, and names decide what is left.
func sorted(rows []Row, order string) {
	number := func(r *Row) int {
		switch order {
		case "busy":
			return r.Busy
		case "jobs":
			return r.Jobs
		case "waiting":
			return r.Waiting
		}
		return 0
	}
	slices.SortFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(number(&b), number(&a)), cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Name, b.Name))
	})
}
