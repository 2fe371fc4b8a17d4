package ephemeralrunnerset

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/requeue"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/removals"
)

// GitHub is the part of the Actions service that this controller uses.
type GitHub interface {
	// RemoveRunner fails with actions.ErrJobStillRunning if the runner has a job. It succeeds if the runner is already gone.
	RemoveRunner(ctx context.Context, id int) error
	// GetRunner fails with actions.ErrRunnerNotFound if there is no such runner.
	GetRunner(ctx context.Context, id int) (*actions.RunnerReference, error)
	// GetRunnerByName fails with actions.ErrRunnerNotFound if there is no such runner.
	GetRunnerByName(ctx context.Context, name string) (*actions.RunnerReference, error)
	// ListOfflineRunners fails with actions.ErrUnauthorized if the credentials don't allow it or GitHub can't do it.
	ListOfflineRunners(ctx context.Context, maxAge time.Duration) (*actions.OfflineRunners, error)
}

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
	// Removed is told which registrations GitHub has removed, so that the runners' own finalization needn't ask again. It may
	// be nil.
	Removed  *removals.Memory
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
	roster       *roster
	jobPods      *jobPods
	departures   *departures
	expectations *kube.Expectations
	questions    *questions
	strayCalls   *pool.Calls[strayCall, strayAnswer]
	// waker requeues a set when a question to GitHub about one of its runners has been answered.
	waker requeue.Waker

	mu     sync.Mutex
	states map[types.NamespacedName]*setState
}

// setState is everything that the controller remembers of one set between passes. A set is reconciled by one worker at a
// time, so only the map that holds it needs a lock.
type setState struct {
	*history
	uid types.UID
	// scaleSet is the scale set to which the runners belong; metrics carry its name. A set that ARC created has another name.
	scaleSet types.NamespacedName
	// recentlyDeleted holds the deletion times of runners that a stale cache may still show as live.
	recentlyDeleted map[types.UID]time.Time
	strays          strays
	// kept are the runners that only finalizers of others keep.
	kept kube.Kept
	// toldJobsAt is when the last job ended that an Event has told to have run on an unknown runner.
	toldJobsAt time.Time
	// lostToldAt is when lost jobs were last counted.
	lostToldAt time.Time
	// toldMoved has, by node, the departures that an Event has told.
	toldMoved map[string]int
	// published holds the states that have series, labels are those of the series that count runners the way ARC does.
	published map[stateAndReason]int
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
		roster:       newRoster(),
		jobPods:      newJobPods(options.Clock),
		departures:   newDepartures(),
		expectations: kube.NewExpectations(options.Clock),
		states:       map[types.NamespacedName]*setState{},
	}
	c.questions = newQuestions(options, c.waker.Wake)
	c.strayCalls = pool.NewCalls[strayCall, strayAnswer](options.Pool, options.Clock, func(call strayCall) { c.waker.Wake(call.set) })
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
	p := &pass{set: set, views: c.roster.of(set.UID)}
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
	if difference := difference(set, origin); difference != "" {
		result, err := c.hold(ctx, p, difference)
		return result, errors.Join(lostErr, err)
	}
	p.origin = origin

	listErr := c.observe(ctx, p)
	p.makePlan(c.options.MaxRunnersPerSet)
	applyErr := c.apply(ctx, p)
	c.removeStrays(ctx, p)
	c.tellUnknownJobs(ctx, p)
	c.tellMoved(ctx, p)
	if err := errors.Join(lostErr, listErr, applyErr, c.report(ctx, p)); err != nil {
		return ctrl.Result{}, err // an error requeues the set
	}
	p.requeueBy(p.state.creations.listDueAt())
	return requeue.At(p.requeueAt, c.options.Clock.Now()), nil
}

// observe updates what is remembered of the set from its runners and GitHub's answers about them. It returns an error if the
// API server did not say which unseen runners exist; a plan can be made even so.
func (c *Controller) observe(ctx context.Context, p *pass) error {
	key := client.ObjectKeyFromObject(p.set)
	p.specHash = templateHash(p.set)
	p.state.differsSince = time.Time{}
	p.state.configURL = configURLOf(&p.set.Spec.EphemeralRunnerSpec)
	p.state.departing = c.departures.of(p.set.Namespace, p.views)
	over := p.state.note(p.views, p.set.Spec.PatchID, p.specHash, c.options.Clock.Now())
	jobWaits, due := c.jobPods.of(p.set.Namespace, p.views)
	p.state.jobWaits = jobWaits
	p.requeueBy(due)
	c.questions.forget(key, over)
	c.questions.note(ctx, p.state.history, key, p.views)
	return errors.Join(c.countUnseen(ctx, p), c.countBeside(ctx, p))
}

// pass is one reconciliation of a set: what was observed and what to do.
type pass struct {
	set *v1alpha1.EphemeralRunnerSet
	// origin is the AutoscalingRunnerSet that controls the set, nil while the set is being deleted.
	origin *v1alpha1.AutoscalingRunnerSet
	// views are the set's runners, oldest first.
	views []*runnerView
	// unseen counts the set's other runners, which exist or may exist.
	unseen unseen
	state  *setState
	// specHash identifies the template from which runners are created. Like plan it is empty while the set is being deleted.
	specHash string
	plan     *plan
	// requeueAt is when to reconcile the set again even if nothing changes; zero is never.
	requeueAt time.Time
}

// scaleSetName returns the value of the label by which the set's runners are found. The set's own label has it too, but others may
// write that; it serves only a set whose AutoscalingRunnerSet is gone.
func (p *pass) scaleSetName() string {
	if p.origin != nil {
		return p.origin.Name
	}
	return kube.ScaleSetOf(p.set).Name
}

// makePlan plans the pass, with the limit on the runners of each set, and remembers what follows from the plan alone. The runner set's
// maxRunners counts as far as the AutoscalingRunnerSet allows it: it may be from before a change, or from somebody else.
func (p *pass) makePlan(ceiling int) {
	want := demandOf(&p.set.Spec, ceiling)
	want.minRunners = min(max(p.origin.Spec.EffectiveMinRunners(), 0), v1alpha1.MaxRunnersUnlimited)
	if most := p.origin.Spec.MaxRunners; most != nil {
		want.maxRunners = min(want.maxRunners, max(*most, 0))
	}
	p.plan = p.state.plan(p.views, want, p.unseen)
	p.state.follow(p.plan)
	p.state.creations.keep(p.plan.repeat)
	p.requeueBy(p.plan.requeueAt)
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
	c.states[key] = &setState{
		history: newHistory(creations{set: key, expected: c.expectations, unlisted: true}), uid: set.UID, recentlyDeleted: map[types.UID]time.Time{},
		scaleSet: kube.ScaleSetOf(set),
	}
	if c.options.PublishMetrics {
		initLost(kube.ScaleSetOf(set))
	}
	return c.states[key]
}

// forget drops everything remembered of a set that is gone, and its metrics, unless another set serves the same scale set
// now.
func (c *Controller) forget(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	gone, found := c.states[key]
	c.forgetLocked(key)
	if !found {
		return
	}
	if !c.served(gone.scaleSet, gone) {
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
		for uid, past := range s.runners {
			c.questions.forget(key, []registration{{uid, past.registrationID}})
		}
		c.forgetStrays(key, &s.strays)
	}
	delete(c.states, key)
	c.expectations.Forget(key)
}
