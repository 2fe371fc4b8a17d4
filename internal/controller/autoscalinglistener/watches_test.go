package autoscalinglistener

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalinglistener/ownership"
	"github.com/harrier-ci/harrier/internal/kube"
)

// In the package: which event brings no pass shows nowhere else, because a pass that nobody needs does nothing.

func wantPass(t *testing.T, what string, requests []ctrl.Request, want bool) {
	t.Helper()
	key := types.NamespacedName{Namespace: "arc-systems", Name: "set-listener"}
	if got := len(requests) == 1 && requests[0].NamespacedName == key; got != want || len(requests) > 1 {
		t.Errorf("%s leads to %v, want a pass of %s: %t", what, requests, key, want)
	}
}

func TestRightsLeadToTheirListener(t *testing.T) {
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "arc-runners", Name: "set-listener",
		Labels: map[string]string{v1alpha1.LabelListenerNamespace: "arc-systems",
			v1alpha1.LabelListenerName: "set-listener"}}}
	wantPass(t, "a RoleBinding", listenerOfAccess(t.Context(), binding), true)
	binding.Labels = nil
	wantPass(t, "a RoleBinding of somebody else", listenerOfAccess(t.Context(), binding), false)
}

func TestAnAbandonedPodLeadsToTheListenerThatHadIt(t *testing.T) {
	listener := &v1alpha1.AutoscalingListener{ObjectMeta: metav1.ObjectMeta{
		Namespace: "arc-systems", Name: "set-listener", UID: "listener-uid",
	}, Spec: v1alpha1.AutoscalingListenerSpec{AutoscalingRunnerSetNamespace: "arc-runners",
		AutoscalingRunnerSetName: "set"}}
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"one that was restored": {func(*corev1.Pod) {}, true},
		"one with an owner":     {func(p *corev1.Pod) { p.OwnerReferences = kube.OwnedBy(listener) }, false},
		"one labelled in part":  {func(p *corev1.Pod) { delete(p.Labels, v1alpha1.LabelComponent) }, false},
		"one of a runner":       {func(p *corev1.Pod) { p.Labels[v1alpha1.LabelComponent] = v1alpha1.ComponentRunner }, false},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: listener.Namespace, Name: listener.Name,
			UID: "restored", Labels: ownership.Labels(listener)}}
		test.change(pod)
		wantPass(t, name, listenerOfAbandoned(t.Context(), pod), test.want)
	}
}
