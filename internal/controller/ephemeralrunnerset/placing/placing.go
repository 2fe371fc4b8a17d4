// Package placing applies the rule of package placement to the sets with capacity.mode Placement. It takes the pods of
// runners from the watch (pods.go), keeps the memory of a set between passes, and tells its decisions, in status,
// condition and Event (words.go). The controller of runner sets asks it in each pass, after runners were created and
// before the status is written; the listener announces the number.
package placing

import (
	"cmp"
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/events"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/placement"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/jobpods"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/pass"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// Placing decides for each set for how many jobs GitHub is told that there is room.
type Placing struct {
	*Pods
	recorder events.EventRecorder
	memories pass.Memories[memory]
}

// memory is what is remembered of one set while it has capacity.mode Placement.
type memory struct{ set *Set }

// New returns Placing that remembers no set and no pod.
func New(recorder events.EventRecorder) *Placing {
	return &Placing{Pods: NewPods(), recorder: recorder}
}

// Follows reports whether a set has capacity.mode Placement, so that it matters to it which pods have a node.
func (pl *Placing) Follows(set types.UID) bool { return pl.memories.Has(set) }

// Forget drops what is remembered of a set that is gone.
func (pl *Placing) Forget(set types.UID) { pl.memories.Forget(set) }

// Announce decides the number of jobs for which GitHub is told that there is room. It returns nil for a set that doesn't
// announce what its cluster places. The caller fills in of seen what the plan and other rooms know.
func (pl *Placing) Announce(ctx context.Context, p *pass.Pass, seen Seen) *Outcome {
	if !p.Origin.Spec.PlacesJobs() {
		pl.memories.Forget(p.Set.UID)
		return nil
	}
	m := pl.memories.Of(p.Set.UID)
	if m.set == nil {
		m.set = Remember(cmp.Or(p.Set.Status.Placement, p.Origin.Status.Placement), p.Set.Status.Capacity, p.Now)
	}
	seen.Namespace, seen.Runners = p.Set.Namespace, p.Runners
	seen.Timeout = placement.DefaultTimeout
	if timeout := p.Origin.Spec.Capacity.PlacementTimeout; timeout != nil && timeout.Duration > 0 {
		seen.Timeout = timeout.Duration
	}
	room := m.set.Decide(seen, pl.Pods)
	p.RequeueAt(room.Next)
	if event, news := room.Event(); news {
		report.RecordEvent(ctx, pl.recorder, p.Origin, p.Set, event)
	}
	return room
}

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

// Seen is what a pass sees of a set.
type Seen struct {
	placement.Seen // but for RefusedSince
	Namespace      string
	// Runners are those that the watch shows, oldest first, and Unplaced the job pods of some that have no node.
	Runners  []*roster.Runner
	Unplaced map[types.UID]jobpods.Wait
	// NoFreeClaim: runners are not created because as many claims exist as may, and none is free.
	NoFreeClaim bool
	// AwaitPlace are the names of runners whose pods wait for a node where there is none: their volumes can be used nowhere
	// else. They say nothing about the room that the cluster has.
	AwaitPlace sets.Set[string]
}

// Decide decides the number of jobs that there is room for.
func (s *Set) Decide(seen Seen, pods *Pods) *Outcome {
	if len(seen.AwaitPlace) > 0 {
		seen.Runners = slices.DeleteFunc(slices.Clone(seen.Runners),
			func(r *roster.Runner) bool { return seen.AwaitPlace.Has(r.Name) })
	}
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
