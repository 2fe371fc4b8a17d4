package ephemeralrunner_test

import (
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// The runner of a simulation is reconciled when its controller's queue says so: after an event, when a call has ended,
// when the last pass asked for it, and after an error. If a requeue is missing, the runner stays as it is.

// At most mostPassesAtOnce passes may follow each other without time passing.
const mostPassesAtOnce = 50

// shown returns the object by which the watches show the runner or its pod; events say only that something has changed.
func shown() *v1alpha1.EphemeralRunner {
	return &v1alpha1.EphemeralRunner{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// passesDue runs the passes that are due. While all goes well the watches immediately show what the passes have
// written.
func (s *simulation) passesDue() {
	for passes := 0; ; passes++ {
		if passes == mostPassesAtOnce {
			s.wrong("%d passes follow on each other", passes)
			return
		}
		if _, due := s.started.Next(); !due {
			return
		}
		if s.calm {
			s.show(true, true)
		}
	}
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
