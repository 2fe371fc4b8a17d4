package ephemeralrunner

import (
	"fmt"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// planDiscard: the pod's failure is noted, and it goes. One that has not gone in the time that a pod may take to run is kept
// by a finalizer that nobody removes, and no other pod of the runner can be made meanwhile. So the runner has failed, and
// another is made in its place: this pod's container has ended, and its registration is unused or removed. To replace the
// runner would not do: as long as it is there and has not failed it counts against maxRunners.
func planDiscard(s *situation) decision {
	due := s.noted.Add(s.pendingTimeout())
	if over := s.terminating.Add(stuckAfter); over.After(due) {
		due = over // then it is taken for ended whatever its node says
	}
	switch {
	case s.terminating.IsZero():
		return decision{step: stepDiscard}
	case s.now.Before(due):
		return decision{step: stepDiscard, again: due}
	default:
		return decision{step: stepFail, reason: v1alpha1.ReasonPodTerminating, message: whyTerminating(s)}
	}
}

// whyTerminating says what keeps a pod, and what to do about it.
func whyTerminating(s *situation) string {
	since := s.terminating.UTC().Format(time.RFC3339)
	if len(s.finalizers) == 0 {
		return fmt.Sprintf("the former pod %s should have been gone at %s: delete it with --force if its node is gone", s.runner.Name, since)
	}
	return fmt.Sprintf("the former pod %s should have been gone at %s, but its finalizers %s keep it: "+
		"see why nobody removes them; where whoever added them is gone, remove them from the pod's metadata",
		s.runner.Name, since, strings.Join(s.finalizers, ", "))
}
