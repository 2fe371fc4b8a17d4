package reconcile_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/internal/reconcile"
)

// recorder is a kind whose passes write down what they do. Its objects are ConfigMaps.
type recorder struct {
	*testing.T
	clock  *clocktesting.FakePassiveClock
	there  map[types.NamespacedName]*corev1.ConfigMap
	done   []string
	broken map[string]error
	kind   reconcile.Kind[*corev1.ConfigMap, memory, *world]
	passes *reconcile.Reconciler[*corev1.ConfigMap, memory, *world]
}

type memory struct{ passes int }

type world struct {
	*reconcile.Pass[*corev1.ConfigMap, memory]
}

var key = types.NamespacedName{Namespace: "a", Name: "object"}

func newRecorder(t *testing.T) *recorder {
	t.Helper()
	l := &recorder{
		T:      t,
		clock:  clocktesting.NewFakePassiveClock(time.Unix(100, 0)),
		there:  map[types.NamespacedName]*corev1.ConfigMap{},
		broken: map[string]error{},
	}
	small := func(w *world) bool { return len(w.Object.Data) < 2 }
	reported := func(step reconcile.Step[*world]) reconcile.Step[*world] {
		return reconcile.Reported(
			func(_ context.Context, _ *world, failure error) error { return errors.Join(failure, l.do("report")) },
			step,
		)
	}
	l.kind = reconcile.Kind[*corev1.ConfigMap, memory, *world]{
		Name: "ConfigMap", New: func() *corev1.ConfigMap { return &corev1.ConfigMap{} },
		Client: l, Clock: l.clock,
		Begin: func(context.Context) error { return l.broken["begin"] },
		Remember: func(object *corev1.ConfigMap) *memory {
			l.done = append(l.done, "remember "+string(object.UID))
			return &memory{}
		},
		Forget: func(types.NamespacedName, *memory) { l.done = append(l.done, "forget") },
		Gone: func(_ context.Context, _ types.NamespacedName, m *memory) (ctrl.Result, error) {
			if m == nil {
				return ctrl.Result{}, l.do("gone, unknown")
			}
			return ctrl.Result{RequeueAfter: time.Minute}, l.do("gone")
		},
		Observe: func(_ context.Context, p *reconcile.Pass[*corev1.ConfigMap, memory]) (*world, error) {
			p.Memory.passes++
			return &world{p}, l.broken["observe"]
		},
		Rules: []reconcile.Rule[*world, reconcile.Step[*world]]{
			reconcile.When(
				"it is being deleted", func(w *world) bool { return w.Object.DeletionTimestamp != nil },
				reconcile.Nothing[*world],
			),
			reconcile.When("it is small", small, reported(reconcile.InOrder(l.step("first"), l.step("second")))),
			reconcile.When(
				"it is large", func(w *world) bool { return !small(w) },
				reconcile.Each(l.step("one"), l.step("other")),
			),
		},
	}
	l.passes = reconcile.For(l.kind)
	return l
}

func (l *recorder) do(what string) error {
	l.done = append(l.done, what)
	return l.broken[what]
}

func (l *recorder) step(name string) reconcile.Step[*world] {
	return func(_ context.Context, w *world) error {
		w.Requeue.After(time.Hour)
		return l.do(name)
	}
}

// Get reads from there, the way a cache does.
func (l *recorder) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	found, ok := l.there[key]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, key.Name)
	}
	found.DeepCopyInto(object.(*corev1.ConfigMap))
	return l.broken["get"]
}

// List is of no use here.
func (l *recorder) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

// pass makes a pass, and returns what it did.
func (l *recorder) pass() (done []string, result ctrl.Result, err error) {
	l.done = nil
	result, err = l.passes.Reconcile(l.Context(), ctrl.Request{NamespacedName: key})
	return l.done, result, err
}

// object puts the object there.
func (l *recorder) object(uid types.UID, keys ...string) {
	data := map[string]string{}
	for _, k := range keys {
		data[k] = ""
	}
	l.there[key] = &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: uid},
		Data:       data,
	}
}

func (l *recorder) want(after time.Duration, want ...string) {
	l.Helper()
	done, result, err := l.pass()
	if err != nil || !slices.Equal(done, want) || result.RequeueAfter != after {
		l.Errorf("did %q, then requeued after %s: %v; want %q, and %s", done, result.RequeueAfter, err, want, after)
	}
}

func TestTheFirstRuleThatAppliesDecides(t *testing.T) {
	l := newRecorder(t)
	l.object("1")
	l.want(time.Hour, "remember 1", "first", "second", "report")
	l.object("1", "some", "more")
	l.want(time.Hour, "one", "other")
	l.there[key].DeletionTimestamp = &metav1.Time{Time: time.Unix(99, 0)}
	l.want(0)
}

func TestAMemoryIsOfOneObjectUntilThatIsGone(t *testing.T) {
	l := newRecorder(t)
	l.object("1")
	l.want(time.Hour, "remember 1", "first", "second", "report")
	l.want(time.Hour, "first", "second", "report")
	l.passes.EachMemory(func(_ types.NamespacedName, m *memory) {
		if m.passes != 2 {
			t.Errorf("%d passes are remembered, want 2", m.passes)
		}
	})
	if known := l.passes.Known(key); known == nil || known.passes != 2 {
		t.Errorf("under its name %+v is remembered, want 2 passes", known)
	}
	l.object("2") // it was deleted and created again between two passes
	l.want(time.Hour, "remember 2", "forget", "first", "second", "report")
	delete(l.there, key)
	l.broken["gone"] = errors.New("not yet")
	if done, _, err := l.pass(); err == nil || !slices.Equal(done, []string{"gone"}) {
		t.Errorf("did %q: %v; want the memory kept, and an error", done, err)
	}
	delete(l.broken, "gone")
	l.want(time.Minute, "gone", "forget")
	l.want(0, "gone, unknown")
}

func TestWhatFailsEndsThePass(t *testing.T) {
	failure := errors.New("broken")
	for name, test := range map[string]struct {
		where string
		keys  []string
		want  []string
	}{
		"the beginning":            {where: "begin"},
		"the read":                 {where: "get"},
		"the observation":          {where: "observe"},
		"a step":                   {where: "first", want: []string{"first", "report"}},
		"the report":               {where: "report", want: []string{"first", "second", "report"}},
		"one of independent steps": {where: "one", keys: []string{"some", "more"}, want: []string{"one", "other"}},
		"a later step":             {where: "second", want: []string{"first", "second", "report"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newRecorder(t)
			l.object("1", test.keys...)
			l.passes.MemoryOf(l.there[key])
			l.broken[test.where] = failure
			done, result, err := l.pass()
			if !errors.Is(err, failure) || !slices.Equal(done, test.want) || result.RequeueAfter != 0 {
				t.Errorf(
					"did %q, requeued after %s: %v; want %q and the failure",
					done, result.RequeueAfter, err, test.want,
				)
			}
		})
	}
}

func TestAWriteThatWasOvertakenIsTriedAgainWithoutAnError(t *testing.T) {
	l := newRecorder(t)
	l.object("1")
	l.broken["first"] = apierrors.NewConflict(
		schema.GroupResource{Resource: "configmaps"}, key.Name, errors.New("changed"),
	)
	l.want(time.Second, "remember 1", "first", "report")
}

func TestAPassKeepsItsPriority(t *testing.T) {
	l := newRecorder(t)
	l.object("1")
	observe := l.kind.Observe
	l.kind.Observe = func(ctx context.Context, p *reconcile.Pass[*corev1.ConfigMap, memory]) (*world, error) {
		p.Priority = new(7)
		return observe(ctx, p)
	}
	l.passes = reconcile.For(l.kind)
	if _, result, err := l.pass(); err != nil || result.Priority == nil || *result.Priority != 7 {
		t.Errorf("result %+v, %v; want priority 7", result, err)
	}
}

func TestThePassAtAMomentComesThenHoweverLongThisOneTakes(t *testing.T) {
	l := newRecorder(t)
	l.object("1")
	for name, test := range map[string]struct {
		moments []time.Time
		want    time.Duration
	}{
		"never": {[]time.Time{{}}, time.Hour},
		"the earliest": {
			[]time.Time{time.Unix(190, 0), time.Unix(160, 0), {}, time.Unix(170, 0)}, 50 * time.Second,
		},
		"after the steps'": {[]time.Time{time.Unix(100_000, 0)}, time.Hour},
		"passed already":   {[]time.Time{time.Unix(105, 0)}, time.Millisecond},
		"passed long ago":  {[]time.Time{time.Unix(100, 0).Add(-time.Hour)}, time.Millisecond},
		"this very moment": {[]time.Time{time.Unix(110, 0)}, time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			l.kind.Observe = func(_ context.Context, p *reconcile.Pass[*corev1.ConfigMap, memory]) (*world, error) {
				for _, moment := range test.moments {
					p.RequeueAt(moment)
				}
				l.clock.SetTime(p.Now.Add(10 * time.Second))
				return &world{p}, nil
			}
			l.clock.SetTime(time.Unix(100, 0))
			l.passes = reconcile.For(l.kind)
			if _, result, err := l.pass(); err != nil || result.RequeueAfter != test.want {
				t.Errorf("the next pass comes after %s (%v), want %s", result.RequeueAfter, err, test.want)
			}
		})
	}
}

func TestIsStale(t *testing.T) {
	for _, test := range []struct {
		have, written string
		want          bool
	}{
		{"9", "10", true}, {"10", "10", false}, {"11", "10", false}, {"9", "", false}, {"", "10", false},
		{"x", "10", false},
	} {
		object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: test.have}}
		if got := reconcile.IsStale(object, test.written); got != test.want {
			t.Errorf("IsStale(%q, %q) = %t", test.have, test.written, got)
		}
	}
}
