package scrape

import (
	"context"
	"crypto/tls"
	"io"
	"maps"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

const metricsPort = 8080

// site is the product with secured metrics of the manager, and accounts with and without the right to read them.
type site struct {
	*rig.Rig
	// reader's and stranger's are tokens of ServiceAccounts; only the first may read metrics.
	reader, stranger string
	// metrics is the controller's value of this name.
	metrics rig.Values
}

// target is a scraped program.
type target struct {
	name, address string
	secure        bool
	pod           *corev1.Pod
}

func start(t *testing.T, options rig.Options) *site {
	t.Helper()
	return startWith(t, options, rig.Values{"secure": true})
}

// startWith starts a site with more keys in the controller's value metrics.
func startWith(t *testing.T, options rig.Options, metrics rig.Values) *site {
	t.Helper()
	options.GitHub.PATExpires = time.Now().Add(30 * 24 * time.Hour)
	s := &site{metrics: rig.Values{"controllerManagerAddr": ":8080", "listenerAddr": ":8080",
		"listenerEndpoint": "/metrics"}}
	maps.Copy(s.metrics, metrics)
	options.ControllerValues = rig.Values{"metrics": s.metrics}
	s.Rig = rig.Start(t, testkube.Shared(t), options)
	s.reader, s.stranger = s.token(t, "prometheus"), s.token(t, "stranger")
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "prometheus"},
		// The role is the chart's.
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole",
			Name: rig.ControllerAccount + "-metrics-reader"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.SystemNamespace, Name: "prometheus"}},
	}
	if s.metrics["secure"] == nil {
		return s
	}
	create(t, s.Cluster.Client(), binding)
	t.Cleanup(func() { _ = s.Cluster.Client().Delete(context.Background(), binding) })
	return s
}

// token returns the token of a new ServiceAccount.
func (s *site) token(t *testing.T, name string) string {
	t.Helper()
	create(t, s.Cluster.Client(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.SystemNamespace, Name: name}})
	return s.Cluster.ConfigFor(t, testkube.ServiceAccount(s.SystemNamespace, name)).BearerToken
}

func create(t *testing.T, cluster client.Client, object client.Object) {
	t.Helper()
	if err := cluster.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// manager returns the target of the manager.
func (s *site) manager(t *testing.T) target {
	t.Helper()
	from := s.serving(t, "controller-manager")[0]
	from.name, from.secure = "manager", s.metrics["secure"] != nil
	return from
}

// targets returns all running programs.
func (s *site) targets(t *testing.T) []target {
	t.Helper()
	return append(s.serving(t, v1alpha1.ComponentListener), s.manager(t))
}

// serving returns the pods of a component that serve metrics.
func (s *site) serving(t *testing.T, component string) (found []target) {
	t.Helper()
	pods := &corev1.PodList{}
	if err := s.Cluster.Client().List(t.Context(), pods, client.InNamespace(s.SystemNamespace),
		client.MatchingLabels{v1alpha1.LabelComponent: component}); err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		address, err := s.Node.Address(types.NamespacedName{Namespace: pods.Items[i].Namespace,
			Name: pods.Items[i].Name}, metricsPort)
		if err == nil {
			found = append(found, target{name: component, address: address, pod: &pods.Items[i]})
		}
	}
	if len(found) == 0 {
		t.Fatalf("no pod of component %s serves metrics", component)
	}
	return found
}

// read asks a target for its metrics, with a token unless that is empty. A target that does not answer fails the test.
func read(t *testing.T, from target, token string) (status int, body string) {
	t.Helper()
	status, body, err := fetch(t.Context(), from, token)
	if err != nil {
		t.Fatal(err)
	}
	return status, body
}

// fetch is read with an error instead of a failed test, for repeated requests.
func fetch(ctx context.Context, from target, token string) (status int, body string, err error) {
	scheme := "http"
	if from.secure {
		scheme = "https"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+from.address+"/metrics", nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := reading.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(content), err
}

// reading accepts the certificate that the manager has made for itself.
var reading = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
