package controllertest

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	machinery "k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Started is a controller that a manager has started in a bubble, with its own queue and workers. The test shows it
// objects as its watches would, and says when a pass may begin.
type Started struct {
	t       testing.TB
	cache   *informers
	cancel  context.CancelFunc
	running sync.WaitGroup
	once    sync.Once
	stopped chan struct{}
	passes  chan client.ObjectKey
	free    chan struct{}
	freed   bool
	stuck   string
}

// Start starts a controller until the test has ended, or Stop. Its client must call AwaitTurn first in each pass.
func Start(
	t testing.TB, controller interface{ SetupWithManager(ctrl.Manager) error }, scheme *machinery.Scheme,
) *Started {
	t.Helper()
	s := &Started{t: t, cache: &informers{FakeInformers: informertest.FakeInformers{Scheme: scheme}},
		stopped: make(chan struct{}), passes: make(chan client.ObjectKey), free: make(chan struct{})}
	m := &starter{cache: s.cache, scheme: scheme, log: funcr.New(func(_, message string) {
		if strings.Contains(message, "Warning:") { // such as one of a pass that fails and yet asks for the next one
			t.Error(message)
		}
	}, funcr.Options{})}
	if err := controller.SetupWithManager(m); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), startedKey{}, s))
	s.cancel = cancel
	for _, runnable := range m.added {
		s.running.Go(func() {
			if err := runnable.Start(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(s.Stop)
	synctest.Wait()
	return s
}

// Stop ends the controller, when its passes have ended or wait for their turn.
func (s *Started) Stop() {
	s.once.Do(func() {
		close(s.stopped)
		if s.freed {
			<-time.After(time.Second) // some are under way
		}
		synctest.Wait()
		s.cancel()
	})
	s.running.Wait()
}

// Added shows an object as its watch would.
func (s *Started) Added(object client.Object) {
	if informer, err := s.cache.FakeInformerFor(s.t.Context(), object); err == nil {
		informer.Add(object)
	}
	synctest.Wait()
}

// Updated shows a change of an object as its watch would.
func (s *Started) Updated(before, after client.Object) {
	if informer, err := s.cache.FakeInformerFor(s.t.Context(), after); err == nil {
		informer.Update(before, after)
	}
	synctest.Wait()
}

// Deleted shows the end of an object as its watch would.
func (s *Started) Deleted(last client.Object) {
	if informer, err := s.cache.FakeInformerFor(s.t.Context(), last); err == nil {
		informer.Delete(last)
	}
	synctest.Wait()
}

// Next runs the next pass that is due, and what it starts. It returns its object, false if no pass is due.
func (s *Started) Next() (object client.ObjectKey, due bool) {
	select {
	case object = <-s.passes:
		synctest.Wait()
		return object, true
	default:
		return client.ObjectKey{}, false
	}
}

// Free lets all passes run as they are due, but for those of the object with that name.
func (s *Started) Free(stuck string) {
	s.stuck, s.freed = stuck, true
	close(s.free)
}

type startedKey struct{}

// AwaitTurn waits until the pass of an object may go on. Passes that a test runs itself need not wait. A pass whose
// controller is stopped ends here, and its worker with it: a worker that asked for more work could miss that the queue
// is shut down, and the queue would wait for it.
func AwaitTurn(ctx context.Context, object client.ObjectKey) {
	s, ofAWorker := ctx.Value(startedKey{}).(*Started)
	if !ofAWorker {
		return
	}
	select {
	case <-s.free:
		if object.Name != s.stuck && !s.isStopped() {
			return
		}
	case s.passes <- object:
		return
	case <-ctx.Done():
	}
	<-ctx.Done()
	runtime.Goexit()
}

func (s *Started) isStopped() bool {
	select {
	case <-s.stopped:
		return true
	default:
		return false
	}
}

// starter is the part of a manager that a controller needs to be set up.
type starter struct {
	manager.Manager // nil: nothing else is called
	cache           *informers
	scheme          *machinery.Scheme
	log             logr.Logger
	added           []manager.Runnable
}

func (m *starter) GetCache() cache.Cache                { return m.cache }
func (m *starter) GetFieldIndexer() client.FieldIndexer { return m.cache }
func (m *starter) GetScheme() *machinery.Scheme         { return m.scheme }
func (m *starter) GetLogger() logr.Logger               { return m.log }

func (m *starter) GetControllerOptions() config.Controller {
	return config.Controller{SkipNameValidation: new(true)} // a test has several of one name
}

// Elected is closed when no other manager leads any more: from the beginning.
func (m *starter) Elected() <-chan struct{} {
	elected := make(chan struct{})
	close(elected)
	return elected
}

// Add implements the manager's method.
func (m *starter) Add(runnable manager.Runnable) error {
	m.added = append(m.added, runnable)
	return nil
}

// informers are used by the controller and its sources at the same time.
type informers struct {
	informertest.FakeInformers
	mu sync.Mutex
}

// GetInformer implements the cache's method.
func (i *informers) GetInformer(
	ctx context.Context, object client.Object, options ...cache.InformerGetOption,
) (cache.Informer, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	found, err := i.FakeInformers.GetInformer(ctx, object, options...)
	return &informer{Informer: found, mu: &i.mu}, err
}

// informer gets its handlers from several sources at the same time.
type informer struct {
	cache.Informer
	mu *sync.Mutex
}

// AddEventHandlerWithOptions implements the informer's method, the only one by which sources add handlers.
func (i *informer) AddEventHandlerWithOptions(
	handler toolscache.ResourceEventHandler, options toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.Informer.AddEventHandlerWithOptions(handler, options)
}
