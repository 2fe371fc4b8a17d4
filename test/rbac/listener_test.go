package rbac

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/testkube/fakenode"
	"github.com/harrier-ci/harrier/test/rig"
)

// listener returns a set's listener, an empty one while the set has none or several.
func (l *life) listener(set string) *v1alpha1.AutoscalingListener {
	l.Helper()
	var listeners v1alpha1.AutoscalingListenerList
	l.ledger.list(l.T, &listeners, client.InNamespace(l.rig.SystemNamespace),
		client.MatchingLabels{v1alpha1.LabelScaleSetName: set})
	if len(listeners.Items) != 1 {
		return &v1alpha1.AutoscalingListener{}
	}
	return &listeners.Items[0]
}

// takeListenerName installs a scale set while a pod already has its listener's name. The name depends on fields that
// equal those of the rig's own set.
func (l *life) takeListenerName() {
	l.Helper()
	set := l.runnerSet(rig.DefaultSet)
	set.Name = late
	meta := l.named(kube.ListenerNames(set)[0])
	meta.Namespace = l.rig.SystemNamespace
	l.create(foreignPod(meta))
	l.rig.InstallSet(late, nil)
	l.await("the name is found taken",
		func() bool { return strings.Contains(l.rig.ManagerLog(), meta.Name+" has the listener's name") })
}

// loseListener takes away the node of a listener.
func (l *life) loseListener() {
	l.Helper()
	former := l.listenerPod(proxied).UID
	ofListener := func(pod *corev1.Pod) bool { return pod.UID == former }
	if err := l.rig.Node.Lose(l.Context(), ofListener, fakenode.PowerOff); err != nil {
		l.Fatal(err)
	}
	l.awaitAnotherListener(proxied, former)
}

// leaveListenerPods has the manager find two pods of former listeners when it starts. It reports both in one pass:
// their Events become a series.
func (l *life) leaveListenerPods() {
	l.Helper()
	l.rig.StopManager()
	listener := l.listener(trusting)
	var left []client.Object
	for _, name := range []string{"former-1", "former-2"} {
		left = append(left, foreignPod(metav1.ObjectMeta{
			Namespace: listener.Namespace, Name: name, Labels: l.listenerPod(trusting).Labels,
			OwnerReferences: kube.OwnedBy(listener),
		}))
	}
	l.create(left...)
	l.rig.StartManager()
	l.await("former listeners are ended", func() bool { return l.gone(left[0]) && l.gone(left[1]) })
	l.awaitSeries(listener)
}
