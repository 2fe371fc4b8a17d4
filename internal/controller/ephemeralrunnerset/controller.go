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
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/removals"
)

// GitHub is what this controller asks of the Actions service.
type GitHub interface {
	// RemoveRunner fails with actions.ErrJobStillRunning where the runner has a job; one that is gone is removed.
	RemoveRunner(ctx context.Context, id int) error
	// GetRunner fails with actions.ErrRunnerNotFound where there is no such runner.
	GetRunner(ctx context.Context, id int) (*actions.RunnerReference, error)
}

// Options are what the controller is made of.
type Options struct {
	// Client reads from the manager's cache and writes to the API server.
	Client client.Client
	// Reader reads from the API server: it is asked about runners that the cache should have and has not.
	Reader client.Reader
	// GitHub returns the client for a scale set's credentials.
	GitHub func(context.Context, credentials.Reference) (GitHub, error)
	// Proxy returns the data of the Secret that gives runners their proxy, nil where there is none.
	Proxy func(context.Context, credentials.Reference) (map[string][]byte, error)
	// Pool runs the calls to GitHub.
	Pool *pool.Pool
	// Removed takes the registrations that GitHub has removed, so that the runners' own finalization need not ask again. It
	// may be nil.
	Removed  *removals.Memory
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	// Workers is how many sets are reconciled at once.
	Workers int
	// PublishMetrics turns the gauges on.
	PublishMetrics bool
}

// Controller reconciles EphemeralRunnerSets.
type Controller struct {
	options      Options
	roster       *roster
	expectations *kube.Expectations
	questions    *questions
	// waker has a set reconciled when a question to GitHub about one of its runners was answered.
	waker kube.Waker

	mu     sync.Mutex
	states map[types.NamespacedName]*setState
}

// setState is everything that is remembered of one set between passes. A set is reconciled by one worker at a time, so
// only the map that holds it needs a lock.
type setState struct {
	*history
	uid types.UID
	// scaleSet is the scale set whose runners these are: its name is that of the metrics. A set that ARC made has another name.
	scaleSet types.NamespacedName
	// recentlyDeleted has the deletion times of runners that a late cache may still show as live.
	recentlyDeleted map[types.UID]time.Time
	// published are the states that have series, labels are those of the series that count runners as ARC does.
	published map[stateAndReason]int
	labels    seriesLabels
	// reportedAt is when the status was last written.
	reportedAt time.Time
	// proxyHash identifies the proxy Secret that was last applied, proxyAppliedAt is when that was. proxyDropAt is when its
	// deletion may be tried again after one that failed.
	proxyHash                   string
	proxyAppliedAt, proxyDropAt time.Time
}

// NewController returns a controller that does nothing until SetupWithManager has registered it.
func NewController(options Options) *Controller {
	c := &Controller{
		options:      options,
		roster:       newRoster(),
		expectations: kube.NewExpectations(options.Clock),
		states:       map[types.NamespacedName]*setState{},
	}
	c.questions = newQuestions(options, c.waker.Wake)
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
	if err := kube.AddFinalizer(ctx, c.options.Client, set, v1alpha1.FinalizerEphemeralRunnerSet); err != nil {
		return ctrl.Result{}, ignoreConflict(err)
	}

	listErr := c.observe(ctx, p)
	p.makePlan()
	applyErr := c.apply(ctx, p)
	if err := errors.Join(listErr, applyErr, c.report(ctx, p)); err != nil {
		return ctrl.Result{}, err // the next pass comes by itself, soon
	}
	p.requeueBy(p.state.creations.listDueAt())
	return kube.RequeueAt(p.requeueAt, c.options.Clock.Now()), nil
}

// observe brings what is remembered of the set up to date with its runners, and with what GitHub has answered about them. Its error
// is that the API server did not say which runners there are that the watch has not shown; a plan can be made all the same.
func (c *Controller) observe(ctx context.Context, p *pass) error {
	key := client.ObjectKeyFromObject(p.set)
	p.state, p.specHash = c.setStateOf(p.set), templateHash(p.set)
	p.state.configURL = configURLOf(&p.set.Spec.EphemeralRunnerSpec)
	over := p.state.note(p.views, p.set.Spec.PatchID, p.specHash, c.options.Clock.Now())
	c.questions.forget(key, over)
	c.questions.note(ctx, p.state.history, key, p.views)
	return c.countUnseen(ctx, p)
}

// pass is one reconciliation of a set: what was observed and what is to be done.
type pass struct {
	set *v1alpha1.EphemeralRunnerSet
	// views are the set's runners, oldest first.
	views []*runnerView
	// unseen counts the others that there are, or may be.
	unseen unseen
	state  *setState
	// specHash identifies the template that runners are made from. Like plan it is empty while the set is being deleted.
	specHash string
	plan     *plan
	// requeueAt is when to reconcile the set again even if nothing changes; zero is never.
	requeueAt time.Time
}

// makePlan plans the pass, and remembers what follows from the plan alone.
func (p *pass) makePlan() {
	p.plan = p.state.plan(p.views, demandOf(&p.set.Spec), p.unseen)
	p.state.follow(p.plan)
	p.state.creations.keep(p.plan.repeat)
	p.requeueBy(p.plan.requeueAt)
}

// requeueBy has the set reconciled again at t at the latest; zero is never.
func (p *pass) requeueBy(t time.Time) { p.requeueAt = kube.EarlierOf(p.requeueAt, t) }

// setStateOf returns what is remembered of the set. Of a former set of its name nothing is.
func (c *Controller) setStateOf(set *v1alpha1.EphemeralRunnerSet) *setState {
	key := client.ObjectKeyFromObject(set)
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, known := c.states[key]; known && s.uid == set.UID {
		return s
	}
	c.forgetLocked(key)
	c.states[key] = &setState{
		history: newHistory(creations{set: key, expected: c.expectations}), uid: set.UID, recentlyDeleted: map[types.UID]time.Time{},
		scaleSet: kube.ScaleSetOf(set),
	}
	return c.states[key]
}

// forget drops all that is remembered of a set that is gone, and its metrics, unless another set has taken its place in
// the scale set.
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

// served reports whether the scale set has a set besides the given one. The caller holds the lock.
func (c *Controller) served(scaleSet types.NamespacedName, besides *setState) bool {
	for _, s := range c.states {
		if s != besides && s.scaleSet == scaleSet {
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
	}
	delete(c.states, key)
	c.expectations.Forget(key)
}

// ignoreConflict drops the error of a write that came after another one: the watch brings the newer object.
func ignoreConflict(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}
