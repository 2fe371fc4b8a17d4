package ephemeralrunnerset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/creations"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/departures"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/jobpods"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/scaling"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/reconcile"
	"github.com/harrier-ci/harrier/internal/registrations"
	"github.com/harrier-ci/harrier/internal/setmetrics"
)

// GitHub is the part of the Actions service that this controller uses.
type GitHub = registrations.GitHub

// Options are what the controller needs from outside.
type Options struct {
	// Client reads from the manager's cache and writes to the API server.
	Client client.Client
	// Reader reads from the API server. It is asked about runners that the cache should have but doesn't.
	Reader client.Reader
	// GitHub returns the client for a scale set's credentials.
	GitHub func(context.Context, credentials.Reference) (GitHub, error)
	// Proxy returns the data of the Secret that gives runners their proxy, nil if there is no proxy.
	Proxy func(context.Context, credentials.Reference) (map[string][]byte, error)
	// Pool runs the calls to GitHub.
	Pool *pool.Pool
	// Verdicts tells the runners' own controller what GitHub has said of their registrations, and which ran without a job.
	Verdicts *registrations.Verdicts
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	// Workers is the number of sets reconciled at once.
	Workers int
	// MaxRunnersPerSet limits the runners of each set, whatever its spec says; 0 means no limit.
	MaxRunnersPerSet int
	// PublishMetrics turns the gauges on.
	PublishMetrics bool
	// WatchNodes is set if NodeEvents is told about nodes. Then runners without a job leave those that are about to go away.
	WatchNodes bool
}

// Controller reconciles EphemeralRunnerSets.
type Controller struct {
	options      Options
	roster       *roster.Roster
	jobPods      *jobpods.Pods
	departures   *departures.Departures
	expectations *kube.Expectations
	questions    *registrations.Questions
	strays       *registrations.Strays
	// waker requeues a set when a question to GitHub about one of its runners has been answered.
	waker reconcile.Waker

	mu     sync.Mutex
	states map[types.NamespacedName]*setState
}

// setState is everything that the controller remembers of one set between passes. A set is reconciled by one worker at a
// time, so only the map that holds it needs a lock.
type setState struct {
	*scaling.History
	uid types.UID
	// scaleSet is the scale set to which the runners belong; metrics carry its name. A set that ARC created has another name.
	scaleSet types.NamespacedName
	strays   registrations.StrayMemory
	// kept are the runners that only finalizers of others keep.
	kept kube.Kept
	// toldJobsAt is when the last job ended that an Event has told to have run on an unknown runner.
	toldJobsAt time.Time
	// lostToldAt is when lost jobs were last counted.
	lostToldAt time.Time
	// toldMoved has, by node, the departures that an Event has told.
	toldMoved map[string]int
	// published holds the states that have series, labels are those of the series that count runners the way ARC does.
	published map[roster.State]int
	labels    seriesLabels
	// differsSince is when the set was first seen to differ from its AutoscalingRunnerSet, zero while it doesn't.
	differsSince time.Time
	// reportedAt is when the status was last written.
	reportedAt time.Time
	// proxyHash identifies the proxy Secret that was last applied, at proxyAppliedAt. proxyDropAt is when to retry its
	// deletion after a failure.
	proxyHash                   string
	proxyAppliedAt, proxyDropAt time.Time
}

// NewController returns a controller that does nothing until SetupWithManager has registered it.
func NewController(options Options) *Controller {
	c := &Controller{
		options:      options,
		roster:       roster.New(),
		jobPods:      jobpods.New(options.Clock),
		departures:   departures.New(),
		expectations: kube.NewExpectations(options.Clock),
		states:       map[types.NamespacedName]*setState{},
	}
	asking := registrations.Options{
		GitHub: options.GitHub, Verdicts: options.Verdicts, Reader: options.Reader,
		Pool: options.Pool, Recorder: options.Recorder, Clock: options.Clock, Wake: c.waker.Wake,
	}
	c.questions, c.strays = registrations.NewQuestions(asking), registrations.NewStrays(asking)
	return c
}

// Reconcile brings one set's runners to what its spec asks for.
func (c *Controller) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	set := &v1alpha1.EphemeralRunnerSet{}
	if err := c.options.Client.Get(ctx, request.NamespacedName, set); err != nil {
		if apierrors.IsNotFound(err) {
			c.forget(request.NamespacedName)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("get EphemeralRunnerSet: %w", err)
	}
	ctx = kube.WithScaleSetLogger(ctx, kube.ScaleSetOf(set))
	p := &pass{set: set, views: c.roster.Of(set.UID)}
	if !set.DeletionTimestamp.IsZero() {
		return c.finalize(ctx, p)
	}
	if err := kube.AddFinalizer(ctx, c.options.Client, set, v1alpha1.FinalizerEphemeralRunnerSet, v1alpha1.FinalizerFormerRunnerSet); err != nil {
		return ctrl.Result{}, kube.IgnoreOvertaken(err)
	}

	origin, err := c.originOf(ctx, set)
	if err != nil {
		return ctrl.Result{}, err
	}
	p.state = c.setStateOf(set)
	lostErr := c.tellLost(ctx, p)
	if origin == nil {
		result, err := c.abandon(ctx, p)
		return result, errors.Join(lostErr, err)
	}
	if !isAsGiven(set, origin) {
		result, err := c.hold(ctx, p, "its runner spec is not that of AutoscalingRunnerSet "+origin.Name)
		return result, errors.Join(lostErr, err)
	}
	p.origin = origin

	listErr := c.observe(ctx, p)
	p.makePlan(c.options.MaxRunnersPerSet)
	applyErr := c.apply(ctx, p)
	p.requeueBy(c.strays.Remove(ctx, p.set, &p.state.strays))
	c.tellUnknownJobs(ctx, p)
	c.tellMoved(ctx, p)
	if err := errors.Join(lostErr, listErr, applyErr, c.report(ctx, p)); err != nil {
		return ctrl.Result{}, err // an error requeues the set
	}
	p.requeueBy(p.state.Creations.ListDueAt())
	return reconcile.At(p.requeueAt, c.options.Clock.Now()), nil
}

// observe updates what is remembered of the set from its runners and GitHub's answers about them. It returns an error if the
// API server did not say which unseen runners exist; a plan can be made even so.
func (c *Controller) observe(ctx context.Context, p *pass) error {
	key := client.ObjectKeyFromObject(p.set)
	p.specHash = templateHash(p.set)
	p.state.differsSince = time.Time{}
	p.departing = c.departures.Of(p.set.Namespace, p.views)
	jobWaits, due := c.jobPods.Of(p.set.Namespace, p.views)
	p.requeueBy(due)
	over := p.state.Note(scaling.Seen{
		Now: c.options.Clock.Now(), Runners: p.views, PatchID: p.set.Spec.PatchID, Template: p.specHash,
		ConfigURL: roster.ConfigURLOf(&p.set.Spec.EphemeralRunnerSpec), Departing: p.departing, JobWaits: jobWaits,
	})
	c.questions.Forget(key, over...)
	c.noteAnswers(ctx, p.state.History, key, p.views)
	return errors.Join(c.countUnseen(ctx, p), c.countBeside(ctx, p))
}

// pass is one reconciliation of a set: what was observed and what to do.
type pass struct {
	set *v1alpha1.EphemeralRunnerSet
	// origin is the AutoscalingRunnerSet that controls the set, nil while the set is being deleted.
	origin *v1alpha1.AutoscalingRunnerSet
	// views are the set's runners, oldest first.
	views []*roster.Runner
	// departing has the runners on nodes that are about to go away.
	departing map[types.UID]departures.Departure
	// unseen counts the set's other runners, which exist or may exist.
	unseen creations.Unseen
	state  *setState
	// specHash identifies the template from which runners are created. Like plan it is empty while the set is being deleted.
	specHash string
	plan     *scaling.Plan
	// requeueAt is when to reconcile the set again even if nothing changes; zero is never.
	requeueAt time.Time
}

// makePlan plans the pass, with the limit on the runners of each set, and remembers what follows from the plan alone.
func (p *pass) makePlan(ceiling int) {
	p.plan = p.state.Plan(p.views, scaling.DemandOf(&p.set.Spec, ceiling).Within(&p.origin.Spec), p.unseen)
	p.state.Follow(p.plan)
	p.state.Creations.Keep(p.plan.Repeat)
	p.requeueBy(p.plan.RequeueAt)
}

// requeueBy requeues the set at t at the latest; zero is never.
func (p *pass) requeueBy(t time.Time) { p.requeueAt = kube.EarlierOf(p.requeueAt, t) }

// setStateOf returns what the controller remembers of the set. Whatever belonged to an earlier set of the same name is
// forgotten.
func (c *Controller) setStateOf(set *v1alpha1.EphemeralRunnerSet) *setState {
	key := client.ObjectKeyFromObject(set)
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, known := c.states[key]; known && s.uid == set.UID {
		return s
	}
	c.forgetLocked(key)
	s := &setState{History: scaling.New(creations.New(key, c.expectations)), uid: set.UID, scaleSet: kube.ScaleSetOf(set)}
	c.states[key] = s
	if c.options.PublishMetrics {
		for _, cause := range v1alpha1.LostCauses { // the rise from no series to 1 would be none to Prometheus
			jobsLost.WithLabelValues(s.scaleSet.Name, s.scaleSet.Namespace, string(cause))
		}
	}
	return s
}

// forget drops everything remembered of a set that is gone, and its metrics, unless another set serves the same scale set
// now.
func (c *Controller) forget(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	gone, found := c.states[key]
	c.forgetLocked(key)
	if found && !c.served(gone.scaleSet, gone) {
		deleteMetrics(gone.scaleSet)
	}
}

// served reports whether another set than the given one serves the scale set. The caller holds the lock.
func (c *Controller) served(scaleSet types.NamespacedName, except *setState) bool {
	for _, s := range c.states {
		if s != except && s.scaleSet == scaleSet {
			return true
		}
	}
	return false
}

// forgetLocked drops what is remembered under a set's name. The caller holds the lock.
func (c *Controller) forgetLocked(key types.NamespacedName) {
	if s, known := c.states[key]; known {
		c.questions.Forget(key, s.Registrations()...)
		c.strays.Forget(key, &s.strays)
	}
	delete(c.states, key)
	c.expectations.Forget(key)
}

// deleteMetrics deletes the series of a scale set that is gone.
func deleteMetrics(scaleSet types.NamespacedName) {
	deleteCounts(scaleSet)
	setmetrics.Delete(scaleSet)
}

// unseenPause is how long to wait for an event of the runners created last before looking again without one.
const unseenPause = time.Second

// finalize deletes the set's runners, and removes the set's finalizer when the last of them is gone. That includes runners
// that were created last and are not visible yet. A runner with a job finishes it first: its own finalization sees to that.
// The set owns the proxy Secret, which is garbage collected.
func (c *Controller) finalize(ctx context.Context, p *pass) (ctrl.Result, error) {
	p.state = c.setStateOf(p.set)
	p.state.Creations.Abandon()
	listErr := errors.Join(c.countUnseen(ctx, p), c.tellLost(ctx, p))
	switch {
	case len(p.views) > 0:
		remaining := slices.DeleteFunc(slices.Clone(p.views), func(r *roster.Runner) bool { return r.Deleting })
		err := c.deleteRunners(ctx, p, remaining, false)
		requeueAt, reportErr := c.reportLeft(ctx, p)
		if err = errors.Join(listErr, err, reportErr); err != nil {
			return ctrl.Result{}, err // an error requeues the set
		}
		p.requeueBy(requeueAt)
		p.requeueBy(p.state.Creations.ListDueAt())
		return reconcile.At(p.requeueAt, c.options.Clock.Now()), nil
	case p.unseen.Expected > 0:
		_, reportErr := c.reportLeft(ctx, p)
		if err := errors.Join(listErr, reportErr); err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{RequeueAfter: unseenPause}, nil
	default:
		return ctrl.Result{}, kube.RemoveFinalizers(ctx, c.options.Client, p.set, v1alpha1.FinalizerEphemeralRunnerSet, v1alpha1.FinalizerFormerRunnerSet)
	}
}

// reportLeft keeps the counts in the status correct while the set drains. Its AutoscalingRunnerSet shows how many runners it
// is waiting for, and lets the set that replaces this one use the room of runners that are gone. It returns when to call it
// again, zero if it has done its work.
func (c *Controller) reportLeft(ctx context.Context, p *pass) (time.Time, error) {
	now := c.options.Clock.Now()
	kept, lookAt := c.tellKept(ctx, p, now)
	if due := p.state.reportedAt.Add(reportPeriod); now.Before(due) {
		return kube.EarlierOf(due, lookAt), nil
	}
	before := p.set.DeepCopy()
	report.SetConditions(&p.set.Status.Conditions, p.set.Generation, now, kept...)
	scaling.CountWithDeleting(&p.set.Status, p.views)
	p.set.Status.Capacity = new(p.set.Status.BusyRunners + 1) // the next set runs further jobs, but the listener must not announce 0
	report.SetConditions(&p.set.Status.Conditions, p.set.Generation, now, p.state.Creations.UnseenWhileDeleted(p.set)...)
	c.publishLeft(p)
	wrote, err := kube.PatchStatus(ctx, c.options.Client, p.set, before)
	if wrote {
		p.state.reportedAt = now
	}
	return lookAt, client.IgnoreNotFound(err)
}

// publishLeft keeps the metrics correct, too, unless another set has replaced this one: then the metrics belong to that set.
func (c *Controller) publishLeft(p *pass) {
	c.mu.Lock()
	replaced := c.served(p.state.scaleSet, p.state)
	c.mu.Unlock()
	if c.options.PublishMetrics && !replaced {
		p.state.publishCounts(p.set)
		p.state.publishStates(p.set, p.views)
	}
}
