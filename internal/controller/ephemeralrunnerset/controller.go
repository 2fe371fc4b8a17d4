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
	// GitHub returns the client for a scale set's credentials.
	GitHub func(context.Context, credentials.Reference) (GitHub, error)
	// Proxy returns the data of the Secret that gives runners their proxy, nil where there is none.
	Proxy func(context.Context, credentials.Reference) (map[string][]byte, error)
	// Pool runs the calls to GitHub.
	Pool *pool.Pool
	// Removed takes the registrations that GitHub has removed, so that the runners' own farewell need not ask again. It
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
	// waker brings sets back whose question to GitHub was answered.
	waker kube.Waker

	mu       sync.Mutex
	memories map[types.NamespacedName]*setMemory
}

// setMemory is everything that is remembered of one set between passes. A set is reconciled by one worker at a time, so
// only the map that holds it needs a lock.
type setMemory struct {
	*memory
	uid types.UID
	// scaleSet is the one whose runners these are; its metrics have that name. The set has another one where ARC made it.
	scaleSet types.NamespacedName
	// unanswered are names of runners whose creation had no answer: the same names are tried again.
	unanswered []string
	// dropped are the runners that were deleted of late and may still look alive in the cache.
	dropped map[types.UID]time.Time
	// published are the states of runners that have series, labels those of the series that count them as ARC does.
	published map[stateAndReason]int
	labels    seriesLabels
	// reported is when the status was last written.
	reported time.Time
	// proxyHash identifies the proxy Secret last applied, proxyApplied is when that was.
	proxyHash    string
	proxyApplied time.Time
}

// NewController returns a controller that does nothing until SetupWithManager has registered it.
func NewController(options Options) *Controller {
	c := &Controller{
		options:      options,
		roster:       newRoster(),
		expectations: kube.NewExpectations(options.Clock),
		memories:     map[types.NamespacedName]*setMemory{},
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

	p.memory, p.specHash = c.memoryOf(set), templateHash(set)
	p.memory.place = placeOf(&set.Spec.EphemeralRunnerSpec)
	over := p.memory.note(p.views, set.Spec.PatchID, p.specHash, c.options.Clock.Now())
	c.questions.forget(request.NamespacedName, over)
	c.questions.note(ctx, p.memory.memory, request.NamespacedName, p.views)
	p.plan = p.memory.plan(p.views, demandOf(&set.Spec), c.expected(p))

	err := c.apply(ctx, p)
	if err = errors.Join(err, c.report(ctx, p)); err != nil {
		return ctrl.Result{}, err // the next pass comes by itself, soon
	}
	return kube.RequeueAt(p.plan.again, c.options.Clock.Now()), nil
}

// pass is one reconciliation of a set: what was observed and what was decided.
type pass struct {
	set *v1alpha1.EphemeralRunnerSet
	// views are the set's runners, oldest first.
	views  []*runner
	memory *setMemory
	// specHash identifies the template that runners are made from, and plan is what is to be done. A set that is being
	// deleted has neither.
	specHash string
	plan     *plan
}

// expected counts the runners that were created, or may have been, and are not among those seen. These must be what the
// roster had before the expectations are looked at here: what is met in between is gone again, and not expected for that.
func (c *Controller) expected(p *pass) int {
	key, m := client.ObjectKeyFromObject(p.set), p.memory
	c.expectations.Expect(key, m.unanswered...) // for as long as they are tried again
	pending := c.expectations.Pending(key)
	if len(pending) == 0 {
		return 0
	}
	for _, r := range p.views {
		if _, met := pending[r.name]; met {
			c.expectations.Met(key, r.name)
			delete(pending, r.name)
		}
	}
	m.unanswered = slices.DeleteFunc(m.unanswered, func(name string) bool {
		_, still := pending[name]
		return !still
	})
	for name, since := range pending {
		if c.options.Clock.Since(since) > expectedAtMost {
			c.expectations.Met(key, name)
			delete(pending, name)
		}
	}
	return len(pending)
}

// memoryOf returns what is remembered of the set; of a former one of its name that is nothing.
func (c *Controller) memoryOf(set *v1alpha1.EphemeralRunnerSet) *setMemory {
	key := client.ObjectKeyFromObject(set)
	c.mu.Lock()
	defer c.mu.Unlock()
	if m, known := c.memories[key]; known && m.uid == set.UID {
		return m
	}
	c.drops(key)
	c.memories[key] = &setMemory{
		memory: newMemory(), uid: set.UID, dropped: map[types.UID]time.Time{},
		scaleSet: kube.ScaleSetOf(set),
	}
	return c.memories[key]
}

// forget drops everything about a set that is gone, and its metrics unless another one has taken its place in the scale
// set by then.
func (c *Controller) forget(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	gone, known := c.memories[key]
	c.drops(key)
	if !known {
		return
	}
	if !c.served(gone.scaleSet, gone) {
		deleteMetrics(gone.scaleSet)
	}
}

// served says that the scale set has a set besides the given one. The caller holds the lock.
func (c *Controller) served(scaleSet types.NamespacedName, besides *setMemory) bool {
	for _, m := range c.memories {
		if m != besides && m.scaleSet == scaleSet {
			return true
		}
	}
	return false
}

// drops forgets what is remembered under a set's name. The caller holds the lock.
func (c *Controller) drops(key types.NamespacedName) {
	if m, known := c.memories[key]; known {
		for uid, p := range m.runners {
			c.questions.forget(key, []registration{{uid, p.registration}})
		}
	}
	delete(c.memories, key)
	c.expectations.Forget(key)
}

// ignoreConflict drops the error of a write that lost against another one: the watch brings the newer object.
func ignoreConflict(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}
