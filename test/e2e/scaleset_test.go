package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/hack/site"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/fakegithub/state"
)

// limit of one wait: what is waited for takes seconds; a busy machine may take ten times as long.
const limit = 90 * time.Second

// scaleSet is an installed release of the scale set chart in a namespace of its own.
type scaleSet struct {
	t         *testing.T
	name      string
	namespace string
	values    site.Values
	github    *fakegithub.ControlClient
	installed bool
	// anomalies are those that GitHub had seen before.
	anomalies int
}

// install installs a scale set named after the test and checks at the end that its uninstallation leaves nothing.
func install(t *testing.T, name string, minRunners, maxRunners int) *scaleSet {
	t.Helper()
	return installAt(t, place.Control, name, place.ScaleSetValues(name, minRunners, maxRunners))
}

// installAt does so with given values, at a GitHub of the test's own.
func installAt(t *testing.T, github *fakegithub.ControlClient, name string, values site.Values) *scaleSet {
	t.Helper()
	s := &scaleSet{t: t, name: name, namespace: "e2e-" + name, values: values, github: github}
	s.anomalies = len(s.snapshot(t.Context()).Anomalies)
	t.Cleanup(s.end)
	s.installed = true
	s.apply()
	s.awaitListener()
	return s
}

// awaitListener waits for the session. Helm's own waiting is not enough after an installation: it takes an object whose
// status is still empty for ready.
func (s *scaleSet) awaitListener() {
	s.t.Helper()
	s.await(s.t.Context(), "the listener to poll", func() (string, error) {
		set := s.onGitHub(s.t.Context())
		if set == nil {
			return "the scale set is not on GitHub", nil
		}
		polls := func(v state.SessionView) bool { return v.ScaleSetID == set.ID && v.Polling }
		if !slices.ContainsFunc(s.snapshot(s.t.Context()).Sessions, polls) {
			return "nobody polls its messages", nil
		}
		return "", nil
	})
}

// apply installs or upgrades with the present values and waits until Helm calls it ready.
func (s *scaleSet) apply() {
	s.t.Helper()
	if err := place.Install(s.t.Context(), s.name, site.ScaleSetChart, s.namespace, s.values); err != nil {
		s.t.Fatal(err)
	}
}

// container returns the runner container of the values, to be changed.
func (s *scaleSet) container() site.Values {
	return s.values["template"].(site.Values)["spec"].(site.Values)["containers"].([]site.Values)[0]
}

// end uninstalls and makes sure that nothing of the set is left, on GitHub and in its namespace. The test's context is over.
func (s *scaleSet) end() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*limit)
	defer cancel()
	if s.t.Failed() {
		s.explain(ctx)
	}
	if s.installed {
		s.uninstall(ctx)
	}
	for _, anomaly := range s.snapshot(ctx).Anomalies[s.anomalies:] {
		s.t.Errorf("GitHub saw what must not happen: %s", anomaly)
	}
}

func (s *scaleSet) uninstall(ctx context.Context) {
	s.t.Helper()
	s.installed = false
	if err := place.Uninstall(ctx, s.name, s.namespace); err != nil {
		s.t.Error(err)
	}
	s.awaitNothing(ctx)
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
		return site.Shorten(left, 5), nil
	})
}

// explain logs what a failed test is asked about first.
func (s *scaleSet) explain(ctx context.Context) {
	for _, arguments := range [][]string{
		{"get", "autoscalingrunnersets,ephemeralrunnersets,ephemeralrunners,pods", "-A", "--ignore-not-found"},
		{"get", "events", "-n", s.namespace, "--sort-by=.lastTimestamp"},
		{"logs", "-n", site.SystemNamespace, "-l", "app.kubernetes.io/component=controller-manager", "--tail=20"},
		{"logs", "-n", site.SystemNamespace, "-l", "app.kubernetes.io/component=runner-scale-set-listener", "--tail=20"},
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

func (s *scaleSet) snapshot(ctx context.Context) fakegithub.Snapshot {
	s.t.Helper()
	snapshot, err := s.github.Snapshot(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	return snapshot
}

func (s *scaleSet) onGitHub(ctx context.Context) *state.ScaleSetView {
	s.t.Helper()
	sets := s.snapshot(ctx).ScaleSets
	if i := slices.IndexFunc(sets, func(v state.ScaleSetView) bool { return v.Name == s.name }); i >= 0 {
		return &sets[i]
	}
	return nil
}

// idle returns the set's runners on GitHub that are online without a job.
func (s *scaleSet) idle() []state.RunnerView {
	s.t.Helper()
	set := s.onGitHub(s.t.Context())
	if set == nil {
		return nil
	}
	return slices.DeleteFunc(s.snapshot(s.t.Context()).Runners, func(r state.RunnerView) bool {
		return r.ScaleSetID != set.ID || !r.Online || r.Busy
	})
}

func (s *scaleSet) awaitIdle(count int) {
	s.t.Helper()
	s.await(s.t.Context(), fmt.Sprintf("%d idle runners", count), func() (string, error) {
		if got := len(s.idle()); got != count {
			return fmt.Sprintf("there are %d", got), nil
		}
		return "", nil
	})
}

// queue queues jobs that take so long, and returns their ids.
func (s *scaleSet) queue(count int, duration time.Duration) []int64 {
	s.t.Helper()
	ids, err := s.github.QueueJobs(s.t.Context(), fakegithub.JobRequest{
		Count: count, ScaleSet: s.name, Duration: fakegithub.Duration(duration),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return ids
}

// awaitJobs waits until all of the jobs are in the state, and returns them.
func (s *scaleSet) awaitJobs(ids []int64, in fakegithub.JobState) []fakegithub.Job {
	s.t.Helper()
	var found []fakegithub.Job
	s.await(s.t.Context(), "jobs to be "+string(in), func() (string, error) {
		jobs, err := s.github.Jobs(s.t.Context(), in)
		if err != nil {
			return "", err
		}
		found = slices.DeleteFunc(jobs, func(j fakegithub.Job) bool { return !slices.Contains(ids, j.RequestID) })
		if len(found) < len(ids) {
			return fmt.Sprintf("%d of %d are", len(found), len(ids)), nil
		}
		return "", nil
	})
	return found
}

// awaitSuccess waits for the end of the jobs; each must have succeeded at the first attempt.
func (s *scaleSet) awaitSuccess(ids []int64) {
	s.t.Helper()
	for _, job := range s.awaitJobs(ids, state.Completed) {
		if job.Result != state.ResultSucceeded || job.Attempts > 1 {
			s.t.Errorf("job %d: %s after %d attempts on runner %q", job.RequestID, job.Result, job.Attempts, job.Runner)
		}
	}
}

func (s *scaleSet) awaitNoRunners() {
	s.t.Helper()
	s.await(s.t.Context(), "no runner to be left", func() (string, error) {
		left, err := site.RunnersLeft(s.t.Context(), kube, s.namespace)
		return site.Shorten(left, 5), err
	})
}

// runnerPods returns the pods of runners that are not being deleted.
func (s *scaleSet) runnerPods() []corev1.Pod {
	s.t.Helper()
	var pods corev1.PodList
	err := kube.List(s.t.Context(), &pods, client.InNamespace(s.namespace), client.MatchingLabels{v1alpha1.LabelRunner: "True"})
	if err != nil {
		s.t.Fatal(err)
	}
	return slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
}

// podOf returns the one pod of a component in the controller's namespace: "controller-manager" or the listener of this set.
func (s *scaleSet) podOf(component string) corev1.Pod {
	s.t.Helper()
	labels := client.MatchingLabels{v1alpha1.LabelComponent: component}
	if component == v1alpha1.ComponentListener {
		labels[v1alpha1.LabelScaleSetName] = s.name
	}
	var pods corev1.PodList
	if err := kube.List(s.t.Context(), &pods, client.InNamespace(site.SystemNamespace), labels); err != nil {
		s.t.Fatal(err)
	}
	if len(pods.Items) != 1 {
		s.t.Fatalf("%d pods of %s, want 1", len(pods.Items), component)
	}
	return pods.Items[0]
}

// kill deletes a pod as if its node had burst into flames: no grace, no goodbye.
func (s *scaleSet) kill(pod corev1.Pod) {
	s.t.Helper()
	if err := kube.Delete(s.t.Context(), &pod, client.GracePeriodSeconds(0)); err != nil {
		s.t.Fatal(err)
	}
}
