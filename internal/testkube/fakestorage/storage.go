// Package fakestorage plays what becomes of PersistentVolumeClaims on an API server that has neither a provisioner nor
// a scheduler: it binds them, in zones that may be full, lets pods wait for claims that they can't have, and mounts
// them for the pods of package fakenode. It notes each claim that two pods have at a time, which the product must never
// cause. It does not keep a claim from deletion while a pod has it: kube-controller-manager does that itself
// (testkube.Options.ControllerManager).
package fakestorage

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/internal/kube/informer"
)

// Options configure a storage. The zero value binds the claims of all namespaces, in a single zone, when the first pod
// that mounts them is placed (WaitForFirstConsumer).
type Options struct {
	// Accepts chooses the claims that are bound. Nil accepts all.
	Accepts func(*corev1.PersistentVolumeClaim) bool
	// Immediate binds claims as soon as they exist, in one zone after the other, full or not.
	Immediate bool
	// Zones are those in which volumes may be. Default one.
	Zones []string
	// A volume is made within Latency.
	Latency time.Duration
	// Clock drives Latency. Default: the real one.
	Clock clock.WithTicker
}

// Storage binds and mounts claims until it is stopped.
type Storage struct {
	options   Options
	clientset kubernetes.Interface
	claims    cache.SharedIndexInformer
	cancel    context.CancelFunc
	working   sync.WaitGroup

	mutex   sync.Mutex
	changed chan struct{} // closed and replaced when something changes that a pod may wait for
	// zones are those of volumes, and holders the pods that have them mounted, by the UIDs of their claims.
	zones   map[types.UID]string
	holders map[types.UID]*corev1.Pod
	full    sets.Set[string]
	begun   int // claims that were bound immediately
	// unmade and unmounted return the reason why a volume can't be made or mounted; nil means that all can.
	unmade     func(*corev1.PersistentVolumeClaim) string
	unmounted  func(*corev1.Pod, *corev1.PersistentVolumeClaim) string
	violations []string
}

// Start launches a storage that ends with the test. It acts with config, an administrator's. The test fails if the API
// server can't be reached.
func Start(t testing.TB, config *rest.Config, options Options) *Storage {
	t.Helper()
	config = rest.CopyConfig(config)
	config.QPS, config.UserAgent = -1, "fakestorage"
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatalf("make the storage's client: %v", err)
	}
	if options.Accepts == nil {
		options.Accepts = func(*corev1.PersistentVolumeClaim) bool { return true }
	}
	if len(options.Zones) == 0 {
		options.Zones = []string{"zone"}
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	source := cache.NewListWatchFromClient(clientset.CoreV1().RESTClient(), "persistentvolumeclaims", "",
		fields.Everything())
	ctx, cancel := context.WithCancel(context.Background())
	s := &Storage{
		options: options, clientset: clientset, cancel: cancel, changed: make(chan struct{}),
		claims: cache.NewSharedIndexInformer(informer.Persistent(source, options.Clock),
			&corev1.PersistentVolumeClaim{}, 0,
			cache.Indexers{}),
		zones: map[types.UID]string{}, holders: map[types.UID]*corev1.Pod{}, full: sets.New[string](),
	}
	t.Cleanup(s.Stop)
	if err := s.watch(ctx); err != nil {
		t.Fatalf("watch claims: %v", err)
	}
	return s
}

// Stop ends what is under way. Claims stay as they are.
func (s *Storage) Stop() {
	s.cancel()
	s.working.Wait()
}

func (s *Storage) watch(ctx context.Context) error {
	_, err := s.claims.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { s.added(ctx, object.(*corev1.PersistentVolumeClaim)) },
		UpdateFunc: func(_, _ any) { s.change(func() {}) },
		DeleteFunc: func(any) { s.change(func() {}) },
	})
	if err != nil {
		return err
	}
	s.working.Go(func() { s.claims.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), s.claims.HasSynced) {
		return errors.New("stopped before the first list came")
	}
	return nil
}

// added binds a claim that needs no pod for that.
func (s *Storage) added(ctx context.Context, claim *corev1.PersistentVolumeClaim) {
	s.change(func() {})
	if !s.options.Immediate || claim.Status.Phase == corev1.ClaimBound || !s.options.Accepts(claim) {
		return
	}
	var zone string
	s.change(func() {
		zone = s.options.Zones[s.begun%len(s.options.Zones)]
		s.begun++
	})
	s.working.Go(func() {
		for {
			changed := s.changes()
			found, err := s.claim(ctx, claim.Namespace, claim.Name)
			if apierrors.IsNotFound(err) || (err == nil && found.UID != claim.UID) {
				return
			}
			if err == nil && s.makeable(ctx, found) == "" && s.bind(ctx, found, zone) == nil {
				return
			}
			if s.await(ctx, changed) != nil {
				return
			}
		}
	})
}

// FillZone lets no further pod into a zone, or lets them in again. Pods that are there stay.
func (s *Storage) FillZone(zone string, full bool) {
	s.change(func() {
		s.full.Delete(zone)
		if full {
			s.full.Insert(zone)
		}
	})
}

// RefuseVolumes installs the function that returns the reason why a volume can't be made for a claim, such as a missing
// StorageClass; empty if it can be made. Nil means that all can be made.
func (s *Storage) RefuseVolumes(why func(*corev1.PersistentVolumeClaim) string) {
	s.change(func() { s.unmade = why })
}

// RefuseMounts installs the function that returns the reason why a pod's node can't mount a claim, empty if it can. Nil
// means that all can be mounted.
func (s *Storage) RefuseMounts(why func(*corev1.Pod, *corev1.PersistentVolumeClaim) string) {
	s.change(func() { s.unmounted = why })
}

// ZoneOf returns the zone of a claim's volume, empty if it has none.
func (s *Storage) ZoneOf(claim *corev1.PersistentVolumeClaim) string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.zones[claim.UID]
}

// Violations lists the claims that two pods had at a time.
func (s *Storage) Violations() []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return slices.Clone(s.violations)
}

// change does something and wakes whoever waits for a change.
func (s *Storage) change(do func()) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	do()
	close(s.changed)
	s.changed = make(chan struct{})
}

// changes returns a channel that is closed at the next change.
func (s *Storage) changes() <-chan struct{} {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.changed
}

// Something that failed without a change to come is tried again after retry, as while the API server is away.
const retry = time.Second

// await waits for the change, or until it is time to try again. It fails if ctx ends.
func (s *Storage) await(ctx context.Context, changed <-chan struct{}) error {
	timer := s.options.Clock.NewTimer(retry)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C():
	case <-ctx.Done():
	}
	return ctx.Err()
}
