package ephemeralrunner

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/launch"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/mark"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/remains"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/podstatus"
	"github.com/harrier-ci/harrier/internal/reconcile"
	"github.com/harrier-ci/harrier/internal/registrations"
	"github.com/harrier-ci/harrier/internal/setmetrics"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

// NewController returns a controller that does nothing until SetupWithManager has registered it.
func NewController(options Options) *Controller {
	c := &Controller{options: options, reports: mark.NewGate(options.Pool)}
	c.marker = mark.New(mark.Options{Client: options.Client, Reader: options.Reader, Recorder: options.Recorder,
		Clock: options.Clock, Gate: c.reports, JobMetadata: options.JobMetadata, JobProtection: options.JobProtection})
	var avoided func() []string
	if options.Nodes != nil {
		avoided = options.Nodes.Avoided
	}
	c.launcher = launch.New(launch.Options{Avoided: avoided, Client: options.Client, Reader: options.Reader, GitHub: options.GitHub,
		Pool: options.Pool, Clock: options.Clock, Version: options.Version, Wake: c.waker.Wake, Counted: c.isCounted,
		Protection: c.marker, SeeVersion: func(runner *v1alpha1.EphemeralRunner, version string) {
			options.Verdicts.SeeVersion(
				registrations.Registration{Runner: runner.UID, ID: runner.Status.RunnerID}, version)
		}})
	c.remains = remains.New(remains.Options{Client: options.Client, Reader: options.Reader,
		DeleteSecret: c.launcher.DeleteAbandonedSecret, Recorder: options.Recorder, Clock: options.Clock})
	c.reconciler = reconcile.For(reconcile.Kind[*v1alpha1.EphemeralRunner, memory, *world]{
		Name: "EphemeralRunner", New: func() *v1alpha1.EphemeralRunner { return &v1alpha1.EphemeralRunner{} },
		Client: options.Client, Clock: options.Clock,
		Begin: c.begin, Remember: remember, Forget: c.forget,
		Gone: func(ctx context.Context, name types.NamespacedName, m *memory) (ctrl.Result, error) {
			finalized := m != nil && m.finalizersRemoved
			return c.remains.RemoveOf(ctx, name, m != nil && m.mayVanish, finalized)
		},
		Log: func(ctx context.Context, runner *v1alpha1.EphemeralRunner) context.Context {
			return kube.WithScaleSetLogger(ctx, kube.ScaleSetOf(runner), launch.LogValues(runner)...)
		},
		Observe: c.observe,
		Rules: []reconcile.Rule[*world, reconcile.Step[*world]]{
			reconcile.When("it is being deleted", deleting, c.step(c.finalize)),
			reconcile.When("the cache is older than what was written last", behind, c.step(waitForCache)),
			reconcile.When("nobody can tell whose it is", setUnknown, c.step(failUnknown)),
			reconcile.When("it has no set that lives", abandoned, c.step(c.removeAbandoned)),
			reconcile.When("it is done", done, c.step(c.cleanUp)),
			reconcile.Otherwise[*world]("it lives", c.step(c.live)),
		},
	})
	return c
}

func setUnknown(w *world) bool { return w.setErr != nil }
func abandoned(w *world) bool  { return w.set == nil }
func done(w *world) bool       { return w.Status.Done() }

func failUnknown(_ context.Context, w *world) error { return w.setErr }

// Reconcile takes the next step in one runner's life.
func (c *Controller) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	defer c.reports.Handled(request.NamespacedName)
	return c.reconciler.Reconcile(ctx, request)
}

// step returns a rule's step with what every pass of a runner does around it: before it, the job is written on the pod,
// because that protects the job. The runner is reconciled again when its pod must be treated as lost, at the latest.
func (c *Controller) step(do reconcile.Step[*world]) reconcile.Step[*world] {
	return func(ctx context.Context, w *world) error {
		markErr := c.markJob(ctx, w)
		err := errors.Join(do(ctx, w), markErr)
		w.RequeueAt(w.podLostAt())
		w.Priority = new(w.priority()) // otherwise it would keep the priority of the event that began the pass
		return err
	}
}

// markJob writes the job on the runner's pod, unless something is about to end the pod, as far as is seen.
func (c *Controller) markJob(ctx context.Context, w *world) error {
	m := w.Memory
	if w.pod == nil || w.pod.DeletionTimestamp != nil || w.Status.Done() || m.pod.deleted || w.outcome.Over() {
		return nil
	}
	// A job was reported, or GitHub has refused to remove the registration because of one.
	busy := m.mayHaveJob(&w.Status) || w.removal().Busy() || c.verdict(w) == registrations.Busy
	startedAt := m.StartedAt
	if !startedAt.IsZero() && !w.launched.Known { // another manager created the pod, which may date its start earlier
		startedAt = kube.EarlierOf(startedAt, podstatus.RunningSince(w.pod, v1alpha1.RunnerContainerName))
	}
	at, err := c.marker.Mark(ctx, &mark.Job{
		Runner: w.EphemeralRunner, Pod: w.pod, Busy: busy, StartedAt: startedAt,
		Written: &m.pod.marked, DeniedAt: &m.deniedAt,
	})
	w.RequeueAt(at)
	return err
}

// priority returns the priority of a pass that is requeued by time or after an error: high if a pod has ended and must
// still be deleted, because its deletion may have had to wait for a stale cache, or if its pod is not marked as busy.
func (w *world) priority() int {
	unmarked := w.pod != nil && w.Status.JobRunning() && !w.Memory.pod.marked.Busy &&
		w.pod.Labels[v1alpha1.LabelRunnerBusy] != v1alpha1.RunnerBusy
	if unmarked || (w.podStays() && podstatus.HasEnded(w.pod, v1alpha1.RunnerContainerName)) {
		return priorityHigh
	}
	return priorityLow
}

// podLostAt returns the time at which the runner's pod, which is being deleted, must be treated as lost with its node.
// It returns zero if that moment has passed or will not come.
func (w *world) podLostAt() time.Time {
	if w.pod == nil || w.pod.DeletionTimestamp == nil {
		return time.Time{}
	}
	if left := w.pod.DeletionTimestamp.Add(podstatus.StuckTimeout).Sub(w.Memory.apiServerTime(w.pod, w.Now)); left > 0 {
		return w.Now.Add(left)
	}
	return time.Time{}
}

// forget ends what is under way for a runner that is gone.
func (c *Controller) forget(_ types.NamespacedName, m *memory) {
	m.launch.Abandon()
	m.endWait(c.options.Clock.Now())
	setmetrics.Release(m.scaleSet)
}

// live decides what a runner that is neither done nor being deleted needs next, and does it. Before that it ends an
// attempt whose failure was written to the status although the answer to that write was lost. Otherwise the facts about
// its pod would be attributed to the next attempt, which would seem to have lost its pod.
func (c *Controller) live(ctx context.Context, w *world) error {
	if failed := w.Memory.failed; failed != nil {
		if _, written := rules.Recorded(&w.Status, failed.key); written {
			c.endAttempt(w)
			c.record(ctx, w, attemptEnded(failed.Decision, &w.Status))
		}
	}
	o := c.plannable(w)
	if len(w.Spec.VolumeClaims) > 0 && volumeclaims.Named(w.Spec.VolumeClaims) {
		set, err := c.originOf(ctx, w)
		if err != nil {
			return err
		}
		o.Guarded, o.Used = set != nil && volumeclaims.Asks(set), w.Memory.claims.Used(w.use())
	}
	return c.apply(ctx, w, rules.Plan(o))
}

// plannable returns the facts on which a decision about a living runner depends.
func (c *Controller) plannable(w *world) *rules.World {
	m, now := w.Memory, w.Now
	o := &rules.World{
		Runner: w.EphemeralRunner, Pod: w.outcome, Now: now,
		Attempt: m.Attempt, RunnerID: m.runnerID, PodEnding: m.pod.ending,
		HadPod: m.hadPod(&w.Status), PodDueAt: m.podDueAt(w.EphemeralRunner, w.pod, now),
		Provisioning: w.launched, Removal: w.removal(),
	}
	if w.pod != nil {
		o.EndDueAt = mark.PodDueToEnd(&w.Status)
		if c.reports.Defers(w.EphemeralRunner, now.Sub(m.StartedAt)) {
			o.DeferredUntil = mark.RecheckAt(w.EphemeralRunner, now)
		}
		o.FailureRecorded = rules.FailureRecorded(&w.Status, m.pod.uid)
		o.Bound = w.pod.Spec.NodeName != ""
		o.StartableAt = rules.StartableSince(w.pod, o.Provisioning)
		o.DeletionDueAt, o.Finalizers = kube.Termination(w.pod)
	}
	if o.HadPod {
		o.Pod.Outside, o.Pod.Fault = m.pod.ending.Outside, m.pod.ending.Fault
	}
	if o.Pod.Outside && o.Pod.Reason == "" {
		o.Pod.Reason, o.Pod.Message = v1alpha1.ReasonPodLost, m.pod.ending.Message
	}
	return o
}

// apply takes the step that was decided on.
func (c *Controller) apply(ctx context.Context, w *world, d rules.Decision) error {
	w.RequeueAt(d.RequeueAt)
	switch d.Step {
	case rules.Launch:
		return c.launchCounted(ctx, w)
	case rules.Deregister:
		c.deregister(w)
	case rules.ReportRunning:
		return c.reportRunning(ctx, w)
	case rules.ReportPending:
		return c.reportPending(ctx, w, d)
	case rules.ReportSidecar:
		// Only the runner's own end decides, but a job's failure may have this cause.
		w.Memory.SidecarReported = true
		c.record(ctx, w, report.Warning(d.Reason, actionRun, d.Message))
		w.Requeue.After(0) // so that the next pass plans for the pod itself
	case rules.DeleteFailedPod:
		return c.deletePod(ctx, w)
	case rules.Retry, rules.Reregister:
		return c.retry(ctx, w, d)
	case rules.Exited:
		w.Memory.ExitedAt = w.Now
		return errors.Join(c.deleteSecret(ctx, w), c.deletePod(ctx, w)) // in this order: see goneUnseen
	case rules.Succeed:
		return c.finish(ctx, w, v1alpha1.EphemeralRunnerPhaseSucceeded, rules.Decision{}, nil)
	case rules.Fail:
		return c.finish(ctx, w, v1alpha1.EphemeralRunnerPhaseFailed, d, []report.Event{runnerFailed(d)})
	case rules.FailBusy:
		return c.finish(ctx, w, v1alpha1.EphemeralRunnerPhaseFailed, d, []report.Event{runnerFailed(d)}, jobByGitHub)
	case rules.Outdate:
		return c.finish(ctx, w, v1alpha1.EphemeralRunnerPhaseOutdated, d,
			[]report.Event{report.Warning(d.Reason, actionRun, d.Message)})
	case rules.DeleteRunner, rules.Replace:
		return c.deleteRunner(ctx, w, d)
	case rules.Wait:
	}
	return nil
}

// A runner that its set doesn't count, or has no room for, is looked at again every uncountedInterval. A set that
// doesn't count its runners is restored in a second, or deleted with its runners in half a minute.
const uncountedInterval = 5 * time.Second

// Why a runner waits that its set doesn't count.
var (
	errSetOwnerless = &rules.Failure{Reason: v1alpha1.ReasonOwnerless, Message: "its EphemeralRunnerSet belongs to " +
		"no AutoscalingRunnerSet; the manager takes the set back, or removes it"}
	errNoRoom = &rules.Failure{Reason: v1alpha1.ReasonMaxRunnersReached, Message: "its EphemeralRunnerSet has as " +
		"many runners as maxRunners allows, without this one; those that nobody needs are removed"}
	errClaimsHeld = &rules.Failure{Reason: v1alpha1.ReasonVolumeClaimShared,
		Message: "another runner has its claims; one of the two is replaced"}
)

// launchCounted starts an attempt of a runner that its set counts: the set belongs to an AutoscalingRunnerSet, which
// decides the number of runners, and has room for this one. A set creates no more than it has room for; others may. Any
// other runner waits, and says so.
func (c *Controller) launchCounted(ctx context.Context, w *world) error {
	origin, err := c.origin(ctx, w.set)
	if err != nil {
		return err
	}
	why := errSetOwnerless
	if origin != nil {
		switch {
		case c.options.Gate != nil && !c.options.Gate.Admit(origin, w.set, w.Key):
			why = errNoRoom
		case len(w.Spec.VolumeClaims) > 0 && c.options.Gate != nil && !c.options.Gate.Hold(w.EphemeralRunner):
			why = errClaimsHeld
		default:
			// No copy of the runner: a pass that launches writes no status.
			c.launcher.Launch(origin, w.EphemeralRunner, w.Memory.runnerID, &w.Memory.launch)
			return nil
		}
	}
	world := &rules.World{Runner: w.EphemeralRunner, Now: w.Now, Attempt: w.Memory.Attempt}
	return c.apply(ctx, w, rules.PlanReport(world, why, w.Now.Add(uncountedInterval)))
}

// isCounted reports whether a runner belongs to a set that an AutoscalingRunnerSet owns.
func (c *Controller) isCounted(ctx context.Context, runner *v1alpha1.EphemeralRunner) (bool, error) {
	set, err := c.runnerSet(ctx, runner)
	if err != nil || set == nil {
		return false, err
	}
	origin, err := c.origin(ctx, set)
	return origin != nil, err
}

// remember returns the memory of a runner that is new here. While it waits for a pod, its status may have the id of an
// earlier registration, and nobody knows whether a JIT config left by another manager was used: it registers again.
func remember(runner *v1alpha1.EphemeralRunner) *memory {
	m := &memory{waited: runner.Status.HadJob(), scaleSet: kube.ScaleSetOf(runner)}
	setmetrics.Hold(m.scaleSet)
	if runner.Status.Done() || runner.Status.Phase == v1alpha1.EphemeralRunnerPhaseRunning {
		m.runnerID = runner.Status.RunnerID
	}
	return m
}
