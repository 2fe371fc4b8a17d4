// Package placing applies the rule of package placement to the sets with capacity.mode Placement. It takes the pods of
// runners from the watch, keeps the memory of a set between passes, and tells its decisions, in status, condition and
// Event. The controller of runner sets asks it in each pass, after runners were created and before the status is
// written; the listener announces the number.
package placing

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/placement"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/jobpods"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/kube"
)

// The time at which the mark was last reached is written to the status every reachedInterval at most: a set that is
// full reaches it with each pass, and a write of its status costs more than the creation of a runner.
const reachedInterval = time.Hour

// Set is the memory of one set.
type Set struct {
	memory *placement.Memory
	// countedIn has, for each runner whose pod is counted, the number of the last pass that saw it.
	countedIn map[types.UID]int
	passes    int
	// Since refusedSince pods have been refused, or runners have waited for a claim, for the reason refusal; zero if
	// neither is so.
	refusedSince time.Time
	refusal      string
	// failing says whether the cluster placed nothing more in the last pass; nil before the first.
	failing *bool
}

// Remember returns the memory of a set. saved is from its status or that of the set before it, nil if neither has it.
// announced is the number in its status, nil if there is none.
func Remember(saved *v1alpha1.PlacementStatus, announced *int, now time.Time) *Set {
	s := &Set{countedIn: map[types.UID]int{}}
	if saved == nil {
		s.memory = placement.Remember(nil, now)
		return s
	}
	state := placement.State{Mark: saved.Mark, Window: saved.Window, ReachedAt: saved.ReachedAt.Time}
	if announced != nil {
		state.Announced = *announced
	}
	s.memory = placement.Remember(&state, now)
	return s
}

// Seen has all that a pass sees of a set.
type Seen struct {
	placement.Seen // but for RefusedSince
	Namespace      string
	// Runners are those that the watch shows, oldest first, and Unplaced the job pods of some that have no node.
	Runners  []*roster.Runner
	Unplaced map[types.UID]jobpods.Wait
	// NoFreeClaim: runners are not created because as many claims exist as may, and none is free.
	NoFreeClaim bool
}

// Outcome has the decisions of a pass.
type Outcome struct {
	placement.Decision
	most int
	// refusal is the reason for which pods are refused, "" if none is. oldest says why the pod with the longest wait
	// waits.
	refusal, oldest string
	// Began and Ended are set if the cluster has placed nothing more from this pass on, or has again.
	Began, Ended bool
}

// Decide decides the number of jobs that there is room for.
func (s *Set) Decide(seen Seen, pods *Pods) *Outcome {
	s.count(seen, pods.of(seen.Namespace, seen.Runners))
	s.rememberRefusal(seen)
	seen.Seen.RefusedSince = s.refusedSince
	o := &Outcome{Decision: s.memory.Decide(seen.Seen), most: seen.Max, refusal: s.refusal}
	if s.failing != nil {
		o.Began, o.Ended = o.Failed && !*s.failing, *s.failing && !o.Failed
	}
	s.failing = &o.Failed
	if o.Cause == placement.PodsWait {
		o.oldest = s.oldestWait(seen, pods, o.Stuck)
	}
	return o
}

// count takes in the pods as they are now. Those that are gone go first: a pod that takes the place of another is no
// additional one.
func (s *Set) count(seen Seen, pods map[types.UID]placement.Pod) {
	s.passes++
	for runner := range pods {
		s.countedIn[runner] = s.passes
	}
	for runner, pass := range s.countedIn {
		if pass != s.passes {
			s.memory.Forget(runner, seen.Now)
			delete(s.countedIn, runner)
		}
	}
	for runner, pod := range pods {
		if job, waits := seen.Unplaced[runner]; waits && !pod.PlacedAt.IsZero() {
			pod = placement.Pod{CreatedAt: job.UnplacedSince}
		}
		s.memory.See(runner, pod, seen.Now)
	}
}

// refusals are the reasons of runners for which the API server refuses the pod, or the claim that the pod needs.
var refusals = []string{v1alpha1.ReasonQuotaExceeded, v1alpha1.ReasonVolumeClaimRefused}

// rememberRefusal remembers the time since which pods have been refused, or have had no claim, and the reason. The
// oldest runner gives the reason, which then stays while any runner has it.
func (s *Set) rememberRefusal(seen Seen) {
	var found []string
	for _, r := range seen.Runners {
		if slices.Contains(refusals, r.Reason) && r.Alive() && !r.Up() && !r.Deleting {
			found = append(found, r.Reason)
		}
	}
	if seen.NoFreeClaim {
		found = append(found, v1alpha1.ReasonVolumeClaimsExhausted)
	}
	if len(found) == 0 {
		s.refusal = ""
	} else if !slices.Contains(found, s.refusal) {
		s.refusal = found[0]
	}
	if s.refusal == "" {
		s.refusedSince = time.Time{}
	} else {
		kube.SetIfZero(&s.refusedSince, seen.Now)
	}
}

// oldestWait says what the oldest pod waits for, in the scheduler's words. It passes over the pods that are stuck,
// which are older.
func (s *Set) oldestWait(seen Seen, pods *Pods, stuck int) string {
	waiting := pods.of(seen.Namespace, seen.Runners)
	for _, r := range seen.Runners { // oldest first
		pod, counted := waiting[r.UID]
		job, waits := seen.Unplaced[r.UID]
		switch {
		case !counted || (!pod.PlacedAt.IsZero() && !waits):
		case stuck > 0:
			stuck--
		case waits:
			return job.Message
		default:
			return r.Message
		}
	}
	return ""
}

// Status returns the status' part about the decision. before is the present one.
func (o *Outcome) Status(before *v1alpha1.PlacementStatus) *v1alpha1.PlacementStatus {
	after := &v1alpha1.PlacementStatus{Mark: o.Mark, Window: o.Window, ReachedAt: metav1.NewTime(o.ReachedAt)}
	if before != nil {
		if passed := o.ReachedAt.Sub(before.ReachedAt.Time); passed >= 0 && passed < reachedInterval {
			after.ReachedAt = before.ReachedAt
		}
	}
	return after
}
