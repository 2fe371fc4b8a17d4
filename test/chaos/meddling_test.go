package chaos

import (
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// refusal is an answer of the API server's, and to which requests it comes.
type refusal struct {
	hits   func(*http.Request) bool
	answer *apierrors.StatusError
}

// refusals by the variant of their fault.
var refusals = map[string]refusal{
	tooManyRequests: {everything, apierrors.NewTooManyRequests("chaos", 1)},
	internalError:   {everything, apierrors.NewInternalError(errors.New("chaos"))},
	timedOut:        {writes, apierrors.NewTimeoutError("chaos", 1)},
	conflict:        {changes, apierrors.NewConflict(schema.GroupResource{Resource: "chaos"}, "chaos", errors.New("chaos"))},
}

func everything(*http.Request) bool { return true }

func writes(r *http.Request) bool { return r.Method != http.MethodGet }

// changes are requests that can conflict with others.
func changes(r *http.Request) bool { return r.Method == http.MethodPatch || r.Method == http.MethodPut }

// meddle has the proxy meddle for as long as the fault lasts. Two such faults at a time are one after the other.
func (w *world) meddle(f fault, m meddling) {
	w.meddling.Lock()
	defer w.meddling.Unlock()
	w.proxy.meddles.Store(&m)
	w.pause(f.lasts)
	w.proxy.meddles.Store(nil)
}

// cutWatches cuts all watches again and again.
func (w *world) cutWatches(f fault) {
	const every = 500 * time.Millisecond
	for over := time.Now().Add(f.lasts); time.Now().Before(over); {
		w.proxy.cutWatches()
		w.pause(every)
	}
}
