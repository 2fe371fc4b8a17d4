package rbac

import (
	"context"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// securedMetrics are the controller's values that restrict its metrics to accounts with the right to read them.
var securedMetrics = rig.Values{
	"controllerManagerAddr": ":8080",
	"listenerAddr":          ":8080",
	"listenerEndpoint":      "/metrics",
	"secure":                true,
}

// readMetrics reads the metrics of the managers as an account with the chart's role for that.
func (l *life) readMetrics() {
	l.Helper()
	reader := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: l.rig.RunnerNamespace, Name: "prometheus"}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: l.rig.RunnerNamespace + "-prometheus"}, Subjects: []rbacv1.Subject{reader},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: l.metricsReader},
	}
	l.create(&corev1.ServiceAccount{ObjectMeta: l.named(reader.Name)}, binding)
	l.Cleanup(func() { _ = l.rig.Cluster.Client().Delete(context.Background(), binding) })
	config := l.rig.Cluster.ConfigFor(l.T, testkube.ServiceAccount(reader.Namespace, reader.Name))
	// The manager has signed its certificate itself.
	browser, err := rest.HTTPClientFor(&rest.Config{
		BearerToken:     config.BearerToken,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true},
	})
	if err != nil {
		l.Fatal(err)
	}
	var managers corev1.PodList
	l.ledger.list(l.T, &managers, client.InNamespace(l.rig.SystemNamespace),
		client.MatchingLabels{v1alpha1.LabelComponent: "controller-manager"})
	for _, pod := range managers.Items {
		l.await("pod "+pod.Name+" shows its metrics", func() bool {
			// One of two managers may still be starting.
			address, err := l.rig.Node.Address(client.ObjectKeyFromObject(&pod), 8080)
			return err == nil && shows(browser, "https://"+address+"/metrics")
		})
	}
}

// shows is repeated until it holds: the API server learns of a binding a moment after it has made it.
func shows(browser *http.Client, url string) bool {
	answer, err := browser.Get(url)
	if err != nil {
		return false
	}
	return answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
}
