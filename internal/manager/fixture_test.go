package manager_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/manager"
	"github.com/harrier-ci/harrier/internal/testkube"
	programs "github.com/harrier-ci/harrier/internal/testkube/process"
)

// asManager makes the test binary a manager, with its own arguments.
const asManager = "HARRIER_TEST_AS_MANAGER"

func TestMain(m *testing.M) {
	if os.Getenv(asManager) != "" {
		os.Exit(runAsManager())
	}
	os.Exit(m.Run())
}

// runAsManager does what cmd/manager does, and returns the exit code.
func runAsManager() int {
	options, err := manager.ParseOptions(os.Args[1:], os.Getenv, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	log := manager.NewLogger(options, os.Stderr)
	if err := manager.Run(ctrl.SetupSignalHandler(), options, log); err != nil {
		log.Error(err, "Exiting")
		return 1
	}
	return 0
}

// process is a manager in a process of its own.
type process struct {
	*programs.Process
	log *output
}

// startManager starts a manager in the namespace default of the cluster that the file names. Its log goes to others,
// too.
func startManager(t *testing.T, kubeconfig string, others *output, arguments ...string) *process {
	t.Helper()
	p := &process{log: &output{}}
	command := exec.Command(os.Args[0], append(
		[]string{"--metrics-addr=0", "--health-probe-bind-address=127.0.0.1:0"}, arguments...,
	)...)
	command.Env = append(
		os.Environ(), asManager+"=1", "KUBECONFIG="+kubeconfig,
		envNamespace+"=default", envImage+"=ghcr.io/example/manager:1",
	)
	command.Stdout, command.Stderr = io.Discard, io.MultiWriter(p.log, others)
	started, err := programs.Start(command)
	if err != nil {
		t.Fatal(err)
	}
	p.Process = started
	t.Cleanup(func() { _ = started.Stop(startTimeout) })
	return p
}

// startInCluster does so as the user manager.
func startInCluster(t *testing.T, cluster *testkube.Cluster, others *output, arguments ...string) *process {
	t.Helper()
	return startManager(t, cluster.Kubeconfig(t, testkube.User("manager")), others, arguments...)
}

// stop asks the manager to end, as the kubelet does, and returns an error if it ends with one.
func (p *process) stop() error {
	if err := p.Stop(startTimeout); err != nil {
		return err
	}
	if code := p.ExitCode(); code != 0 {
		return fmt.Errorf("exit code %d", code)
	}
	return nil
}

// serving matches the line of the log with the address at which probes are answered.
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
