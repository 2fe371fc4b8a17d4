package placing

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/placement"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// announcing is the action of the Events.
const announcing = "AnnounceCapacity"

// Condition says why GitHub is told of less room than the set may have runners, if it is.
func (o *Outcome) Condition() metav1.Condition {
	const conditionType = v1alpha1.ConditionCapacityLimited
	if o.Announced >= o.most {
		return report.False(conditionType, "AllAnnounced",
			"GitHub is told of room for as many jobs as the set may have runners")
	}
	return report.True(conditionType, o.reason(), o.numbers()+o.why())
}

// reason returns the condition's reason.
func (o *Outcome) reason() string {
	switch o.Cause {
	case placement.RunnersFail:
		return v1alpha1.ReasonRunnersFail
	case placement.PodsRefused:
		return o.refusal
	case placement.PodsWait:
		return v1alpha1.ReasonPodsUnschedulable
	default:
		return v1alpha1.ReasonCapacityUnproven
	}
}

// numbers says what was seen and decided.
func (o *Outcome) numbers() string {
	var text strings.Builder
	fmt.Fprintf(&text, "GitHub is told of room for %s", counted(o.Announced, "job"))
	if o.most < v1alpha1.MaxRunnersUnlimited {
		fmt.Fprintf(&text, ", of the %d that the set may have at a time", o.most)
	}
	fmt.Fprintf(&text, ": %s on nodes, %d waiting for one", counted(o.Placed, "runner pod"), o.Waiting)
	if o.Stuck > 0 {
		fmt.Fprintf(&text, ", %d more that younger ones have overtaken", o.Stuck)
	}
	fmt.Fprintf(&text, "; the cluster has held %d at a time", o.Mark)
	return text.String()
}

// why says what keeps the number low, and whose step is next.
func (o *Outcome) why() string {
	switch o.Cause {
	case placement.RunnersFail:
		return "; runners fail before they get a job: Degraded or RunnerOutdated says why, and what to correct"
	case placement.PodsRefused:
		if o.refusal == v1alpha1.ReasonQuotaExceeded {
			return "; pods are refused: the condition QuotaExceeded says by what. The number rises by itself when " +
				"there is room"
		}
		return "; runners wait for a claim: the condition VolumeClaimsReady says why. The number rises by " +
			"itself when they have one"
	case placement.PodsWait:
		text := "; the number rises by itself when pods find nodes: add nodes if there are to be more"
		if !o.ProbeAt.IsZero() {
			text += ". One more job is tried at " + o.ProbeAt.UTC().Format(time.RFC3339)
		}
		if o.oldest != "" {
			text += ". The oldest pod waits: " + o.oldest
		}
		return text
	default:
		return "; no pod waits, and the number rises by itself as pods find nodes"
	}
}

// counted returns the words for a number of things.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Event returns the Event about a cluster that from now on places nothing more, or places pods again; false if neither
// is news.
func (o *Outcome) Event() (report.Event, bool) {
	switch {
	case o.Began && o.refusal != "":
		return report.Warning(o.refusal, announcing, o.numbers()+o.why()), true
	case o.Began:
		return report.Warning(v1alpha1.ReasonPodsUnschedulable, announcing, o.numbers()+o.why()), true
	case o.Ended:
		return report.Normal("PodsPlaced", announcing, o.numbers()+"; none is too late any more"), true
	}
	return report.Event{}, false
}
