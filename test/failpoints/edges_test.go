package failpoints

import (
	"flag"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/testkube/fakenode"
	"github.com/harrier-ci/harrier/test/failpoints/apiserver"
)

var many = flag.Int("failpoints.many", 100, "how many runners there are while the API server is overloaded; nightly 1,000")

// weather is what the API server is like to manager and listener.
type weather struct {
	// latency is that of each request but a watch.
	latency time.Duration
	// overloaded has every second request answered 429, and every other 504.
	overloaded bool
	requests   atomic.Int64
}

// meet returns the answer that a request gets in such weather, nil for the usual one.
func (w *weather) meet(r *http.Request) *http.Response {
	if w == nil {
		return nil
	}
	if asked, err := apiserver.Parse(r); err != nil || asked.Verb == "watch" {
		return nil
	}
	if w.latency > 0 {
		pause(r.Context(), w.latency)
	}
	switch {
	case !w.overloaded:
		return nil
	case w.requests.Add(1)%2 == 0:
		return apiserver.Refusal(r, apierrors.NewTooManyRequests("the API server has too much to do", 1))
	}
	return apiserver.Refusal(r, apierrors.NewTimeoutError("the request did not complete in time", 0))
}

// edges are scenarios in which what is around the product is slow or lies, under load. Each wait of them has a limit, by
// which the last of the jobs has to be done: that is how late they may be. What is lost or left is judged as ever.
var edges = []scenario{
	{name: "API server overloaded for a minute", run: func(w *world) {
		set := w.set(*many)
		if !w.install(set) {
			return
		}
		w.queue(*many, 5*time.Minute)
		half := func() bool { return w.jobs("running") >= *many/2 }
		if !w.until("half of the jobs running", 2*time.Minute, half) {
			return
		}
		w.apiServer.Store(&weather{overloaded: true})
		<-time.After(time.Minute)
		w.apiServer.Store(nil)
		// five minutes of work, of which one is lost, and one for back-offs to end
		if w.doneWithin(7 * time.Minute) {
			w.rest()
			w.uninstall(set)
		}
	}},
	{name: "etcd with a latency of 200 ms", run: func(w *world) {
		w.apiServer.Store(&weather{latency: 200 * time.Millisecond})
		set := w.set(*many)
		if !w.install(set) {
			return
		}
		w.queue(*many, 5*time.Minute)
		if w.doneWithin(7 * time.Minute) {
			w.rest()
			w.uninstall(set)
		}
	}},
	{name: "watches silent for five minutes", run: func(w *world) {
		set := w.set(20)
		if !w.install(set) {
			return
		}
		w.queue(10, 2*time.Minute)
		if !w.busy(10) {
			return
		}
		w.server.Silence(5 * time.Minute)
		w.queue(10, time.Minute)
		if w.doneWithin(5*time.Minute + 2*time.Minute) {
			w.rest()
			w.uninstall(set)
		}
	}},
	{name: "GitHub takes 12 s for every call", run: func(w *world) {
		set := w.set(20)
		if !w.install(set) {
			return
		}
		w.slow(12 * time.Second)
		w.queue(20, time.Minute)
		// a minute of work; offer, acquisition, JIT config, start and end are five calls of 12 s and as much for retries
		if w.doneWithin(4 * time.Minute) {
			w.rest()
			w.uninstall(set)
		}
	}},
	{name: "GitHub takes 20 s for every call, for ten minutes", run: func(w *world) {
		set := w.set(20)
		if !w.install(set) {
			return
		}
		w.queue(10, 5*time.Minute)
		if !w.busy(10) {
			return
		}
		id := w.slow(20 * time.Second)
		w.queue(10, time.Minute)
		<-time.After(10 * time.Minute)
		w.github.RemoveFault(id)
		// a minute of work, and two for back-offs to end
		if w.doneWithin(3 * time.Minute) {
			w.rest()
			w.uninstall(set)
		}
	}},
	{name: "a node that lies", run: lied},
}

// slow has every call to GitHub but the runners' take so long, until the fault is removed.
func (w *world) slow(by time.Duration) (fault string) {
	fault, err := w.github.AddFault(fakegithub.Fault{Endpoint: "*", Delay: fakegithub.Duration(by)})
	if err != nil {
		w.t.Fatal(err)
	}
	return fault
}

// doneWithin waits until all jobs have ended.
func (w *world) doneWithin(limit time.Duration) bool {
	return w.until("all jobs done", limit, w.jobsDone)
}

// lied has a machine go off while two jobs run on it, of which nothing is ever told: its pods are running.
func lied(w *world) {
	w.results, w.allowed = []string{"failed"}, []fakegithub.AnomalyKind{"RunnerLostBusy"}
	set := w.set(2)
	if !w.install(set) {
		return
	}
	w.queue(2, time.Hour)
	if !w.busy(2) || !w.until("both are reported", time.Minute, func() bool { return w.reported(2) }) {
		return
	}
	runner := func(pod *corev1.Pod) bool { return pod.Namespace == runners }
	pods := w.pods()
	if err := w.node.Lose(w.context, runner, fakenode.Silence); err != nil {
		w.t.Fatal(err)
	}
	for i := range pods {
		if err := w.node.Kill(client.ObjectKeyFromObject(&pods[i]), "runner"); err != nil {
			w.t.Fatal(err)
		}
	}
	w.queue(1, time.Minute)
	// GitHub fails the jobs after runnerLostAfter. A working runner is asked about every ten minutes.
	if !w.doneWithin(30 * time.Minute) {
		return
	}
	w.node.Restore(runner)
	w.rest()
	w.uninstall(set)
}

// With trouble at the edges nothing is lost, and nothing is later than it has to be.
func TestTroubleAtTheEdges(t *testing.T) {
	for _, s := range edges {
		if !chosen(s) {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			for _, violation := range inWorld(t, s).violations {
				t.Error(violation)
			}
		})
	}
}
