package chaos

import (
	"errors"
	"net/http"
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
	conflict:        {changes, apierrors.NewConflict(schema.GroupResource{Resource: "chaos"}, "chaos", errors.New("chaos"))},
}

func everything(*http.Request) bool { return true }

func writes(r *http.Request) bool { return r.Method != http.MethodGet }

// changes are requests that can conflict with others.
func changes(r *http.Request) bool { return r.Method == http.MethodPatch || r.Method == http.MethodPut }

// meddle lets the proxy meddle with requests for as long as the fault lasts. Of two such faults at the same time, the second
// waits for the end of the first.
func (w *world) meddle(f fault, m meddling) {
	w.meddling.Lock()
	defer w.meddling.Unlock()
	w.proxy.meddles.Store(&m)
	w.pause(f.lasts)
	w.proxy.meddles.Store(nil)
}

// cutWatches cuts all watches every 500 ms for as long as the fault lasts.
func (w *world) cutWatches(f fault) {
	const every = 500 * time.Millisecond
	for over := time.Now().Add(f.lasts); time.Now().Before(over); {
		w.proxy.cutWatches()
		w.pause(every)
	}
}
