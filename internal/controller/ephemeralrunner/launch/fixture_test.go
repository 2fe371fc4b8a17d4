package launch_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/launch"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube/kinds"
	"github.com/harrier-ci/harrier/internal/pool"
)

const (
	namespace = "arc-runners"
	name      = "set-runner-abcde"
)

var (
	errGitHubAway = errors.New("GitHub is away")
	errNoAnswer   = errors.New("connection reset")
)

// fixture is a launcher in a bubble: its API server is in memory, and GitHub gives every runner the id 42.
type fixture struct {
	*testing.T
	*launch.Launcher
	api    client.WithWatch
	memory *launch.Memory
	github *github
	// The API server's answers to creations of pods get lost.
	lost bool
}

// github is GitHub as far as a launch needs it.
type github struct {
	launch.GitHub // what a test doesn't ask is not there

	// noClient is the error of making a client, refuse that of a registration.
	noClient, refuse error
	// asked are the registrations that were asked for, in the scale set with the id scaleSet.
	asked    []actions.JITConfigRequest
	scaleSet int
}

func (g *github) GenerateJITConfig(
	_ context.Context, scaleSet int, request actions.JITConfigRequest,
) (*actions.JITConfig, error) {
	g.asked, g.scaleSet = append(g.asked, request), scaleSet
	if g.refuse != nil {
		return nil, g.refuse
	}
	return &actions.JITConfig{Runner: actions.RunnerReference{ID: 42}, EncodedJITConfig: "config"}, nil
}

// RemoveRunner never gets an answer.
func (g *github) RemoveRunner(context.Context, int) error { return errGitHubAway }

// created is an API server that creates everything and keeps nothing, for tests that read nothing.
type created struct{ client.Client }

func (created) Create(context.Context, client.Object, ...client.CreateOption) error { return nil }

// inBubble runs a test with a launcher. The bubble's time begins with the year 2000.
func inBubble(t *testing.T, test func(f *fixture)) {
	t.Helper()
	controllertest.InBubble(t, func(t *testing.T, workers *pool.Pool) {
		f := &fixture{T: t, memory: &launch.Memory{}, github: &github{}}
		create := func(ctx context.Context, api client.WithWatch, o client.Object, options ...client.CreateOption) error {
			err := api.Create(ctx, o, options...)
			if _, isPod := o.(*corev1.Pod); isPod && f.lost {
				return errNoAnswer
			}
			return err
		}
		f.api = fake.NewClientBuilder().WithScheme(kinds.Scheme()).
			WithInterceptorFuncs(interceptor.Funcs{Create: create}).Build()
		f.Launcher = newLauncher(f.api, f.github, workers)
		test(f)
	})
}

func newLauncher(api client.Client, g *github, workers *pool.Pool) *launch.Launcher {
	return launch.New(launch.Options{
		Client: api, Reader: api, Pool: workers, Clock: clock.RealClock{}, Version: "1.2.3",
		GitHub:  func(context.Context, credentials.Reference) (launch.GitHub, error) { return g, g.noClient },
		Wake:    func(types.NamespacedName) {},
		Counted: func(context.Context, *v1alpha1.EphemeralRunner) (bool, error) { return true, nil },
	})
}

// launch launches a runner and returns what has become of it. reuse is the id of an unused registration.
func (f *fixture) launch(runner *v1alpha1.EphemeralRunner, reuse int) rules.Progress {
	f.Helper()
	f.Launch(&v1alpha1.AutoscalingRunnerSet{}, runner, reuse, f.memory)
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
