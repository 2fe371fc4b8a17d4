package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/hack/installation"
	"github.com/harrier-ci/harrier/hack/site"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/fakegithub/state"
)

// limit bounds one wait: most take seconds, on a busy machine ten times as long.
const limit = 2 * time.Minute

// scaleSet is a release of the scale set chart in a namespace of its own.
type scaleSet struct {
	t         *testing.T
	name      string
	namespace string
	values    site.Values
	github    *fakegithub.ControlClient
	installed bool
	// own are objects that the test made beside the release.
	own []client.Object
	// caused are anomalies on GitHub that the test itself causes.
	caused []state.AnomalyKind
}

// install installs a scale set named after the test, at a GitHub of its own, and checks at the end that its
// uninstallation leaves nothing.
func install(t *testing.T, name string, minRunners, maxRunners int) *scaleSet {
	t.Helper()
	s := prepare(t, serve(t, fakegithub.Options{}), name, minRunners, maxRunners)
	s.install()
	return s
}

// prepare does everything of install but the installation, so that values can be changed before.
func prepare(t *testing.T, github *fakegithub.ControlClient, name string, minRunners, maxRunners int) *scaleSet {
	t.Helper()
	values := place.ScaleSetValues(name, minRunners, maxRunners)
	values["githubConfigUrl"] = github.BaseURL + "/" + site.Organization
	s := &scaleSet{t: t, name: name, namespace: "e2e-" + name, values: values, github: github}
	t.Cleanup(s.end)
	return s
}

// install installs and waits until the listener has its session.
func (s *scaleSet) install() {
	s.t.Helper()
	s.apply()
	s.awaitListener()
}

// apply installs or upgrades with the present values and waits until Helm calls it ready.
func (s *scaleSet) apply() {
	s.t.Helper()
	s.installed = true
	if err := place.Install(s.t.Context(), s.name, site.ScaleSetChart, s.namespace, s.values); err != nil {
		s.t.Fatal(err)
	}
}

// object returns the AutoscalingRunnerSet as it is now.
func (s *scaleSet) object(ctx context.Context) (*v1alpha1.AutoscalingRunnerSet, error) {
	var set v1alpha1.AutoscalingRunnerSet
	return &set, kube.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: s.name}, &set)
}

// makeNamespace makes the set's namespace before the installation, for objects that the set refers to.
func (s *scaleSet) makeNamespace() {
	s.t.Helper()
	s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})
}

// create creates an object that the test's end deletes; namespaces go with the cluster.
func (s *scaleSet) create(object client.Object) {
	s.t.Helper()
	if err := kube.Create(s.t.Context(), object); err != nil {
		s.t.Fatal(err)
	}
	if object.GetNamespace() != "" {
		s.own = append(s.own, object)
	}
}

// container returns the runner container of the values, to be changed.
func (s *scaleSet) container() site.Values {
	return s.podSpec()["containers"].([]site.Values)[0]
}

// podSpec returns the runner pod's spec of the values, to be changed.
func (s *scaleSet) podSpec() site.Values {
	return s.values["template"].(site.Values)["spec"].(site.Values)
}

// end uninstalls and makes sure that nothing of the set is left, on GitHub and in its namespace. The test's context is
// over.
func (s *scaleSet) end() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*limit)
	defer cancel()
	if s.t.Failed() {
		s.explain(ctx)
	}
	if s.installed {
		s.uninstall(ctx)
	}
	for _, anomaly := range s.snapshot(ctx).Anomalies {
		if !slices.Contains(s.caused, anomaly.Kind) {
			s.t.Errorf("GitHub saw what must not happen: %s", anomaly)
		}
	}
}

func (s *scaleSet) uninstall(ctx context.Context) {
	s.t.Helper()
	s.withdraw(ctx)
	for _, object := range s.own {
		if err := kube.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
			s.t.Error(err)
		}
	}
	s.awaitNothing(ctx)
}

// withdraw uninstalls the release. Objects of others may be left.
func (s *scaleSet) withdraw(ctx context.Context) {
	s.t.Helper()
	s.installed = false
	if err := place.Uninstall(ctx, s.name, s.namespace); err != nil {
		s.t.Error(err)
	}
}

func (s *scaleSet) awaitNothing(ctx context.Context) {
	s.t.Helper()
	s.await(ctx, "nothing of the scale set to be left", func() (string, error) {
		left, err := site.NamespaceLeft(ctx, kube, s.namespace)
		if err != nil {
			return "", err
		}
		if set := s.onGitHub(ctx); set != nil {
			left = append(left, "scale set "+set.Name+" on GitHub")
		}
		return installation.Shorten(left, 5), nil
	})
}

// explain logs what a user would look at: the set's conditions, objects, Events, and the programs' logs.
func (s *scaleSet) explain(ctx context.Context) {
	const listeners = v1alpha1.LabelComponent + "=" + v1alpha1.ComponentListener
	s.t.Logf("GitHub: %+v", s.snapshot(ctx))
	conditions := `{range .items[*].status.conditions[*]}{.type}={.status} {.reason}: {.message}{"\n"}{end}`
	for _, arguments := range [][]string{
		{"get", "autoscalingrunnersets", "-n", s.namespace, "-o", "jsonpath=" + conditions},
		{"get", "autoscalingrunnersets,ephemeralrunnersets,ephemeralrunners,pods", "-A", "--ignore-not-found"},
		{"get", "events", "-n", s.namespace, "--sort-by=.lastTimestamp"},
		{"logs", "-n", s.namespace, "-l", v1alpha1.LabelRunner, "--all-containers", "--prefix", "--tail=20"},
		{"logs", "-n", site.SystemNamespace, "-l", listeners + "," + v1alpha1.LabelScaleSetName + "=" + s.name, "--tail=20"},
		{"logs", "-n", site.SystemNamespace, "-l", v1alpha1.LabelComponent + "=" + componentManager, "--prefix", "--tail=30"},
	} {
		output, err := place.Kubectl(ctx, arguments...)
		s.t.Logf("kubectl %s: %v\n%s", strings.Join(arguments, " "), err, output)
	}
}

// await fails the test when something is still missing at the deadline.
func (s *scaleSet) await(ctx context.Context, what string, ask func() (missing string, err error)) {
	s.t.Helper()
	if err := place.Await(ctx, what, limit, ask); err != nil {
		s.t.Fatal(err)
	}
}
