// Package rig puts the whole product on one machine for tests: both charts installed with helm on the API server of
// package testkube, the real manager and listener programs as their pods' containers, package fakenode as the node, and
// package fakegithub as GitHub with its simulated runners.
//
//	helm ─▶ Deployment ─▶ manager ─▶ listener pod ─▶ EphemeralRunners ─▶ runner pods ─▶ jobs of fakegithub
//
// Permissions, arguments and environment come from the charts. A test starts a rig, queues jobs, disturbs its subject,
// and checks that nothing is left. test/integration, test/chaos, test/load and others are built on it. Rigs on the same
// cluster run one after the other, because a manager watches all namespaces and its cluster-wide objects have fixed
// names.
package rig

import (
	"cmp"
	"context"
	"maps"
	"net"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/hack/installation"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/internal/testkube/fakenode"
	"github.com/harrier-ci/harrier/internal/testkube/fakestorage"
)

// PAT is the token of every scale set. It must appear nowhere but in the credential Secret and the listener's Secret.
const PAT = "ghp_rigPersonalAccessToken0123456789abcd"

// DefaultSet is the name of the scale set that Start installs.
const DefaultSet = "runners"

// Options choose the parts of a rig. The zero value is one manager at its chart's defaults, a scale set of up to 200
// runners and no idle ones, and a GitHub without latency.
type Options struct {
	// GitHub are the fake's settings: JITLatency, Latency, Rules.Flow, lifetimes. The rig adds PAT to its PATs.
	GitHub fakegithub.Options
	// GitHubAddress is where the fake listens; empty means 127.0.0.1.
	GitHubAddress string
	// NodeStartLatency is the time from the binding of a pod to the start of its containers. Default 50 ms.
	NodeStartLatency time.Duration
	// NodeRestartBackOff is the pause before a container's second restart. It doubles with every further one. Default
	// 10 s.
	NodeRestartBackOff time.Duration
	// By APIServer the node and the programs reach the API server, for example through a proxy. Nil means directly.
	APIServer *rest.Config
	// MinRunners and MaxRunners are the scale set's. MaxRunners 0 means 200.
	MinRunners, MaxRunners int
	// ManagerReplicas is the controller chart's replicaCount. Default 1; two or more elect a leader.
	ManagerReplicas int
	// SingleNamespace restricts the manager to the runners' namespace (flags.watchSingleNamespace).
	SingleNamespace bool
	// AllowedAddresses are further addresses that sets may use (flags.allowedGitHubURLs): GitHubs and proxies beside
	// the fake.
	AllowedAddresses []string
	// ControllerValues and ScaleSetValues replace the rig's values of the same top-level keys.
	ControllerValues, ScaleSetValues Values
	// Flags are added to the controller's value flags.
	Flags Values
	// Product is installed. Its zero value is this module's product.
	Product Product
	// AsShipped takes programs without the race detector even if the test has it, because their memory is measured.
	AsShipped bool
	// RunnerNamespace is an existing namespace for the scale sets. Empty means a new one.
	RunnerNamespace string
	// This rig shares the GitHub of Beside, as a second cluster would, and begins without a scale set; nil means a
	// GitHub of its own. If both share an API server, both need SingleNamespace.
	Beside *Rig
	// In FurtherNamespaces the node plays pods as well, for tests with several tenants.
	FurtherNamespaces []string
	// Storage are the settings by which claims are bound. The rig accepts claims of its own namespaces.
	Storage fakestorage.Options
	// Slots returns the number of runner pods that the cluster has room for at a time. It is called again and again;
	// nil means any number. Pods that don't fit are unschedulable.
	Slots func() int
	// Ledger also installs the ledger of jobs.
	Ledger bool
	// Containers run the containers that are not the product's, by name.
	Containers map[string]fakenode.Runner
}

// Product names programs and charts to install instead of this module's, for comparisons. Empty fields mean this
// module's. The programs have to find the API server by KUBECONFIG.
type Product struct {
	Manager, Listener string // programs
	Controller, Set   string // directories of the two charts
	// Tag is that of the image in which the programs are, by which pods of several products are told apart (see
	// Upgrade). It marks an earlier build of this module's product; empty means this one, or a product of others.
	Tag string
}

// Values are a chart's values.
type Values = installation.Values

// Rig is a running product. Its methods fail the test if something outside of the product goes wrong.
type Rig struct {
	Cluster *testkube.Cluster
	GitHub  *fakegithub.Server
	Node    *fakenode.Node
	// Storage binds the claims of the node's pods.
	Storage *fakestorage.Storage
	// SystemNamespace holds manager and listeners, RunnerNamespace the scale sets and their runners.
	SystemNamespace, RunnerNamespace string
	// GitHubURL is the fake's address.
	GitHubURL string
	// The rig began at Started. Requests are counted from then on.
	Started time.Time

	t                   testing.TB
	audited             testkube.AuditMark // when the rig began
	options             Options
	tools               installation.Tools
	managers, listeners podNames
	ledgers, checks     podNames
	sets                map[string]int // idle runners by installed release
	products            products
}

// ClusterOptions returns the options that a rig needs of a cluster.
func ClusterOptions() testkube.Options {
	return testkube.Options{ControllerManager: true, AuditLog: true, AddToScheme: schemes()}
}

// Main runs the tests of a package, which share a cluster that suits rigs, and returns their exit code.
func Main(m *testing.M) int {
	// Eventually looks every 10 ms by itself, and most looks are requests to the API server, which then takes the CPU
	// from what is waited for.
	gomega.SetDefaultEventuallyPollingInterval(interval)
	return testkube.Main(m, ClusterOptions())
}

// Start installs both charts and returns when the scale set's listener polls GitHub; a rig beside another installs the
// controller's only. When the test ends, everything is uninstalled, and the test fails if something is left.
func Start(t testing.TB, cluster *testkube.Cluster, options Options) *Rig {
	t.Helper()
	r := newRig(t, cluster, options)
	r.startGitHub()
	r.startNode()
	t.Cleanup(r.end)
	r.helmWith(r.controllerValues(), "install", controllerRelease, r.options.Product.Controller, "--namespace",
		r.SystemNamespace)
	if options.Beside == nil {
		r.InstallSet(DefaultSet, nil)
		r.AwaitListening(DefaultSet)
	}
	return r
}

func newRig(t testing.TB, cluster *testkube.Cluster, options Options) *Rig {
	t.Helper()
	if options.MaxRunners == 0 {
		options.MaxRunners = 200
	}
	options.GitHub.PATs = append(options.GitHub.PATs, PAT)
	options.Product = options.Product.orOurs(t, raceEnabled && !options.AsShipped)
	r := &Rig{
		Cluster: cluster, audited: cluster.MarkAudit(), Started: time.Now(), t: t, options: options, sets: map[string]int{},
		SystemNamespace: cluster.NewNamespace(t), RunnerNamespace: options.RunnerNamespace,
	}
	if r.RunnerNamespace == "" {
		r.RunnerNamespace = cluster.NewNamespace(t)
	}
	r.products.add(options.Product)
	r.tools = tools(t, cluster.AdminKubeconfig())
	return r
}

func (r *Rig) startGitHub() {
	r.t.Helper()
	if first := r.options.Beside; first != nil {
		r.GitHub, r.GitHubURL = first.GitHub, first.GitHubURL
		return
	}
	r.GitHub = fakegithub.New(r.options.GitHub)
	url, err := r.GitHub.Start(net.JoinHostPort(cmp.Or(r.options.GitHubAddress, "127.0.0.1"), "0"))
	if err != nil {
		r.t.Fatal(err)
	}
	r.GitHubURL = url
	r.t.Cleanup(r.GitHub.Close)
}

func (r *Rig) startNode() {
	r.t.Helper()
	runners := map[string]fakenode.Runner{
		managerContainer:               r.managerRunner(),
		uninstallCheckContainer:        r.checkRunner(),
		v1alpha1.ListenerContainerName: r.listenerRunner(),
		v1alpha1.RunnerContainerName:   fakenode.RunnerFunc(r.RunRunner),
	}
	if r.options.Ledger {
		runners[ledgerContainer] = r.ledgerRunner(r.t)
	}
	maps.Copy(runners, r.options.Containers)
	name := ""
	if r.options.Beside != nil {
		name = "second-node"
	}
	config, storage := cmp.Or(r.options.APIServer, r.Cluster.Config()), r.options.Storage
	storage.Accepts = func(claim *corev1.PersistentVolumeClaim) bool { return r.ownsNamespace(claim.Namespace) }
	r.Storage = fakestorage.Start(r.t, config, storage)
	r.Node = fakenode.Start(r.t, config, fakenode.Options{
		Name:           name,
		Claims:         r.Storage,
		StartLatency:   r.options.NodeStartLatency,
		RestartBackOff: r.options.NodeRestartBackOff,
		Accepts: func(pod *corev1.Pod) bool {
			return r.owns(pod) && (r.options.Slots == nil || pod.Namespace != r.RunnerNamespace)
		},
		Runners: runners,
	})
	if r.options.Slots != nil {
		r.startScheduler(cmp.Or(name, "fake-node"))
	}
}

// InstallSet installs a scale set with the rig's values, overridden by those given. The release has the scale set's
// name.
func (r *Rig) InstallSet(name string, values Values) {
	r.t.Helper()
	r.helmWith(r.record(name, values), "install", name, r.options.Product.Set, "--namespace", r.RunnerNamespace)
}

// UpgradeSet replaces the values of an installed scale set. Values left out fall back to the rig's.
func (r *Rig) UpgradeSet(name string, values Values) {
	r.t.Helper()
	r.helmWith(r.record(name, values), "upgrade", name, r.options.Product.Set, "--namespace", r.RunnerNamespace)
}

// AttemptUpgrade is UpgradeSet with further arguments for Helm, and returns Helm's failure. With --install it also
// installs a scale set.
func (r *Rig) AttemptUpgrade(name string, values Values, arguments ...string) error {
	r.t.Helper()
	all := r.scaleSetValues(name, values)
	if _, installed := r.sets[name]; !installed {
		all = r.record(name, values)
	}
	_, err := r.tools.HelmWith(context.Background(), all,
		append([]string{"upgrade", name, r.options.Product.Set, "--namespace", r.RunnerNamespace}, arguments...)...)
	return err
}

// record remembers the idle runners of a scale set that is about to be installed, and returns all of its values.
func (r *Rig) record(name string, values Values) Values {
	r.t.Helper()
	all := r.scaleSetValues(name, values)
	idle, ok := all["minRunners"].(int)
	if !ok {
		r.t.Fatalf("minRunners of scale set %s is not an int", name)
	}
	r.sets[name] = idle
	return all
}

// Rendered returns the objects of the charts of the controller and of an installed set, as a tool that renders charts
// itself would apply them. The set was installed with these values.
func (r *Rig) Rendered(set string, values Values) []*unstructured.Unstructured {
	r.t.Helper()
	return append(
		r.template(controllerRelease, r.options.Product.Controller, r.SystemNamespace, r.controllerValues()),
		r.template(set, r.options.Product.Set, r.RunnerNamespace, r.scaleSetValues(set, values))...)
}

// Hooks returns the objects of the controller's release that exist only while Helm runs a hook.
func (r *Rig) Hooks() []*unstructured.Unstructured {
	r.t.Helper()
	return decode(r.t, r.helm("get", "hooks", controllerRelease, "--namespace", r.SystemNamespace))
}

// UninstallController runs helm uninstall for the controller including the chart's check, which fails as long as there
// are scale sets.
func (r *Rig) UninstallController() error {
	r.t.Helper()
	_, err := r.tools.Helm(context.Background(), "uninstall", controllerRelease, "--namespace", r.SystemNamespace)
	return err
}

// idle returns the number of runners when there are no jobs: the sum of minRunners.
func (r *Rig) idle() int {
	total := 0
	for _, idle := range r.sets {
		total += idle
	}
	return total
}

// UninstallSet runs helm uninstall. That doesn't wait until the manager has removed everything.
func (r *Rig) UninstallSet(name string) {
	r.t.Helper()
	delete(r.sets, name)
	r.helm("uninstall", name, "--namespace", r.RunnerNamespace)
}

// end uninstalls everything, in the order that the documentation asks of users.
func (r *Rig) end() {
	r.t.Helper()
	if r.t.Failed() {
		r.explain()
	}
	defer r.saveLogs()
	defer r.clearAfterFailure()
	for name := range r.sets {
		r.UninstallSet(name)
	}
	if !r.t.Failed() {
		r.AwaitUninstalled()
	}
	r.helm("uninstall", controllerRelease, "--namespace", r.SystemNamespace, "--no-hooks", "--ignore-not-found")
	for _, shared := range r.Storage.Violations() {
		r.t.Error(shared)
	}
	if r.races() {
		r.t.Errorf("the race detector has found a data race; see the logs in the directory that %s names", logsVariable)
	}
}

// explain logs what a failed test has left.
func (r *Rig) explain() {
	left, err := r.Leftovers(context.Background())
	r.t.Logf("left when the test failed: %v %v", left, err)
}

// RenderedController returns the objects of the controller's chart with further values.
func (r *Rig) RenderedController(more Values) []*unstructured.Unstructured {
	r.t.Helper()
	values := r.controllerValues()
	maps.Copy(values, more)
	return r.template(controllerRelease, r.options.Product.Controller, r.SystemNamespace, values)
}
