package manager

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube"
)

// process is a manager that runs in this process.
type process struct {
	log   *output
	stop  func() error
	ended chan struct{} // closed when it has ended
}

// testOptions are those of a manager in the namespace default, next to others.
func testOptions() Options {
	options := defaults()
	options.Namespace, options.MetricsAddress, options.HealthAddress = "default", "0", "127.0.0.1:0"
	return options
}

// startManager starts a manager as the user manager, in the namespace default. Scale sets may use the allowed
// addresses.
func startManager(t *testing.T, cluster *testkube.Cluster, log *output, allowed ...string) *process {
	t.Helper()
	options := testOptions()
	options.AllowedGitHubURLs = allowed
	ctx, cancel := context.WithCancel(context.Background())
	var result error
	ended, own := make(chan struct{}), &output{}
	config := cluster.ConfigFor(t, testkube.User("manager"))
	go func() {
		defer close(ended)
		result = run(ctx, config, options, NewLogger(options, io.MultiWriter(own, log)))
	}()
	stop := func() error {
		cancel()
		<-ended
		return result
	}
	t.Cleanup(func() { _ = stop() })
	return &process{log: own, stop: stop, ended: ended}
}

// serving is the line of the log that says where probes are answered.
var serving = regexp.MustCompile(`Serving health checks.*"address": ?"([^"]+)"`)

// probe returns a function that asks as the kubelet does. It returns 0 while nobody answers.
func (p *process) probe(path string) func() int {
	return func() int {
		place := serving.FindStringSubmatch(p.log.String())
		if place == nil {
			return 0
		}
		response, err := http.Get("http://" + place[1] + path)
		if err != nil {
			return 0
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
}

// grantChartPermissions lets the user manager do what our charts allow: the controller's in cluster mode with leader
// election, and a scale set's in its namespaces.
func grantChartPermissions(t *testing.T, cluster client.Client, scaleSetNamespaces ...string) {
	t.Helper()
	rule := func(group string, verbs []string, resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
	}
	watch, write := []string{"list", "watch"}, []string{"create", "delete", "get", "patch", "update"}
	rules := []rbacv1.PolicyRule{
		rule(v1alpha1.GroupVersion.Group, append(watch, write...), "*"),
		rule("", watch, "pods", "nodes", "persistentvolumeclaims", "serviceaccounts"),
		rule(rbacv1.GroupName, watch, "rolebindings"),
		rule(rbacv1.GroupName, append(watch, "patch"), "roles"),
		rule("coordination.k8s.io", append(watch, "get", "delete", "update", "create"), "leases"),
		rule("", []string{"create", "patch"}, "events"),
		rule("events.k8s.io", []string{"create", "patch"}, "events"),
	}
	bind(t, cluster, &rbacv1.ClusterRole{Rules: rules}, &rbacv1.ClusterRoleBinding{}, "")
	bind(t, cluster, &rbacv1.Role{Rules: []rbacv1.PolicyRule{
		rule("", []string{"create", "delete", "get"}, "pods"), rule("", write, "secrets", "serviceaccounts"),
	}}, &rbacv1.RoleBinding{}, "default")
	for _, namespace := range scaleSetNamespaces {
		bind(t, cluster, &rbacv1.Role{Rules: []rbacv1.PolicyRule{
			rule("", []string{"create", "delete", "get"}, "pods"),
			rule("", append(write, "list"), "secrets", "serviceaccounts"),
			rule(rbacv1.GroupName, write, "roles", "rolebindings"),
		}}, &rbacv1.RoleBinding{}, namespace)
	}
}

// bind creates a role called manager, for the whole cluster where the namespace is empty, and gives it to the user.
func bind(t *testing.T, cluster client.Client, role, binding client.Object, namespace string) {
	t.Helper()
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "manager"}}
	switch binding := binding.(type) {
	case *rbacv1.ClusterRoleBinding:
		binding.RoleRef, binding.Subjects = rbacv1.RoleRef{
			APIGroup: rbacv1.GroupName,
			Kind:     "ClusterRole",
			Name:     "manager",
		},
			subjects
	case *rbacv1.RoleBinding:
		binding.RoleRef, binding.Subjects = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "manager"},
			subjects
	}
	for _, object := range []client.Object{role, binding} {
		object.SetNamespace(namespace)
		object.SetName("manager")
		if err := cluster.Create(t.Context(), object); err != nil {
			t.Fatal(fmt.Errorf("create %T: %w", object, err))
		}
	}
	awaitRole(t, cluster, namespace)
}

// awaitRole returns when the API server applies the role of the namespace, which reaches it by watches of its own:
// anything that it refused before would be in a manager's log. Only the role for the cluster lists pods, and only the
// others create them.
func awaitRole(t *testing.T, cluster client.Client, namespace string) {
	t.Helper()
	allowed := authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "create", Resource: "pods"}
	if namespace == "" {
		allowed.Verb = "list"
	}
	gomega.NewWithT(t).Eventually(func() (bool, error) {
		return testkube.Allowed(t.Context(), cluster, "manager", allowed)
	}).WithTimeout(startTimeout).WithPolling(10 * time.Millisecond).Should(gomega.BeTrue())
}

// output collects the log of several managers.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(text)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
