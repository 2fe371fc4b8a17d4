package soak

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/claims"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/kinds"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/registrations"
)

// A job takes jobLength steps.
const jobLength = 2

var setKey = client.ObjectKey{Namespace: "runners", Name: "set"}

// site has both controllers and plays everything around them, one step after the other.
type site struct {
	*testing.T
	api     client.WithWatch
	github  *github
	set     *ephemeralrunnerset.Controller
	watch   controllertest.RunnerWatch // the set's
	runner  *ephemeralrunner.Controller
	known   map[client.ObjectKey]bool // runners to reconcile, deleted ones a last time
	patchID int

	steps, jobs int
	waiting     []int          // jobs without a runner
	running     map[string]int // the step in which the runner's job ends
	failed      int            // the last job whose runner failed before it
	reports     []func()       // what the listener reports in the next step
}

func newSite(t *testing.T, workers *pool.Pool) *site {
	log.SetLogger(logr.Discard()) // controller-runtime keeps every logger in memory until one is set
	s := &site{T: t, github: newGitHub(), known: map[client.ObjectKey]bool{}, running: map[string]int{}}
	s.api = fake.NewClientBuilder().WithScheme(kinds.Scheme()).
		WithIndex(&corev1.PersistentVolumeClaim{}, claims.IndexByScaleSet,
			claims.ScaleSetOf).
		WithStatusSubresource(&v1alpha1.EphemeralRunnerSet{}, &v1alpha1.EphemeralRunner{}, &corev1.Pod{}).
		WithInterceptorFuncs(interceptor.Funcs{Create: create, SubResourceGet: readLive}).Build()
	verdicts := registrations.NewVerdicts(clock.RealClock{})
	s.set = ephemeralrunnerset.NewController(ephemeralrunnerset.Options{
		Client: s.api, Reader: s.api, Pool: workers, Verdicts: verdicts, Recorder: &events.FakeRecorder{},
		Clock: clock.RealClock{},
		GitHub: func(context.Context, credentials.Reference) (ephemeralrunnerset.GitHub, error) {
			return s.github, nil
		},
		Proxy: func(context.Context, credentials.Reference) (map[string][]byte, error) { return nil, nil },
	})
	s.watch.Handler = s.set.RunnerEvents()
	s.runner = ephemeralrunner.NewController(ephemeralrunner.Options{
		Client: s.api, Reader: s.api, Pool: workers, Verdicts: verdicts, Recorder: &events.FakeRecorder{},
		Clock: clock.RealClock{},
		GitHub: func(context.Context, credentials.Reference) (ephemeralrunner.GitHub, error) {
			return s.github, nil
		},
		JobMetadata: true, JobProtection: true,
	})
	set := newSet()
	origin := controllertest.Origin(set)
	controllertest.Create(t, s.api, origin)
	set.OwnerReferences = kube.OwnedBy(origin) // the fake API server has given it a UID
	controllertest.Create(t, s.api, set)
	return s
}

func newSet() *v1alpha1.EphemeralRunnerSet {
	set := &v1alpha1.EphemeralRunnerSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: setKey.Namespace, Name: setKey.Name, Generation: 1,
		Labels: map[string]string{v1alpha1.LabelScaleSetName: setKey.Name,
			v1alpha1.LabelScaleSetNamespace: setKey.Namespace},
	}}
	spec := &set.Spec.EphemeralRunnerSpec
	spec.GitHubConfigUrl, spec.GitHubConfigSecret, spec.RunnerScaleSetID = "https://github.com/acme", "github", 1
	spec.PodSpec.Containers = []corev1.Container{{Name: v1alpha1.RunnerContainerName, Image: "runner:2.338.0"}}
	return set
}

// create sets what an API server sets when it creates an object.
func create(ctx context.Context, api client.WithWatch, object client.Object, options ...client.CreateOption) error {
	object.SetUID(uuid.NewUUID())
	object.SetCreationTimestamp(metav1.Now())
	return api.Create(ctx, object, options...)
}

// readLive answers reads of the status subresource, which the fake client does not support.
func readLive(
	ctx context.Context, api client.Client, _ string, object, into client.Object, _ ...client.SubResourceGetOption,
) error {
	return api.Get(ctx, client.ObjectKeyFromObject(object), into)
}

// queue adds a job that waits for a runner.
func (s *site) queue() {
	s.jobs++
	s.waiting = append(s.waiting, s.jobs)
}

// pass plays one step: the listener publishes and reports, the controllers act, the kubelet and the runners make
// progress.
func (s *site) pass() {
	s.Helper()
	s.steps++
	s.publish()
	for _, report := range s.reports {
		report()
	}
	s.reports = nil
	s.reconcile()
	for _, runner := range s.runners() {
		s.play(&runner)
	}
	controllertest.Elapse(step)
}

// reconcile reconciles the set and all runners, including new and deleted ones.
func (s *site) reconcile() {
	s.Helper()
	s.watch.Show(s.Context(), s.runners())
	controllertest.Reconcile(s, s.set, setKey)
	keys := s.known
	s.known = map[client.ObjectKey]bool{}
	for _, runner := range s.runners() {
		key := client.ObjectKeyFromObject(&runner)
		keys[key], s.known[key] = true, true
	}
	for key := range keys {
		controllertest.Reconcile(s, s.runner, key)
	}
	synctest.Wait()
}

func (s *site) runners() []v1alpha1.EphemeralRunner {
	s.Helper()
	var list v1alpha1.EphemeralRunnerList
	if err := s.api.List(s.Context(), &list); err != nil {
		s.Fatal(err)
	}
	return list.Items
}

// publish writes the number of assigned jobs, as the listener does.
func (s *site) publish() {
	s.Helper()
	set := &v1alpha1.EphemeralRunnerSet{}
	if !controllertest.Read(s, s.api, setKey, set) {
		s.Fatal("the set is gone")
	}
	s.patchID++
	set.Spec.Replicas = len(s.waiting) + len(s.running)
	set.Spec.AssignedJobs, set.Spec.PatchID = set.Spec.Replicas, s.patchID
	if err := s.api.Update(s.Context(), set); err != nil {
		s.Fatal(err)
	}
}

// describe returns a line for each remaining runner.
func (s *site) describe() (lines []string) {
	for _, runner := range s.runners() {
		lines = append(lines, fmt.Sprintf("%s %s job %s deleted %v", runner.Name, runner.Status.Phase,
			runner.Status.JobID,
			runner.DeletionTimestamp))
	}
	return lines
}

// report writes what the listener knows about the runner's job, in the next step.
func (s *site) report(name string, change func(*v1alpha1.EphemeralRunnerStatus)) {
	patchID := s.patchID + 1
	s.reports = append(s.reports, func() {
		runner := &v1alpha1.EphemeralRunner{}
		if !controllertest.Read(s, s.api, client.ObjectKey{Namespace: setKey.Namespace, Name: name}, runner) {
			return
		}
		runner.Status.JobPatchID = patchID
		change(&runner.Status)
		if err := s.api.Status().Update(s.Context(), runner); err != nil {
			s.Fatal(err)
		}
	})
}

func (s *site) started(name string, job int) {
	s.github.take(name)
	s.running[name] = s.steps + jobLength
	s.report(name, func(status *v1alpha1.EphemeralRunnerStatus) {
		status.JobID, status.JobRequestID, status.JobRepositoryName = strconv.Itoa(job), int64(job), "acme/web"
	})
}

func (s *site) completed(name string) {
	s.github.end(name)
	delete(s.running, name)
	finished := metav1.Now()
	s.report(name, func(status *v1alpha1.EphemeralRunnerStatus) {
		status.JobResult, status.FinishedAt = "succeeded", &finished
	})
}
