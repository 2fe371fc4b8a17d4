package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/util/workqueue"

	"github.com/harrier-ci/harrier/internal/kube"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Pass is one pass of one object. A kind's world embeds it.
type Pass[T client.Object, M any] struct {
	Key types.NamespacedName
	// Object is the pass's own copy, as the cache has it.
	Object T
	// Memory belongs to this very object. No other pass uses it meanwhile.
	Memory *M
	// Now is the time at which the pass began.
	Now time.Time
	// At Requeue the next pass comes even if nothing changes.
	Requeue Earliest
	dueAt   time.Time // the same as a moment
	// Priority is that of the next pass if it comes by time or after an error; nil for the priority of the event that
	// began this pass.
	Priority *int
}

// RequeueAt asks for another pass at a moment, or immediately if that has passed. Zero means never.
func (p *Pass[T, M]) RequeueAt(moment time.Time) {
	if p.dueAt.IsZero() || (!moment.IsZero() && moment.Before(p.dueAt)) {
		p.dueAt = moment
	}
}

// IsStale reports whether the cached object is older than a version that we wrote ourselves: the watch has not
// delivered that version yet, and what the object says must not be acted on twice. If a version is empty or the two
// can't be compared, the object counts as current.
func IsStale(object client.Object, version string) bool {
	order, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), version)
	return err == nil && order < 0
}

// Kind describes the reconciliation of the objects of one kind: T is the kind, M the memory of an object between
// passes, and W the world of a pass, by which its rules decide. Functions may be nil unless they say otherwise.
type Kind[T client.Object, M, W any] struct {
	// Name is the kind's, for messages, and New returns an empty object of it. Both are required.
	Name string
	New  func() T
	// Client reads from the manager's cache. It is required, and so is Clock.
	Client client.Reader
	Clock  clock.PassiveClock
	// Begin is called first in every pass. If it fails, so does the pass.
	Begin func(context.Context) error
	// Remember returns the memory of an object that no pass has seen; by default it is empty. Forget is called with the
	// memory of an object that is gone, or whose name another object has now, after the memory was dropped.
	Remember func(T) *M
	Forget   func(types.NamespacedName, *M)
	// Gone is called if there is no object of that name, with the memory of the object that was there, nil if there is
	// none. The memory is dropped unless Gone fails.
	Gone func(context.Context, types.NamespacedName, *M) (ctrl.Result, error)
	// Log returns a context whose logger names the object as its users do.
	Log func(context.Context, T) context.Context
	// Observe gathers what the rules decide by. It is required. If it fails, so does the pass, and nothing is done.
	Observe func(context.Context, *Pass[T, M]) (W, error)
	// Rules are tried in their order; the first that applies decides the pass. If none does, there is nothing to do.
	Rules []Rule[W, Step[W]]
}

// Reconciler reconciles the objects of a kind. Safe for concurrent use, but for the same object.
type Reconciler[T client.Object, M, W any] struct {
	kind     Kind[T, M, W]
	memories memories[M]
}

// For returns the reconciler of a kind.
func For[T client.Object, M, W any](kind Kind[T, M, W]) *Reconciler[T, M, W] {
	if kind.Remember == nil {
		kind.Remember = func(T) *M { return new(M) }
	}
	if kind.Forget == nil {
		kind.Forget = func(types.NamespacedName, *M) {}
	}
	return &Reconciler[T, M, W]{kind: kind}
}

// Reconcile makes one pass.
func (r *Reconciler[T, M, W]) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	if r.kind.Begin != nil {
		if err := r.kind.Begin(ctx); err != nil {
			return ctrl.Result{}, err
		}
	}
	pass := &Pass[T, M]{Key: request.NamespacedName, Object: r.kind.New(), Now: r.kind.Clock.Now()}
	err := r.kind.Client.Get(ctx, pass.Key, pass.Object)
	switch {
	case apierrors.IsNotFound(err):
		return r.gone(ctx, pass.Key)
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("get %s: %w", r.kind.Name, err)
	}
	if r.kind.Log != nil {
		ctx = r.kind.Log(ctx, pass.Object)
	}
	pass.Memory = r.MemoryOf(pass.Object)
	world, err := r.kind.Observe(ctx, pass)
	if err == nil {
		if rule := First(r.kind.Rules, world); rule != nil {
			err = rule.Do(ctx, world)
		}
	}
	if !pass.dueAt.IsZero() { // the pass may have taken a while
		pass.Requeue.After(pass.dueAt.Sub(r.kind.Clock.Now()))
	}
	result, err := pass.Requeue.Result(err)
	result.Priority = pass.Priority
	return result, err
}

// gone ends the life of an object that doesn't exist.
func (r *Reconciler[T, M, W]) gone(ctx context.Context, key types.NamespacedName) (result ctrl.Result, err error) {
	memory := r.memories.get(key)
	if r.kind.Gone != nil {
		result, err = r.kind.Gone(ctx, key, memory)
	}
	if err == nil && memory != nil {
		r.memories.drop(key)
		r.kind.Forget(key, memory)
	}
	return result, err
}

// MemoryOf returns what is remembered of an object. What is remembered of a former one of its name is dropped.
func (r *Reconciler[T, M, W]) MemoryOf(object T) *M {
	key := client.ObjectKeyFromObject(object)
	memory, former, fresh := r.memories.of(key, object.GetUID(), func() *M { return r.kind.Remember(object) })
	if fresh && former != nil {
		r.kind.Forget(key, former)
	}
	return memory
}

// Known returns what is remembered of the object of that name, nil if no pass has seen it. A pass may be using it: that
// part may be read that never changes or has a lock of its own.
func (r *Reconciler[T, M, W]) Known(key types.NamespacedName) *M { return r.memories.get(key) }

// EachMemory calls do with what is remembered of each object. Passes may be using it: do may only read what they never
// change. It must not call the Reconciler.
func (r *Reconciler[T, M, W]) EachMemory(do func(types.NamespacedName, *M)) { r.memories.each(do) }

// memories holds what a controller remembers of each of its objects between passes: only what limits rates and waits,
// or saves work, and may be lost in a restart. An object is reconciled by one worker at a time, so only the map has a
// lock. The zero value is empty.
type memories[M any] struct {
	mu      sync.Mutex
	objects map[types.NamespacedName]remembered[M]
}

// remembered is the memory of the object with this UID.
type remembered[M any] struct {
	uid    types.UID
	memory *M
}

// of returns the memory of the object with that UID. fresh reports that this very object was not seen before: then
// memory is new, made by remember, and former is the memory of another object of its name, which may have been deleted
// and created again between two passes.
func (m *memories[M]) of(key types.NamespacedName, uid types.UID, remember func() *M) (memory, former *M, fresh bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.objects[key]
	if known.memory != nil && known.uid == uid {
		return known.memory, nil, false
	}
	if m.objects == nil {
		m.objects = map[types.NamespacedName]remembered[M]{}
	}
	memory = remember()
	m.objects[key] = remembered[M]{uid, memory}
	return memory, known.memory, true
}

// get returns what is remembered under a name, nil if nothing is.
func (m *memories[M]) get(key types.NamespacedName) *M {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.objects[key].memory
}

func (m *memories[M]) drop(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, key)
}

func (m *memories[M]) each(do func(types.NamespacedName, *M)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, known := range m.objects {
		do(key, known.memory)
	}
}

// Rule has what to do in one situation. W is the world by which the situation is recognized, and D what is to be done:
// a Step for a controller's rules, a decision for those of a pure plan.
type Rule[W, D any] struct {
	// Situation is the rule's name, in words.
	Situation string
	// Applies reports whether this is the situation. It must not change the world.
	Applies func(W) bool
	Do      D
}

// When returns a rule.
func When[W, D any](situation string, applies func(W) bool, do D) Rule[W, D] {
	return Rule[W, D]{Situation: situation, Applies: applies, Do: do}
}

// Otherwise returns the last rule of a list, which always applies.
func Otherwise[W, D any](situation string, do D) Rule[W, D] {
	return When(situation, func(W) bool { return true }, do)
}

// First returns the first rule that applies, nil if none does.
func First[W, D any](rules []Rule[W, D], world W) *Rule[W, D] {
	for i := range rules {
		if rules[i].Applies(world) {
			return &rules[i]
		}
	}
	return nil
}

// Step does something in a pass. What it finds out for later steps and for the report is kept in the world.
type Step[W any] = func(context.Context, W) error

// InOrder takes steps in order, up to the first that fails.
func InOrder[W any](steps ...Step[W]) Step[W] {
	return func(ctx context.Context, world W) error {
		for _, step := range steps {
			if err := step(ctx, world); err != nil {
				return err
			}
		}
		return nil
	}
}

// Each takes all the steps in order, whichever fail: none needs what another one does.
func Each[W any](steps ...Step[W]) Step[W] {
	return func(ctx context.Context, world W) error {
		var errs []error
		for _, step := range steps {
			errs = append(errs, step(ctx, world))
		}
		return errors.Join(errs...)
	}
}

// Reported takes a step and then, even if that has failed, calls report with its error. The pass fails with what report
// returns.
func Reported[W any](report func(context.Context, W, error) error, step Step[W]) Step[W] {
	return func(ctx context.Context, world W) error { return report(ctx, world, step(ctx, world)) }
}

// Nothing is the step of a rule that ends the pass.
func Nothing[W any](context.Context, W) error { return nil }

// A cache has caught up within behindGrace, usually much sooner.
const behindGrace = time.Second

// Earliest collects the times at which the object is to be reconciled again. The zero value means never.
type Earliest struct{ after time.Duration }

// After asks for another pass. It comes at the earliest of all times asked for.
func (e *Earliest) After(d time.Duration) {
	d = max(d, time.Millisecond) // zero would mean never
	if e.after == 0 || d < e.after {
		e.after = d
	}
}

// Result returns the result of the pass. A request that was refused because the cache was behind is repeated without an
// error. A request that was refused because its namespace is being deleted is not repeated: it would be refused again,
// and the deletion of the namespace's objects brings events of its own.
func (e *Earliest) Result(err error) (ctrl.Result, error) {
	switch {
	case err == nil:
		return ctrl.Result{RequeueAfter: e.after}, nil
	case every(err, kube.IsBehind):
		return ctrl.Result{RequeueAfter: behindGrace}, nil
	case every(err, kube.IsNamespaceTerminating):
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, err
}

// every reports whether an error is of a sort, and if it joins several, wrapped or not, whether all of them are: one
// that matters is not lost among others.
func every(err error, is func(error) bool) bool {
	for wraps := err; wraps != nil; wraps = errors.Unwrap(wraps) {
		if joined, isJoined := wraps.(interface{ Unwrap() []error }); isJoined {
			return !slices.ContainsFunc(joined.Unwrap(), func(err error) bool { return !every(err, is) })
		}
	}
	return is(err)
}

// Queue takes requests to reconcile from the handler of a watch.
type Queue = workqueue.TypedRateLimitingInterface[ctrl.Request]

// Waker requeues objects from outside a pass, such as at the end of a call to GitHub. It is a source for one
// controller. Before that controller has started there is nothing to wake, because it begins with all objects. Unlike a
// channel it never blocks, even if nobody listens any more.
type Waker struct {
	mu    sync.Mutex
	queue Queue
}

// Start stores the controller's queue. It implements controller-runtime's Source.
func (w *Waker) Start(_ context.Context, queue Queue) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = queue
	return nil
}

// Wake enqueues the object.
func (w *Waker) Wake(object types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queue != nil {
		w.queue.Add(ctrl.Request{NamespacedName: object})
	}
}
