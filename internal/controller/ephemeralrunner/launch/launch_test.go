package launch

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/kube/kinds"
)

const (
	namespace = "arc-runners"
	name      = "set-runner-abcde"
)

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

func TestNewPod(t *testing.T) {
	runner := newRunner(wholeRunner)
	before := runner.DeepCopy()
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, OwnerReferences: ownerOfRunner(),
			Labels: map[string]string{
				"team": "test", v1alpha1.LabelScaleSetName: "set", v1alpha1.LabelScaleSetNamespace: namespace,
				v1alpha1.LabelRunner: "True",
			},
			Annotations: map[string]string{v1alpha1.AnnotationPatchID: "3", "note": "template's",
				v1alpha1.AnnotationRunnerID: "42"},
		},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{
				{Name: "dind", Image: "docker:dind", RestartPolicy: new(corev1.ContainerRestartPolicyNever), RestartPolicyRules: []corev1.ContainerRestartRule{anyRule}},
				{Name: v1alpha1.RunnerContainerName, Image: "runner:1", WorkingDir: "/work", Env: []corev1.EnvVar{
					{Name: "MINE", Value: "1"},
					fromSecret("ACTIONS_RUNNER_INPUT_JITCONFIG", name, "jitToken"),
					{Name: "GITHUB_ACTIONS_RUNNER_EXTRA_USER_AGENT", Value: "actions-runner-controller/1.2.3"},
					{Name: "ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE", Value: "1"},
					fromSecret("http_proxy", "proxy", "http_proxy"),
					fromSecret("https_proxy", "proxy", "https_proxy"),
					fromSecret("no_proxy", "proxy", "no_proxy"),
				}},
			},
		},
	}
	if diff := cmp.Diff(want, newPod(runner, 42, "1.2.3")); diff != "" {
		t.Errorf("pod (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, runner); diff != "" {
		t.Errorf("the runner was changed:\n%s", diff)
	}
}

// The manager's cache selects pods by these labels: without them a runner that somebody created by hand would lose its
// pod.
func TestPodOfARunnerWithoutLabelsIsSeen(t *testing.T) {
	runner := newRunner()
	runner.Labels = nil
	want := map[string]string{
		v1alpha1.LabelRunner: "True", v1alpha1.LabelScaleSetName: runner.Name,
		v1alpha1.LabelScaleSetNamespace: runner.Namespace,
	}
	if diff := cmp.Diff(want, newPod(runner, 1, "1.2.3").Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

func TestNewSecret(t *testing.T) {
	want := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, OwnerReferences: ownerOfRunner(),
			Labels: map[string]string{"a": "b", v1alpha1.LabelScaleSetName: "set",
				v1alpha1.LabelScaleSetNamespace: namespace},
			Annotations: map[string]string{"c": "d"},
		},
		Data: map[string][]byte{
			"jitToken": []byte("config"), "runnerName": []byte(name), "runnerId": []byte("42"), "scaleSetId": []byte("5"),
		},
	}
	got := newSecret(newRunner(wholeRunner), &registration{id: 42, config: "config"})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Secret (-want +got):\n%s", diff)
	}
}

func TestOnlyConfiguredProxiesReachTheRunner(t *testing.T) {
	runner := newRunner(wholeRunner,
		func(r *v1alpha1.EphemeralRunner) { r.Spec.Proxy = &v1alpha1.ProxyConfig{NoProxy: []string{"x"}} })
	env := runnerEnv(runner, "1")
	if last := env[len(env)-1].Name; len(env) != 4 || last != "no_proxy" {
		t.Errorf("environment %v, want the three of every runner and no_proxy", env)
	}
}

func TestWorkFolderIsTheRunnerContainers(t *testing.T) {
	if got := workFolder(&newRunner(wholeRunner).Spec.PodSpec); got != "/work" {
		t.Errorf("work folder %q", got)
	}
}

// The pod was created, but the answer was lost: it is found, and not mistaken for somebody else's.
func TestPodThatExistsAlreadyIsTheRunners(t *testing.T) {
	runner := newRunner()
	pod := newPod(runner, 42, "1")
	pod.Finalizers = []string{"test/keep"}
	api := fake.NewClientBuilder().WithScheme(kinds.Scheme()).WithObjects(pod).Build()
	l := New(Options{Reader: api})
	if err := l.checkExistingPod(t.Context(), runner); err != nil {
		t.Errorf("own pod: %v", err)
	}
	if err := api.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	err := l.checkExistingPod(t.Context(), runner)
	if refusal, ok := errors.AsType[*rules.Failure](err); !ok || refusal.Kind != rules.Temporary {
		t.Errorf("own pod that is being deleted: %v, want to wait", err)
	}
}

// Each runner's launch allocates about half as often as these budgets allow on any machine.
func TestAllocationsOfALaunch(t *testing.T) {
	runner, registered := newRunner(), &registration{id: 7, config: string(make([]byte, 2000))}
	for name, test := range map[string]struct {
		do     func()
		budget float64
	}{
		"newPod":    {func() { newPod(runner, 7, "dev") }, 60},
		"newSecret": {func() { newSecret(runner, registered) }, 30},
	} {
		if got := testing.AllocsPerRun(100, test.do); got > test.budget {
			t.Errorf("%s allocates %.0f times, budget %.0f", name, got, test.budget)
		}
	}
}
