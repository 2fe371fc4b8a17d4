package manager

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube/kinds"
)

// Several managers may run in one namespace, each watching another namespace, or one of them its own. None may touch
// the objects of another: two managers that reconcile the same runner take its registration from each other.
func TestCacheOfARestrictedManager(t *testing.T) {
	const ofRunners = v1alpha1.LabelScaleSetNamespace + "=runners"
	for name, test := range map[string]struct {
		watch string
		want  []string
	}{
		"another namespace": {"runners", []string{
			"harrier/autoscalinglisteners " + ofRunners,
			"harrier/pods " + ofRunners,
			"harrier/rolebindings " + v1alpha1.LabelScaleSetName,
			"harrier/roles " + v1alpha1.LabelScaleSetName,
			"harrier/serviceaccounts " + v1alpha1.LabelScaleSetName,
			"runners/autoscalingrunnersets ",
			"runners/ephemeralrunners ",
			"runners/ephemeralrunnersets ",
			"runners/persistentvolumeclaims actions.github.com/scale-set-name,actions.github.com/volume-claim-template",
			"runners/pods " + v1alpha1.LabelScaleSetName,
			"runners/rolebindings " + v1alpha1.LabelScaleSetName,
			"runners/roles " + v1alpha1.LabelScaleSetName,
			"runners/serviceaccounts " + v1alpha1.LabelScaleSetName,
		}},
		"its own": {"harrier", []string{
			"harrier/autoscalinglisteners " + v1alpha1.LabelScaleSetNamespace + "=harrier",
			"harrier/autoscalingrunnersets ",
			"harrier/ephemeralrunners ",
			"harrier/ephemeralrunnersets ",
			"harrier/persistentvolumeclaims actions.github.com/scale-set-name,actions.github.com/volume-claim-template",
			"harrier/pods " + v1alpha1.LabelScaleSetName,
			"harrier/rolebindings " + v1alpha1.LabelScaleSetName,
			"harrier/roles " + v1alpha1.LabelScaleSetName,
			"harrier/serviceaccounts " + v1alpha1.LabelScaleSetName,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got := listedByCache(t, Options{Namespace: "harrier", WatchNamespace: test.watch, SyncPeriod: time.Hour})
			if difference := cmp.Diff(test.want, got); difference != "" {
				t.Errorf("lists (-want +got):\n%s", difference)
			}
		})
	}
}

// listedByCache returns what the manager's caches list, as "namespace/resource selector".
func listedByCache(t *testing.T, options Options) []string {
	t.Helper()
	var lists emptyLists
	server := httptest.NewServer(&lists)
	t.Cleanup(server.Close)
	settings := options.cacheOptions()
	settings.Scheme, settings.Mapper = kinds.Scheme(), kinds.Mapper()
	informers, err := newCache(&rest.Config{Host: server.URL}, settings)
	if err != nil {
		t.Fatal(err)
	}
	if err := fillCaches(t.Context(), informers); err != nil {
		t.Fatal(err)
	}
	go func() { _ = informers.Start(t.Context()) }() // it returns when the context ends
	if !informers.WaitForCacheSync(t.Context()) {
		t.Fatal("the caches are not filled")
	}
	return lists.seen()
}

// emptyLists is an API server without objects.
type emptyLists struct {
	mu    sync.Mutex
	lists []string
}

func (l *emptyLists) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch query := request.URL.Query(); {
	case query.Get("sendInitialEvents") != "":
		w.WriteHeader(http.StatusBadRequest) // lists only
	case query.Get("watch") != "":
		w.(http.Flusher).Flush()
		<-request.Context().Done()
	default:
		_, place, _ := strings.Cut(request.URL.Path, "/namespaces/")
		l.note(place + " " + query.Get("labelSelector"))
		_, _ = w.Write([]byte(`{"metadata":{"resourceVersion":"1"},"items":[]}`))
	}
}

func (l *emptyLists) note(list string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lists = append(l.lists, list)
}

func (l *emptyLists) seen() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(slices.Values(l.lists))
}
