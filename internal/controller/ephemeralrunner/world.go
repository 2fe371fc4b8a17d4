package ephemeralrunner

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/calls"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/launch"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/mark"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/memory"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/podstatus"
	"github.com/harrier-ci/harrier/internal/registrations"
)

// newPass returns the runner with what the controller remembers of it, after adding what is seen now.
func (c *Controller) newPass(runner *v1alpha1.EphemeralRunner, pod *corev1.Pod, m *remembered) *pass {
	p := &pass{key: calls.KeyOf(runner), EphemeralRunner: runner, pod: pod, memory: m}
	now := c.options.Clock.Now()
	var registered int
	p.provisioning, registered = c.launcher.Last(p.key)
	if m.Launch.TakeAsked() {
		m.RunnerID = 0
	}
	p.outcome = m.See(runner, pod, c.removedPods.take(runner, pod, &m.Pod), now)
	m.measure(p, now)
	if registered != 0 {
		m.RunnerID = registered
	}
	return p
}

// readPod returns the runner's pod, nil if it has none. It reads from the API server instead of the cache if a stale cache would
// cost a job.
func (c *Controller) readPod(ctx context.Context, runner *v1alpha1.EphemeralRunner, m *memory.Memory) (*corev1.Pod, error) {
	pod, err := launch.OwnPod(ctx, c.options.Client, runner)
	switch {
	case err != nil:
		return nil, err
	case pod == nil && m.MissesPod(runner):
		return c.missedPod(ctx, runner)
	case pod != nil && needsLivePod(runner, pod, m.APIServerTime(pod, c.options.Clock.Now())):
		return kube.LivePod(ctx, c.options.Client, pod)
	default:
		return pod, nil
	}
}

// needsLivePod reports whether the cached pod calls for a step that a stale cache must not cause: reusing the JIT config of a
// pod that never started, or giving up a pod that hangs in its deletion, with its job.
func needsLivePod(runner *v1alpha1.EphemeralRunner, pod *corev1.Pod, now time.Time) bool {
	if rules.FailureNoted(&runner.Status, pod.UID) || runner.Status.Done() {
		return false
	}
	return podstatus.Stuck(pod, now) || rules.OutcomeOf(pod, now).Phase == podstatus.NeverStarted
}

// missedPod reads the pod from the API server. If reading is forbidden while the runner is being deleted, or has no set, it trusts the
// cache: the right to read pods comes from the scale set's Role, which may be deleted first. The deletion has its own deadline, and asks
// GitHub before anything is killed.
func (c *Controller) missedPod(ctx context.Context, runner *v1alpha1.EphemeralRunner) (*corev1.Pod, error) {
	pod, err := launch.OwnPod(ctx, c.options.Reader, runner)
	if !apierrors.IsForbidden(err) {
		return pod, err
	}
	if runner.DeletionTimestamp.IsZero() {
		set, setErr := c.runnerSet(ctx, runner)
		if setErr != nil || set != nil {
			return nil, errors.Join(err, setErr)
		}
	}
	return nil, nil
}

// observe gathers what a decision depends on.
func (c *Controller) observe(p *pass) *rules.World {
	m, now := p.memory, c.options.Clock.Now()
	o := &rules.World{
		Runner: p.EphemeralRunner, Pod: p.outcome, Now: now,
		Attempt: m.Attempt, RunnerID: m.RunnerID, PodEnding: m.Pod.Ending,
		HadPod: m.HadPod(&p.Status), PodDueAt: m.PodDueAt(p.EphemeralRunner, p.pod, now),
		Provisioning: p.provisioning, Removal: c.removal(p),
	}
	if p.pod != nil {
		o.EndDueAt = mark.PodDueToEnd(&p.Status)
		if c.reports.Defers(p.EphemeralRunner, now.Sub(m.StartedAt)) {
			o.DeferredUntil = mark.RecheckAt(p.EphemeralRunner, now)
		}
		o.FailureNoted = rules.FailureNoted(&p.Status, m.Pod.UID)
		o.Bound = p.pod.Spec.NodeName != ""
		o.StartableAt = startableSince(p.pod, o.Provisioning)
		o.DeletionDueAt, o.Finalizers = terminationOf(p.pod)
	}
	if o.HadPod {
		o.Pod.Outside, o.Pod.Fault = m.Pod.Ending.Outside, m.Pod.Ending.Fault
	}
	if o.Pod.Outside && o.Pod.Reason == "" {
		o.Pod.Reason, o.Pod.Message = v1alpha1.ReasonPodLost, m.Pod.Ending.Message
	}
	return o
}

// startableSince returns podstatus.StartableSince by our own clock if the pod was created by the last launch: the API server's clock may
// differ from ours by more than a pod may take to start.
func startableSince(pod *corev1.Pod, launched calls.Progress) time.Time {
	started := podstatus.StartableSince(pod)
	if !launched.Known || launched.Running {
		return started
	}
	return launched.FinishedAt.Add(started.Sub(pod.CreationTimestamp.Time))
}

// terminationOf returns when a pod that is being deleted should be gone, and the finalizers that it waits for. It returns
// zero and nil for any other pod.
func terminationOf(pod *corev1.Pod) (due time.Time, finalizers []string) {
	if pod.DeletionTimestamp == nil {
		return time.Time{}, nil
	}
	return pod.DeletionTimestamp.Time, pod.Finalizers
}

// observeFinalizing gathers what a finalization depends on.
func (c *Controller) observeFinalizing(p *pass) *rules.Leaving {
	m, now, removal := p.memory, c.options.Clock.Now(), c.removal(p)
	if c.verdict(p) == registrations.Removed {
		removal = calls.Progress{Known: true} // at its set's request
	}
	pod := p.outcome
	if m.Pod.PassedOver() {
		pod.Phase = podstatus.Missing
	}
	status := &p.Status
	return &rules.Leaving{
		Pod: pod, Bound: p.pod != nil && p.pod.Spec.NodeName != "", MayHaveJob: m.MayHaveJob(status),
		Completed:  m.HadItsJob(status) && !m.DiedSilently(status, p.outcome),
		Registered: !m.Unregistered(p.EphemeralRunner, c.beganAt), Provisioning: p.provisioning.Running,
		Unseen: p.provisioning.Succeeded() && !m.HadPod(status) &&
			now.Before(p.provisioning.FinishedAt.Add(rules.UnseenFinalizingTimeout)),
		Removal: removal, PodDueAt: m.PodDueAt(p.EphemeralRunner, p.pod, now), Deletion: m.Deletion, Now: now,
		KeptReported: status.Done() && status.Reason == v1alpha1.ReasonPodTerminating,
	}
}

// removal returns the state of the last call to remove the registration. The answer that there is none is as good as a
// removal, except while a runner with a job is alive: the 404 may have come from a proxy or gateway in front of GitHub, and
// would cost the job. That is decided when the answer is used, because the job may have been reported since GitHub was asked.
func (c *Controller) removal(p *pass) calls.Progress {
	last := c.deregistrar.Last(p.key)
	lives := p.pod != nil && !p.outcome.Over()
	if last.Failure == nil || last.Failure.Kind != calls.NotFound || lives && p.memory.MayHaveJob(&p.Status) {
		return last
	}
	return calls.Progress{Known: true, FinishedAt: last.FinishedAt}
}

// verdict returns what the runner's set has found out about its registration.
func (c *Controller) verdict(p *pass) registrations.Answer {
	return c.options.Verdicts.Of(registrations.Registration{Runner: p.UID, ID: p.memory.RunnerID})
}

// runnerSet returns the set that controls a runner, nil if none that lives does. What the cache lacks may just be late, so the API server
// is asked before a runner is called abandoned.
func (c *Controller) runnerSet(ctx context.Context, runner *v1alpha1.EphemeralRunner) (*v1alpha1.EphemeralRunnerSet, error) {
	for _, reader := range []client.Reader{c.options.Client, c.options.Reader} {
		set := &v1alpha1.EphemeralRunnerSet{}
		found, err := kube.ReadController(ctx, reader, runner, "EphemeralRunnerSet", set, client.UnsafeDisableDeepCopy)
		switch {
		case err != nil:
			return nil, err
		case found:
			return set, nil
		}
	}
	return nil, nil
}

// uncountedRecheck is when to look again at a runner that its set doesn't count, or has no room for. A set that doesn't is restored in a
// second, or deleted with its runners in half a minute.
const uncountedRecheck = 5 * time.Second

// uncounted returns why a runner may not get a registration and a pod yet, nil if it may: its set belongs to an AutoscalingRunnerSet, which
// decides how many runners there are, and has room for this one. A set creates no more than it has room for; others may.
func (c *Controller) uncounted(ctx context.Context, p *pass) (*calls.Failure, error) {
	set := p.runnerSet
	origin, err := c.origin(ctx, set)
	switch {
	case err != nil:
		return nil, err
	case origin == nil:
		return errSetOwnerless, nil
	}
	most := origin.Spec.EffectiveMaxRunners()
	if set.Spec.MaxRunners != nil {
		most = min(most, *set.Spec.MaxRunners)
	}
	if c.options.Admit != nil && !c.options.Admit(set.UID, p.key.NamespacedName, most) {
		return errNoRoom, nil
	}
	return nil, nil
}

// origin returns the AutoscalingRunnerSet that a set belongs to, nil if none that lives.
func (c *Controller) origin(ctx context.Context, set *v1alpha1.EphemeralRunnerSet) (*v1alpha1.AutoscalingRunnerSet, error) {
	origin := &v1alpha1.AutoscalingRunnerSet{}
	found, err := kube.ReadController(ctx, c.options.Client, set, "AutoscalingRunnerSet", origin, client.UnsafeDisableDeepCopy)
	if err != nil || !found {
		return nil, err
	}
	return origin, nil
}

// Why a runner waits that its set doesn't count.
var (
	errSetOwnerless = &calls.Failure{Reason: v1alpha1.ReasonOwnerless, Message: "its EphemeralRunnerSet belongs to no AutoscalingRunnerSet; the manager takes the set back, or removes it"}
	errNoRoom       = &calls.Failure{Reason: v1alpha1.ReasonMaxRunnersReached, Message: "its EphemeralRunnerSet has as many runners as maxRunners allows, without this one; those that nobody needs are removed"}
)
