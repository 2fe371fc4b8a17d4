package chaos

import (
	"errors"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// refusal is an error that the API server could answer, and the requests to which the proxy answers it.
type refusal struct {
	hits   func(*http.Request) bool
	answer *apierrors.StatusError
}

// refusals are those of the fault refuseWrites, by its variant.
var refusals = map[string]refusal{
	tooManyRequests: {everything, apierrors.NewTooManyRequests("chaos", 1)},
	internalError:   {everything, apierrors.NewInternalError(errors.New("chaos"))},
	timedOut:        {writes, apierrors.NewTimeoutError("chaos", 1)},
	conflict: {changes, apierrors.NewConflict(schema.GroupResource{Resource: "chaos"}, "chaos",
		errors.New("chaos"))},
}

func everything(*http.Request) bool { return true }

func writes(r *http.Request) bool { return r.Method != http.MethodGet }

// leases are requests for leader election.
func leases(r *http.Request) bool { return strings.Contains(r.URL.Path, "/leases") }

// changes are requests that can conflict with others.
func changes(r *http.Request) bool { return r.Method == http.MethodPatch || r.Method == http.MethodPut }

// meddle lets the proxy meddle with requests for as long as the fault lasts. Of two such faults at the same time, the
// second waits for the end of the first.
func (w *world) meddle(f fault, m meddling) {
	w.meddling.Lock()
	defer w.meddling.Unlock()
	w.proxy.meddles.Store(&m)
	w.pause(f.lasts)
	w.proxy.meddles.Store(nil)
}

// severances are those of the fault cutOffLeader, by its variant.
var severances = map[string]severance{
	leaseHangs:   {hits: leases},
	leaseRefused: {hits: leases, refuse: true},
	writesHang:   {hits: writes},
}

// cutOffLeader keeps the leader alive, with its watches, while it can't renew its Lease, so that another manager takes
// over.
func (w *world) cutOffLeader(f fault) {
	leader := w.proxy.leader.Load()
	if leader == nil {
		w.errorf("no manager has a Lease")
		return
	}
	over := make(chan struct{})
	cut := severances[f.variant]
	cut.credential, cut.over = *leader, over
	w.proxy.severed.Store(&cut)
	w.pause(f.lasts)
	w.proxy.severed.Store(nil)
	close(over)
	w.logf("the leader is no longer cut off, another has taken over: %t", *w.proxy.leader.Load() != *leader)
}

// cutWatches cuts all watches every 500 ms for as long as the fault lasts.
func (w *world) cutWatches(f fault) {
	const every = 500 * time.Millisecond
	for over := time.Now().Add(f.lasts); time.Now().Before(over); {
		w.proxy.cutWatches()
		w.pause(every)
	}
}
