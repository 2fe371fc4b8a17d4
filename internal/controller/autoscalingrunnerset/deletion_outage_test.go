package autoscalingrunnerset_test

import (
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/scaleset"
	"github.com/harrier-ci/harrier/internal/fakegithub"
)

// While GitHub is down, an uninstall and the deletion of a namespace wait until DeregisterTimeout. Then everything is
// deleted here, and an Event about the listener, in the manager's namespace, says what is left on GitHub.
func TestDeletionWhileGitHubIsDown(t *testing.T) {
	named := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	for name, doomed := range map[string]func(w *world) []client.Object{
		"namespace": func(w *world) []client.Object {
			return []client.Object{&corev1.Namespace{ObjectMeta: named("", w.runners)}}
		},
		"helm uninstall": func(w *world) []client.Object {
			return []client.Object{
				&rbacv1.RoleBinding{ObjectMeta: named(w.runners, "manager")}, &rbacv1.Role{ObjectMeta: named(w.runners, "manager")},
				&corev1.Secret{ObjectMeta: named(w.runners, "github")},
				&v1alpha1.AutoscalingRunnerSet{ObjectMeta: named(w.runners, "set")},
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.install()
			// With Retry-After at an hour the client fails immediately instead of trying for 30 s.
			down := fakegithub.Fault{Endpoint: "*", Status: http.StatusServiceUnavailable,
				Headers: map[string]string{"Retry-After": "3600"}}
			if _, err := w.github.AddFault(down); err != nil {
				t.Fatal(err)
			}
			w.delete(doomed(w)...)
			set := &v1alpha1.AutoscalingRunnerSet{}
			w.Eventually(func() string { w.exists(set, w.runners, "set"); return readyReason(set) }).
				Should(isDeregistering)
			if w.listener() == nil {
				t.Error("the listener's Secrets, which may be the last to have credentials, went before the scale " +
					"set was deleted")
			}
			w.clock.ahead.Add(int64(scaleset.DeregisterTimeout))
			w.Eventually(func() bool { return w.exists(set, w.runners, "set") || w.listener() != nil }).Should(isFalse)
			w.Eventually(w.leftBehind).Should(isListener)
			if left := w.github.Snapshot().ScaleSets; len(left) != 1 {
				t.Errorf("left on GitHub: %+v", left)
			}
		})
	}
}

func readyReason(set *v1alpha1.AutoscalingRunnerSet) string {
	for _, condition := range set.Status.Conditions {
		if condition.Type == v1alpha1.ConditionReady {
			return condition.Reason
		}
	}
	return ""
}

// leftBehind returns the kind of the object of the Event, in the manager's namespace, about a scale set left on GitHub.
func (w *world) leftBehind() string {
	w.Helper()
	var events eventsv1.EventList
	if err := w.client.List(w.Context(), &events, client.InNamespace(w.system)); err != nil {
		w.Fatal(err)
	}
	for _, event := range events.Items {
		if event.Reason == "ScaleSetLeftOnGitHub" && strings.Contains(event.Note, `"set" (id 1) at `+w.address) {
			return event.Regarding.Kind
		}
	}
	return ""
}
