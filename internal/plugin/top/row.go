// Package top shows scale sets and what limits each, live: two watches fill a view, and on a clock's tick the view
// becomes a table.
//
//	watch (sets, runner sets) ─▶ view ─▶ rows (pure) ─▶ table (pure) ─▶ screen, lines or JSON
package top

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/doctor/diagnosis"
	"github.com/harrier-ci/harrier/internal/doctor/snapshot"
	"github.com/harrier-ci/harrier/internal/output"
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
	// Jobs are those that GitHub has assigned to the set, and Waiting those of them that no runner has.
	Jobs    int `json:"assignedJobs"`
	Waiting int `json:"waitingJobs"`
	// Min and Max are the numbers in force. Max is nil if there is no limit.
	Min int  `json:"minRunners"`
	Max *int `json:"maxRunners,omitempty"`
	// Why says in few words what keeps the set from running more jobs, empty if nothing does. Reason, Message and Fix
	// are the doctor's.
	Why     string `json:"why"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Fix     string `json:"fix,omitempty"`
}

// rowOf returns the row of a set with its runner sets, the one in use first.
func rowOf(set *v1alpha1.AutoscalingRunnerSet, runnerSets []v1alpha1.EphemeralRunnerSet) Row {
	status := &set.Status
	row := Row{
		Namespace: set.Namespace, Name: set.Name, Busy: status.BusyRunners, Idle: status.IdleRunners,
		Pending: status.PendingEphemeralRunners,
		Failed:  status.FailedEphemeralRunners, Jobs: status.AssignedJobs,
		Waiting: max(0, status.AssignedJobs-status.BusyRunners),
		Min:     status.EffectiveMinRunners, Max: status.EffectiveMaxRunners,
	}
	if found := diagnosis.Foremost(&snapshot.Set{AutoscalingRunnerSet: *set, RunnerSets: runnerSets}); found != nil {
		row.Reason, row.Message, row.Fix = found.Reason, found.Message, found.Fix
		row.Why = inFewWords(found.Reason)
	}
	if len(status.ActiveSchedules) > 0 && row.Why == "" {
		row.Why = "schedule " + strings.Join(status.ActiveSchedules, ", ")
	}
	row.Why = output.Clean(row.Why)
	return row
}

// fewWords are for reasons whose name says too little, or too much for a column.
var fewWords = map[string]string{
	v1alpha1.ReasonMaxRunnersReached: "at maxRunners",
	v1alpha1.ReasonMaxRunnersZero:    "maxRunners is 0",
	v1alpha1.ReasonQuotaExceeded:     "quota used up",
	v1alpha1.ReasonPodsForbidden:     "quota used up",
	"QuotaUsedUp":                    "quota used up",
	"Unschedulable":                  "no node with room",
	"SchedulingGated":                "waits for a gate",
	"ImagePullBackOff":               "image can't be pulled",
	"ErrImagePull":                   "image can't be pulled",
	"InvalidImageName":               "image name is wrong",
	v1alpha1.ReasonVersionEndsSoon:   "runner version ends soon",
	v1alpha1.ReasonVersionRefused:    "runner version refused",
	v1alpha1.ReasonGitHubUnavailable: "GitHub is away",
	v1alpha1.ReasonRateLimited:       "GitHub's rate limit",
	"NotReconciled":                  "no manager acts",
	v1alpha1.ReasonStartsLimited:     "maxStartsPerMinute",
	"RunnerVersionRefused":           "runner too old",
}

// inFewWords returns the meaning of a reason: its own words if it needs no others.
func inFewWords(reason string) string {
	if words, known := fewWords[reason]; known {
		return words
	}
	var words strings.Builder
	for i, r := range []rune(reason) {
		if i > 0 && unicode.IsUpper(r) && unicode.IsLower([]rune(reason)[i-1]) {
			words.WriteByte(' ')
		}
		words.WriteRune(r)
	}
	return cmp.Or(strings.ToLower(words.String()), "-")
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
