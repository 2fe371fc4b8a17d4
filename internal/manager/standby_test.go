package manager

import (
	"context"
	"io"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
	"sigs.k8s.io/controller-runtime/pkg/leaderelection"
	electionfake "sigs.k8s.io/controller-runtime/pkg/leaderelection/fake"

	"github.com/harrier-ci/harrier/internal/kube/kinds"
)

// This test is inside of the package: what controllers have queued is seen in no request.

// A standby has all caches that it will need, but has started no controllers: nobody would take from their queues,
// which would grow with every runner.
func TestManagerThatStandsByHasCachesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caches, lead := standBy(t)
		once := map[string]int{
			"AutoscalingRunnerSet": 1, "AutoscalingListener": 1, "EphemeralRunnerSet": 1, "EphemeralRunner": 1,
			"Pod": 1, "PersistentVolumeClaim": 1, "ServiceAccount": 1, "Role": 1, "RoleBinding": 1,
			"Lease": 1,
		}
		<-time.After(time.Minute)
		if difference := cmp.Diff(once, caches.asked()); difference != "" {
			t.Errorf("asked of the caches while it stands by (-want +got):\n%s", difference)
		}
		lead()
		<-time.After(time.Minute)
		leading := caches.asked()
		if difference := cmp.Diff(slices.Sorted(maps.Keys(once)), slices.Sorted(maps.Keys(leading))); difference != "" {
			t.Errorf("kinds that it leads with (-want +got):\n%s", difference)
		}
		for kind, times := range leading {
			if times == 1 {
				t.Errorf("no controller watches %s", kind)
			}
		}
	})
}

// standBy starts a manager that can't lead until lead is called.
func standBy(t *testing.T) (caches *countingCache, lead func()) {
	t.Helper()
	lock, err := electionfake.NewResourceLock(nil, nil, leaderelection.Options{})
	if err != nil {
		t.Fatal(err)
	}
	held := lock.(electionfake.ControllableResourceLockInterface)
	held.BlockLeaderElection()

	options, err := ParseOptions([]string{"--metrics-addr=0"}, func(string) string { return "harrier" }, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	caches = &countingCache{times: map[string]int{}}
	config := &rest.Config{Host: "http://127.0.0.1:1"}
	set := managerOptions(options, lock, NewLogger(options, io.Discard))
	set.NewCache = func(*rest.Config, cache.Options) (cache.Cache, error) { return caches, nil }
	mgr, err := ctrl.NewManager(config, set)
	if err != nil {
		t.Fatal(err)
	}
	if err := addControllers(t.Context(), mgr, options, nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := mgr.Start(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	return caches, held.UnblockLeaderElection
}

// countingCache counts the requests for the informer of a kind. All informers are empty.
type countingCache struct {
	informertest.FakeInformers
	mu    sync.Mutex
	times map[string]int
}

func (c *countingCache) GetInformer(
	_ context.Context, object client.Object, _ ...cache.InformerGetOption,
) (cache.Informer, error) {
	kind, err := apiutil.GVKForObject(object, kinds.Scheme())
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.times[kind.Kind]++
	return controllertest.NewFakeInformer(controllertest.Synced), nil
}

// asked returns the numbers of requests, by kind.
func (c *countingCache) asked() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.times)
}
