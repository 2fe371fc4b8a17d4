package ephemeralrunner

import (
	"context"
	"sync"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// turns says when the runner of a simulation is reconciled: after an event, when a call has ended, when the last pass
// asked for it, and after an error. If a requeue is missing, the runner stays as it is.
type turns struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request] // nil: the controller's calls only add
	event                                                   bool
	due                                                     time.Time // zero means never

	wakes sync.Mutex
	woken bool // by the end of a call
}

const (
	// errorPause is the pause after a pass that failed.
	errorPause = time.Second
	// At most mostPassesAtOnce passes may follow each other without time passing.
	mostPassesAtOnce = 50
)

// take makes the controller use this as its queue from now on, which begins with all runners.
func (q *turns) take(c *Controller) {
	_ = c.waker.Start(context.Background(), q)
	q.event = true
}

// Add is called when a call has ended.
func (q *turns) Add(reconcile.Request) {
	q.wakes.Lock()
	defer q.wakes.Unlock()
	q.woken = true
}

// takeDue reports whether the runner must be reconciled now.
func (q *turns) takeDue() bool {
	q.wakes.Lock()
	defer q.wakes.Unlock()
	due := q.event || q.woken || (!q.due.IsZero() && !time.Now().Before(q.due))
	q.event, q.woken = false, false
	return due
}

// passesDue runs the passes that are due. While all goes well the watches immediately show what the passes have
// written.
func (s *simulation) passesDue() {
	for passes := 0; s.turns.takeDue(); passes++ {
		if passes == mostPassesAtOnce {
			s.wrong("%d passes follow on each other", passes)
			return
		}
		s.pass()
		if s.calm {
			s.show(true, true)
		}
	}
}

// pass runs one reconciliation, and the calls that it has started.
func (s *simulation) pass() {
	// failures are retried
	result, err := s.controller.Reconcile(s.Context(), reconcile.Request{NamespacedName: runnerKey})
	s.turns.due = time.Time{}
	switch {
	case err != nil && result.RequeueAfter != 0:
		s.Errorf("a pass that failed asks for the next one in %s, which the queue ignores with a warning: %v",
			result.RequeueAfter, err)
	case err != nil:
		s.turns.due = time.Now().Add(errorPause)
	case result.RequeueAfter > 0:
		s.turns.due = time.Now().Add(result.RequeueAfter)
	}
	synctest.Wait()
}

// later lets time pass. In more than ten seconds all watches deliver, and passes run.
func (s *simulation) later(d time.Duration) {
	const step = 10 * time.Second
	for ; d > step; d -= step {
		s.elapse(step)
		s.show(true, true)
		s.passesDue()
	}
	s.elapse(d)
}

func (s *simulation) elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
	s.endGracePeriod()
}

// versionOf returns the resourceVersion of an object, empty if there is none.
func versionOf[T interface {
	comparable
	client.Object
}](object T) string {
	var none T
	if object == none {
		return ""
	}
	return object.GetResourceVersion()
}
