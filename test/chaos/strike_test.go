package chaos

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/testkube/fakenode"
	"github.com/harrier-ci/harrier/test/rig"
)

// strikes carry out the faults. Each returns when its fault is over.
var strikes = map[kind]func(*world, fault){
	killManager: (*world).killManagers,
	killListener: func(w *world, _ fault) {
		w.kill(w.observer.listenerPods(), v1alpha1.ListenerContainerName, (*fakenode.Node).Kill)
	},
	apiServerDown: (*world).stopAPIServer,
	apiServerHang: (*world).hangAPIServer,
	etcdAway:      (*world).takeEtcd,
	expireTokens:  func(w *world, _ fault) { w.rig.GitHub.ExpireAdminTokens(); w.rig.GitHub.ExpireQueueTokens() },
	endSessions:   (*world).endSessions,
	storm:         (*world).storm,
	dropAnswers:   func(w *world, f fault) { w.spoil(f, fakegithub.Fault{Endpoint: "*", Drop: f.variant}) },
	cutAnswers:    func(w *world, f fault) { w.spoil(f, fakegithub.Fault{Endpoint: "*", Truncate: true}) },
	hangDeletes: func(w *world, f fault) {
		f.percent = 100
		w.spoil(f, fakegithub.Fault{Endpoint: f.variant, Hang: true})
	},
	failRunners: (*world).failRunners,
	rejectPods:  (*world).rejectPods,
	evictPods:   (*world).evictPods,
	loseNode:    (*world).loseNode,
	slowWatch:   func(w *world, f fault) { w.proxy.slowDown(f.pause); w.pause(f.lasts); w.proxy.slowDown(0) },
	cutWatches:  (*world).cutWatches,
	refuseWrites: func(w *world, f fault) {
		w.meddle(f, meddling{
			hits:    refusals[f.variant].hits,
			percent: f.percent,
			answer:  refusals[f.variant].answer,
			late:    f.variant == timedOut,
		})
	},
	slowAPIServer: func(w *world, f fault) {
		w.meddle(f, meddling{hits: everything, percent: f.percent, pause: f.pause / 2})
	},
	deletePods:    (*world).deletePods,
	scaleManagers: (*world).scaleManagers,
	cutOffLeader:  (*world).cutOffLeader,
	wrongClock:    (*world).setClock,
	countPhantoms: (*world).countPhantoms,
	forgetRunners: (*world).forgetRunners,
	deleteRunners: (*world).deleteRunners,
	newTemplate:   (*world).newTemplate,
	lowerMaximum:  (*world).lowerMaximum,
	maximumZero:   (*world).closeSet,
	imageOutdated: (*world).refuseImage,
	refuseMounts:  (*world).refuseMounts,
	fullZone:      (*world).fillZone,
}

// strike carries out a fault and notes the time for which it has troubled the API server or the way to it.
func (w *world) strike(f fault) {
	began := time.Now()
	strikes[f.kind](w, f)
	w.noteTrouble(f, began)
}

// killManagers kills the managers or, if the variant says so, only their leader. If none leads, it kills all of them.
func (w *world) killManagers(f fault) {
	victims := w.observer.managerPods()
	if leader := w.leader(victims); f.variant == ofLeader && len(leader) > 0 {
		victims = leader
	}
	w.logf("killed: %v", w.kill(victims, "manager", (*fakenode.Node).Kill))
}

// scaleManagers goes from one manager to two and back, or from two to one and back.
func (w *world) scaleManagers(f fault) {
	scale := w.rig.ScaleManagers
	if f.variant == scaledByHelm {
		scale = w.rig.UpgradeManagers
	}
	w.request(func(ctx context.Context) error { return scale(ctx, 3-w.schedule.managers) })
	w.pause(f.lasts)
	w.request(func(ctx context.Context) error { return scale(ctx, w.schedule.managers) })
	w.logf("there are to be %d managers again", w.schedule.managers)
}

// setClock restarts the managers or the listener with a wrong clock, which stays wrong until the end of the run.
func (w *world) setClock(f fault) {
	clock := wrongClocks[f.variant]
	w.rig.SetClock(clock.program, clock.ahead)
	if clock.program == rig.ManagerProgram {
		w.kill(w.observer.managerPods(), "manager", (*fakenode.Node).Kill)
	} else {
		w.kill(w.observer.listenerPods(), v1alpha1.ListenerContainerName, (*fakenode.Node).Kill)
	}
}

// wrongClocks are those of the fault wrongClock, by its variant.
var wrongClocks = map[string]struct {
	program rig.Program
	ahead   time.Duration
}{
	managerAhead:   {rig.ManagerProgram, clockError},
	managerBehind:  {rig.ManagerProgram, -clockError},
	listenerAhead:  {rig.ListenerProgram, clockError},
	listenerBehind: {rig.ListenerProgram, -clockError},
}

// stopAPIServer takes the API server away. It waits for the end of other faults that do.
func (w *world) stopAPIServer(f fault) {
	w.apiServer.Lock()
	defer w.apiServer.Unlock()
	if err := w.cluster.StopAPIServer(); err != nil {
		w.errorf("%v", err)
	}
	w.pause(f.lasts)
	// Not the test's context: without an API server nothing can be cleaned up.
	if err := w.cluster.StartAPIServer(context.Background()); err != nil {
		w.errorf("%v", err)
	}
	w.logf("the API server is back")
}

func (w *world) hangAPIServer(f fault) {
	w.apiServer.Lock()
	defer w.apiServer.Unlock()
	resume, err := w.cluster.PauseAPIServer()
	if err != nil {
		w.errorf("%v", err)
		return
	}
	w.pause(f.lasts)
	if err := resume(); err != nil {
		w.errorf("%v", err)
	}
}

// takeEtcd leaves an API server that runs but can neither read nor write. A frozen etcd may carry out requests after
// the API server has given up waiting for its answers.
func (w *world) takeEtcd(f fault) {
	w.apiServer.Lock()
	defer w.apiServer.Unlock()
	giveBack, err := w.cluster.PauseEtcd()
	if f.variant == etcdKilled {
		giveBack, err = w.cluster.StartEtcd, w.cluster.StopEtcd()
	}
	if err != nil {
		w.errorf("%v", err)
		return
	}
	w.pause(f.lasts)
	// Not the test's context: without etcd nothing can be cleaned up.
	if err := errors.Join(giveBack(), w.cluster.AwaitAPIServer(context.Background())); err != nil {
		w.errorf("%v", err)
	}
	w.logf("etcd is back")
}

func (w *world) endSessions(f fault) {
	if f.variant == sessionsExpired {
		w.rig.GitHub.ExpireQueueTokens()
	}
	w.rig.GitHub.EvictSessions(0)
}

// storm makes GitHub refuse a share of all calls.
func (w *world) storm(f fault) {
	status, err := strconv.Atoi(f.variant)
	if err != nil {
		w.errorf("%v", err)
		return
	}
	refusal := fakegithub.Fault{Endpoint: "*", Status: status, Body: `{"message": "chaos"}`}
	if status == http.StatusTooManyRequests {
		refusal.Headers = map[string]string{"Retry-After": strconv.Itoa(int(f.pause.Seconds()))}
	}
	w.spoil(f, refusal)
}

// spoil makes GitHub's answers faulty for as long as the fault lasts.
func (w *world) spoil(f fault, spoiled fakegithub.Fault) {
	spoiled.Probability = float64(f.percent) / 100
	id, err := w.rig.GitHub.AddFault(spoiled)
	if err != nil {
		w.errorf("%v", err)
		return
	}
	w.pause(f.lasts)
	w.rig.GitHub.RemoveFault(id)
}

func (w *world) failRunners(f fault) {
	victims := w.some(w.observer.runnerPods(), f.percent)
	how := (*fakenode.Node).Kill
	if f.variant == containerOOM {
		how = (*fakenode.Node).OOMKill
	}
	killed := w.kill(victims, v1alpha1.RunnerContainerName, how)
	w.take(killed)
	w.logf("killed: %v", killed)
}

// rejectPods lets no runner pod start.
func (w *world) rejectPods(f fault) {
	w.rig.Node.OnStart(func(pod *corev1.Pod) fakenode.Fault {
		if pod.Namespace != w.rig.RunnerNamespace {
			return fakenode.Fault{}
		}
		return fakenode.Fault{Reject: "OutOfcpu"}
	})
	w.pause(f.lasts)
	w.rig.Node.OnStart(nil)
}

func (w *world) evictPods(f fault) {
	var victims []types.NamespacedName
	switch f.variant {
	case ofListener:
		victims = w.observer.listenerPods()
	case ofManager:
		victims = w.observer.managerPods()
	default:
		victims = w.some(w.observer.runnerPods(), f.percent)
	}
	evicted := w.hit(victims, func(pod types.NamespacedName) error {
		return w.rig.Node.Evict(pod, "The node was low on resource: memory.")
	})
	w.take(evicted)
	w.logf("evicted: %v", evicted)
}

// loseNode loses the node of some runners and, if it hits more than 80 % of them, that of the listener.
func (w *world) loseNode(f fault) {
	victims := w.some(w.observer.runnerPods(), f.percent)
	if f.percent > 80 {
		victims = append(victims, w.observer.listenerPods()...)
	}
	lost := func(pod *corev1.Pod) bool { return slices.Contains(victims, client.ObjectKeyFromObject(pod)) }
	loss, survived := losses[f.variant]
	w.logf("lost: %v", victims)
	if err := w.rig.Node.Lose(w.t.Context(), lost, loss); err != nil {
		w.logf("not all pods could be marked not ready: %v", err)
	}
	if !survived {
		// Only now: pods are lost one after the other, and while a hanging API server delays the report about the first
		// one, the others may still get jobs.
		w.take(victims)
	}
	w.pause(f.lasts)
	if f.variant == nodeCollected {
		w.collect(victims)
	}
	w.rig.Node.Restore(lost)
}

// losses are the variants that end no job. In the others the node loses its power.
var losses = map[string]fakenode.Loss{nodePartitioned: fakenode.Partition, nodeSilent: fakenode.Silence}

// collect deletes the pods of a lost node, as Kubernetes does after its Node object is deleted.
func (w *world) collect(pods []types.NamespacedName) {
	w.deleteAll(&corev1.Pod{}, pods, client.GracePeriodSeconds(0))
}
