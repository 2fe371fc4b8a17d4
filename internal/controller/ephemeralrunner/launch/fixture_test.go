package launch_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/launch"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/pool"
)

const (
	namespace = "arc-runners"
	name      = "set-runner-abcde"
)

// fixture is a launcher in a bubble: its API server is in memory, and GitHub gives every runner the id 42.
type fixture struct {
	*testing.T
	*launch.Launcher
	// api is the API server itself. The launcher's requests to it are those below; a test's own neither fail nor count.
	api    client.WithWatch
	memory *launch.Memory
	github *github
	// requests are those that the launcher has sent, as "create Pod". Reads are "get", or "live" if no cache may answer.
	requests []string
	mu       sync.Mutex // two may be under way
	// fails are the errors of requests, which do nothing then; meanwhile is what happens just before one is answered.
	fails     map[string]error
	meanwhile map[string]func()
	// The API server's answers to creations of pods get lost.
	lost bool
}

// inBubble runs a test with a launcher. The bubble's time begins with the year 2000.
func inBubble(t *testing.T, test func(f *fixture), change ...func(*launch.Options)) {
	t.Helper()
	controllertest.InBubble(t, func(t *testing.T, workers *pool.Pool) {
		f := &fixture{
			T: t, memory: &launch.Memory{}, github: &github{}, fails: map[string]error{}, meanwhile: map[string]func(){},
			api: controllertest.NewKubernetes().Build(),
		}
		f.Launcher = newLauncher(f.asked("get"), f.github, workers, append(change,
			func(o *launch.Options) { o.Reader = f.asked("live") })...)
		test(f)
	})
}

// newLauncher returns a launcher whose API server and GitHub are these.
func newLauncher(api client.Client, g *github, workers *pool.Pool, change ...func(*launch.Options)) *launch.Launcher {
	options := launch.Options{
		Client: api, Reader: api, Pool: workers, Clock: clock.RealClock{}, Version: "1.2.3",
		GitHub:  func(context.Context, credentials.Reference) (launch.GitHub, error) { return g, g.noClient },
		Wake:    func(types.NamespacedName) {},
		Counted: func(context.Context, *v1alpha1.EphemeralRunner) (bool, error) { return true, nil },
	}
	for _, c := range change {
		c(&options)
	}
	return launch.New(options)
}

// asked returns the API server as the launcher asks it. What a fake one lacks is added: UIDs, and deletions that look
// at them.
func (f *fixture) asked(read string) client.WithWatch {
	return interceptor.NewClient(f.api, interceptor.Funcs{
		Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, o client.Object,
			options ...client.GetOption) error {
			if err := f.request(read, o); err != nil {
				return err
			}
			return api.Get(ctx, key, o, options...)
		},
		Create: func(ctx context.Context, api client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if err := f.request("create", o); err != nil {
				return err
			}
			o.SetUID(uuid.NewUUID())
			err := api.Create(ctx, o, options...)
			if _, isPod := o.(*corev1.Pod); isPod && f.lost {
				return errNoAnswer
			}
			return err
		},
		Update: func(ctx context.Context, api client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			if err := f.request("update", o); err != nil {
				return err
			}
			return api.Update(ctx, o, options...)
		},
		Delete: func(ctx context.Context, api client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			if err := f.request("delete", o); err != nil {
				return err
			}
			var asked client.DeleteOptions
			asked.ApplyOptions(options)
			live := o.DeepCopyObject().(client.Object)
			if err := api.Get(ctx, client.ObjectKeyFromObject(o), live); err != nil {
				return err
			}
			if asked.Preconditions == nil || asked.Preconditions.UID == nil || *asked.Preconditions.UID != live.GetUID() {
				return apierrors.NewConflict(schema.GroupResource{}, o.GetName(), errors.New("another UID"))
			}
			return api.Delete(ctx, o, options...)
		},
	})
}

// request records a request and returns its error.
func (f *fixture) request(verb string, o client.Object) error {
	request := verb + strings.Replace(fmt.Sprintf("%T", o), "*v1.", " ", 1)
	f.mu.Lock()
	f.requests = append(f.requests, request)
	f.mu.Unlock()
	if happens := f.meanwhile[request]; happens != nil {
		happens()
	}
	return f.fails[request]
}

// deleting creates an object that is being deleted.
func (f *fixture) deleting(o client.Object) {
	f.Helper()
	o.SetFinalizers([]string{"test/keep"})
	controllertest.Create(f, f.api, o)
	if err := f.api.Delete(f.Context(), o); err != nil {
		f.Fatal(err)
	}
}

// refusals of the API server.
var (
	errNoAnswer   = errors.New("connection reset")
	errInternal   = apierrors.NewInternalError(errors.New("a webhook fails"))
	errNotFound   = apierrors.NewNotFound(schema.GroupResource{}, name)
	errExists     = apierrors.NewAlreadyExists(schema.GroupResource{}, name)
	errForbidden  = apierrors.NewForbidden(schema.GroupResource{}, name, errors.New("a policy"))
	errQuota      = apierrors.NewForbidden(schema.GroupResource{}, name, errors.New("exceeded quota: compute"))
	errInvalid    = apierrors.NewInvalid(schema.GroupKind{}, name, nil)
	errBadRequest = apierrors.NewBadRequest("a webhook denies it")
	errNamespace  = &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}},
	}}
)

// wantFailure fails the test unless a call has failed like this, with a message that contains want's. nil stands for
// success.
func wantFailure(t testing.TB, got rules.Progress, want *rules.Failure) {
	t.Helper()
	switch {
	case want == nil && !got.Succeeded():
		t.Errorf("failed: %+v, want success", got.Failure)
	case want != nil && (got.Failure == nil || got.Failure.Kind != want.Kind || got.Failure.Reason != want.Reason ||
		!strings.Contains(got.Failure.Message, want.Message)):
		t.Errorf("failed: %+v, want %+v", got.Failure, want)
	}
}

// launch launches a runner and returns what has become of it. reuse is the id of an unused registration.
func (f *fixture) launch(runner *v1alpha1.EphemeralRunner, reuse int) rules.Progress {
	f.Helper()
	return f.launchOf(newSet(), runner, reuse)
}

// launchOf is the same with a set of the test's.
func (f *fixture) launchOf(
	set *v1alpha1.AutoscalingRunnerSet, runner *v1alpha1.EphemeralRunner, reuse int,
) rules.Progress {
	f.Helper()
	f.Launch(set, runner, reuse, f.memory)
	synctest.Wait()
	progress, _ := f.memory.Launched()
	return progress
}

// launched launches a runner, which must succeed, and returns its pod.
func (f *fixture) launched(runner *v1alpha1.EphemeralRunner) *corev1.Pod {
	f.Helper()
	if progress := f.launch(runner, 0); progress.Failure != nil {
		f.Fatalf("the runner is not launched: %v", progress.Failure)
	}
	return f.pod()
}

// pod returns the runner's pod.
func (f *fixture) pod() *corev1.Pod {
	f.Helper()
	pod := &corev1.Pod{}
	if !controllertest.Read(f, f.api, client.ObjectKey{Namespace: namespace, Name: name}, pod) {
		f.Fatal("there is no pod")
	}
	return pod
}

// newSet returns the runner's scale set, whose runners may have a claim "cache".
func newSet(change ...func(*v1alpha1.AutoscalingRunnerSet)) *v1alpha1.AutoscalingRunnerSet {
	set := &v1alpha1.AutoscalingRunnerSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "set", UID: "set-uid"},
	}
	set.Spec.VolumeClaimTemplates = []v1alpha1.VolumeClaimTemplate{
		{Metadata: v1alpha1.VolumeClaimTemplateMeta{Name: "cache"}}}
	for _, c := range change {
		c(set)
	}
	return set
}

// newRunner returns a runner as its set creates it.
func newRunner(change ...func(*v1alpha1.EphemeralRunner)) *v1alpha1.EphemeralRunner {
	runner := &v1alpha1.EphemeralRunner{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: "runner-uid",
			Labels: map[string]string{v1alpha1.LabelScaleSetName: "set", v1alpha1.LabelScaleSetNamespace: namespace,
				"team": "build"},
		},
		Spec: v1alpha1.EphemeralRunnerSpec{
			RunnerScaleSetID: 5,
			PodSpec: corev1.PodSpec{Containers: []corev1.Container{{Name: v1alpha1.RunnerContainerName,
				Image: "runner:1"}}},
		},
	}
	for _, c := range change {
		c(runner)
	}
	return runner
}

var anyRule = corev1.ContainerRestartRule{Action: corev1.ContainerRestartRuleActionRestart}

// restartAll restarts the runner container as well.
var restartAll = corev1.ContainerRestartRule{Action: corev1.ContainerRestartRuleActionRestartAllContainers}

// wholeRunner uses everything that affects pod and Secret, and tries to override our labels and annotations.
func wholeRunner(r *v1alpha1.EphemeralRunner) {
	r.Annotations = map[string]string{v1alpha1.AnnotationPatchID: "3", "note": "runner's"}
	r.Spec.PodMetadata = metav1.ObjectMeta{
		Labels:      map[string]string{"team": "test", v1alpha1.LabelScaleSetName: "other", v1alpha1.LabelRunner: "no"},
		Annotations: map[string]string{"note": "template's", v1alpha1.AnnotationRunnerID: "1"},
	}
	r.Spec.EphemeralRunnerConfigSecretMetadata = &v1alpha1.ResourceMeta{
		Labels:      map[string]string{"a": "b", v1alpha1.LabelScaleSetName: "other"},
		Annotations: map[string]string{"c": "d"},
	}
	r.Spec.Proxy = &v1alpha1.ProxyConfig{
		HTTP: &v1alpha1.ProxyServerConfig{Url: "http://proxy"}, HTTPS: &v1alpha1.ProxyServerConfig{Url: "http://proxy"},
		NoProxy: []string{"internal"},
	}
	r.Spec.ProxySecretRef = "proxy"
	r.Spec.PodSpec = corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyAlways,
		Containers: []corev1.Container{
			{Name: "dind", Image: "docker:dind", RestartPolicy: new(corev1.ContainerRestartPolicyNever), RestartPolicyRules: []corev1.ContainerRestartRule{anyRule, restartAll}},
			{
				Name: v1alpha1.RunnerContainerName, Image: "runner:1", WorkingDir: "/work",
				Env:                []corev1.EnvVar{{Name: "MINE", Value: "1"}},
				RestartPolicy:      new(corev1.ContainerRestartPolicyOnFailure),
				RestartPolicyRules: []corev1.ContainerRestartRule{anyRule},
			},
		},
	}
}

func ownerOfRunner() []metav1.OwnerReference {
	return []metav1.OwnerReference{{
		APIVersion: "actions.github.com/v1alpha1", Kind: "EphemeralRunner", Name: name, UID: "runner-uid",
		Controller: new(true),
	}}
}
