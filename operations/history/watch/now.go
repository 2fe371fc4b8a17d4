package watch

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/phases"
	"github.com/harrier-ci/harrier/internal/podstatus"
	"github.com/harrier-ci/harrier/operations/doctor/snapshot"
	"github.com/harrier-ci/harrier/operations/finding"
)

// Now has what a scale set waits for at this moment. No row of the ledger has it: a job has a row when a runner has the
// job.
type Now struct {
	// Waiting are jobs that no runner has, as far as the set's listener tells of them.
	Waiting []v1alpha1.WaitingJob
	// Kept is the number of further jobs that GitHub keeps because the set has no room, by its own figure. It names none.
	Kept int
	// Starting are runners without a job that don't run yet, the oldest first; those that failed are among them.
	Starting []StartingRunner
	// NotShown is the number of further runners that are starting.
	NotShown int
	// Limit is the doctor's finding that keeps the set from running more jobs; nil if nothing does.
	Limit *finding.Finding
	// Needs are what a node must have for the pod that has waited for one longest.
	Needs []Need
	// Runner is the program that the set's template starts; nil if there is no such set.
	Runner *Runner
}

// StartingRunner is a runner that has no job and does not run.
type StartingRunner struct {
	Name    string
	Created time.Time
	// Phase is the last that it has reached, and Since the time at which it did.
	Phase string
	Since time.Time
	// Reason and Message are what keeps it from starting, in the words of the runner or of Kubernetes; empty if nothing
	// does.
	Reason, Message string
	Failed          bool
}

// maxStarting bounds the runners that Now tells of.
const maxStarting = 50

// Now returns what a scale set waits for.
func (o *Objects) Now(namespace, set string) (now Now) {
	// Lists are read from memory, and fail before Start only.
	in, ctx := client.InNamespace(namespace), context.Background()
	var runnerSets v1alpha1.EphemeralRunnerSetList
	var runners v1alpha1.EphemeralRunnerList
	_ = o.cache.List(ctx, &runnerSets, in, client.UnsafeDisableDeepCopy)
	_ = o.cache.List(ctx, &runners, in, client.UnsafeDisableDeepCopy)
	of := types.NamespacedName{Namespace: namespace, Name: set}
	seen := snapshot.Set{Now: o.Clock.Now()}
	exists := o.cache.Get(ctx, of, &seen.AutoscalingRunnerSet) == nil
	for i := range runnerSets.Items {
		if runnerSet := &runnerSets.Items[i]; kube.ScaleSetOf(runnerSet) == of {
			seen.RunnerSets = append(seen.RunnerSets, *runnerSet)
		}
	}
	for i := range runners.Items {
		runner := &runners.Items[i]
		if kube.ScaleSetOf(runner) != of {
			continue
		}
		pod := &corev1.Pod{}
		if o.cache.Get(ctx, client.ObjectKeyFromObject(runner), pod) != nil {
			pod = nil
		} else {
			seen.Pods = append(seen.Pods, *pod)
		}
		seen.Runners = append(seen.Runners, *runner)
		if starting, is := startingRunner(runner, pod); is {
			now.Starting = append(now.Starting, starting)
		}
	}
	now.Waiting = waitingBySet(seen.RunnerSets, runners.Items)[of]
	slices.SortFunc(now.Starting, func(a, b StartingRunner) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.Name, b.Name))
	})
	if exists {
		now.Limit, now.Needs = limitOf(&seen)
		now.Runner = RunnerOf(&seen.AutoscalingRunnerSet)
		now.Kept = max(0, seen.AutoscalingRunnerSet.Status.AvailableJobs)
	}
	if more := len(now.Starting) - maxStarting; more > 0 {
		now.Starting, now.NotShown = now.Starting[:maxStarting], more
	}
	return now
}

// startingRunner returns false for a runner that runs, or has or had a job.
func startingRunner(runner *v1alpha1.EphemeralRunner, pod *corev1.Pod) (s StartingRunner, is bool) {
	status := &runner.Status
	switch status.Phase {
	case v1alpha1.EphemeralRunnerPhaseRunning, v1alpha1.EphemeralRunnerPhaseSucceeded:
		return s, false
	}
	if status.HadJob() || !runner.DeletionTimestamp.IsZero() {
		return s, false
	}
	s = StartingRunner{
		Name: runner.Name, Created: runner.CreationTimestamp.UTC(), Phase: "created", Since: runner.CreationTimestamp.UTC(),
		Reason: status.Reason,
		Failed: status.Phase == v1alpha1.EphemeralRunnerPhaseFailed || status.Phase == v1alpha1.EphemeralRunnerPhaseOutdated,
	}
	for _, reached := range phases.All(phases.Of(runner, pod)) {
		s.Phase, s.Since = reached.Phase, reached.At.UTC()
	}
	s.Message = status.Message
	if podstatus.IsUsual(s.Reason) {
		s.Reason, s.Message = "", ""
		if pod != nil {
			s.Reason, s.Message = podstatus.WhyUnable(pod)
		}
	}
	return s, true
}

// GitHub returns the address of the GitHub that a scale set is of, such as https://github.com, empty if there is no
// such set.
func (o *Objects) GitHub(namespace, set string) string {
	var of v1alpha1.AutoscalingRunnerSet
	key := client.ObjectKey{Namespace: namespace, Name: set}
	if o.cache.Get(context.Background(), key, &of) != nil {
		return ""
	}
	address, err := url.Parse(of.Spec.GitHubConfigUrl)
	if err != nil || address.Host == "" || (address.Scheme != "https" && address.Scheme != "http") {
		return ""
	}
	return address.Scheme + "://" + address.Host
}
