package failpoints

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube/fakenode"
)

// outside are the scenarios about what stands around the product: nodes, the API server's memory, vaults, a ledger.
var outside = []scenario{
	{name: "drain of a node", run: drained},
	{name: "restore of the API server", uninstalls: true, run: restored},
	{name: "credentials in a vault", installs: true, uninstalls: true, run: vaulted},
	{name: "ledger", ledger: true, run: burst},
	{name: "ledger behind", ledger: true, run: ledgerBehind},
	{name: "ledger ahead", ledger: true, run: restored},
}

// drained has a user drain the node on which all pods are, while a job runs and a runner is idle.
func drained(w *world) {
	first, second := w.addNode("fake-node"), w.addNode("other-node")
	other, err := fakenode.Launch(w.context, w.server.Config(w.server), fakenode.Options{
		Name: "other-node", StartLatency: time.Second, Runners: w.containers(),
		Accepts: func(pod *corev1.Pod) bool { return !w.stays(pod) },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	defer other.Stop()
	one := 1
	set := w.set(3, func(set *v1alpha1.AutoscalingRunnerSet) { set.Spec.MinRunners = &one })
	if !w.install(set) || !w.idle(1) {
		return
	}
	w.queue(1, 5*time.Minute)
	if !w.busy(1) || !w.idle(1) {
		return
	}
	w.drainedAt.Store(time.Now().Unix())
	w.edit(first, func() { first.Spec.Unschedulable = true })
	// What kubectl drain does: a budget keeps the pods of runners, which leave by themselves or end with their job.
	left := func() (pods []corev1.Pod) {
		return slices.DeleteFunc(w.podsIn(""), func(pod corev1.Pod) bool { return pod.Spec.NodeName != first.Name })
	}
	for _, pod := range left() {
		if pod.Namespace == system {
			w.discard(&pod)
		}
	}
	if !w.until("drained", 10*time.Minute, func() bool { return len(left()) == 0 }) || !w.done() || !w.idle(1) {
		return
	}
	w.rest()
	w.discard(first)
	w.discard(second)
	w.uninstall(set)
}

func (w *world) addNode(name string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	w.create(node)
	return node
}

// edit changes an object as a user does.
func (w *world) edit(object client.Object, change func()) {
	before := object.DeepCopyObject().(client.Object) //nolint:forcetypeassert // a copy is of the same type
	change()
	if err := w.user.Patch(w.t.Context(), object, client.MergeFrom(before)); err != nil {
		w.t.Fatal(err)
	}
}

// discard deletes an object as a user does, if it is there.
func (w *world) discard(object client.Object) {
	if err := client.IgnoreNotFound(w.user.Delete(w.t.Context(), object)); err != nil {
		w.t.Fatal(err)
	}
}

// restored has an administrator take the API server back to the time before a job, which runs meanwhile: its runner is
// known, and idle as far as anybody remembers. The runner that has taken its place since is forgotten.
func restored(w *world) {
	one := 1
	set := w.set(3, func(set *v1alpha1.AutoscalingRunnerSet) { set.Spec.MinRunners = &one })
	if !w.install(set) || !w.idle(1) {
		return
	}
	w.rest() // the listener is up, as the backup knows it
	kept := w.server.Backup()
	w.queue(1, 5*time.Minute)
	if !w.busy(1) || !w.idle(1) {
		return
	}
	w.server.Restore(kept)
	w.allow(4) // whoever is forgotten lives on until the node has seen that
	<-time.After(10 * time.Second)
	w.allow(3)
	w.queue(1, time.Minute)
	strays := func() bool { return len(w.github.Snapshot().Runners) == 1 }
	if !w.done() || !w.idle(1) || !w.until("strays gone", 20*time.Minute, strays) {
		return
	}
	w.rest()
	w.uninstall(set)
}

// ledgerBehind has nobody keep the ledger while one job ends and another comes and goes.
func ledgerBehind(w *world) {
	set := w.set(2)
	if !w.install(set) {
		return
	}
	w.queue(1, 3*time.Minute)
	if !w.busy(1) || !w.until("reported", time.Minute, func() bool { return w.reported(1) }) {
		return
	}
	<-time.After(time.Minute) // it is written
	w.ledgers.end()
	w.queue(1, time.Minute)
	if !w.done() {
		return
	}
	<-time.After(5 * time.Minute) // their runners are gone
	w.unseen = 1
	w.ledgers.begin(w, 1, w.runLedgers)
	<-time.After(15 * time.Minute) // vanished runners are looked for every ten minutes
	w.rest()
	w.uninstall(set)
}
