package launch_test

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/launch"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/pool"
)

// fromSecret returns a variable whose value is in a Secret.
func fromSecret(name, secret, key string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: key,
	}}}
}

// asStored leaves out what the API server adds.
var asStored = cmpopts.IgnoreFields(metav1.ObjectMeta{}, "ResourceVersion", "UID")

func TestNewPod(t *testing.T) {
	runner := newRunner(wholeRunner)
	runner.CreationTimestamp = metav1.Unix(946_684_790, 0)
	before := runner.DeepCopy()
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, OwnerReferences: ownerOfRunner(),
			Labels: map[string]string{
				"team": "test", v1alpha1.LabelScaleSetName: "set", v1alpha1.LabelScaleSetNamespace: namespace,
				v1alpha1.LabelRunner: "True",
			},
			Annotations: map[string]string{v1alpha1.AnnotationPatchID: "3", "note": "template's",
				v1alpha1.AnnotationRunnerID: "42",
				v1alpha1.AnnotationPhases:   "created=946684790 registered=946684800"},
		},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{
				{Name: "dind", Image: "docker:dind", RestartPolicy: new(corev1.ContainerRestartPolicyNever), RestartPolicyRules: []corev1.ContainerRestartRule{anyRule}, TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError, Env: []corev1.EnvVar{
					fromSecret("http_proxy", "proxy", "http_proxy"),
					fromSecret("https_proxy", "proxy", "https_proxy"),
					fromSecret("no_proxy", "proxy", "no_proxy"),
				}},
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
	inBubble(t, func(f *fixture) {
		if diff := cmp.Diff(want, f.launched(runner), asStored); diff != "" {
			t.Errorf("pod (-want +got):\n%s", diff)
		}
	})
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
	inBubble(t, func(f *fixture) {
		if diff := cmp.Diff(want, f.launched(runner).Labels); diff != "" {
			t.Errorf("labels (-want +got):\n%s", diff)
		}
	})
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
	inBubble(t, func(f *fixture) {
		f.launched(newRunner(wholeRunner))
		got := &corev1.Secret{}
		if !controllertest.Read(t, f.api, client.ObjectKey{Namespace: namespace, Name: name}, got) {
			t.Fatal("there is no Secret")
		}
		if diff := cmp.Diff(want, got, asStored); diff != "" {
			t.Errorf("Secret (-want +got):\n%s", diff)
		}
	})
}

// A runner is registered in its scale set, under its name, with the working directory of its container as work folder.
func TestRegistrationOfARunner(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.launched(newRunner(wholeRunner))
		want := []actions.JITConfigRequest{{Name: name, WorkFolder: "/work"}}
		if diff := cmp.Diff(want, f.github.asked); diff != "" || f.github.scaleSet != 5 {
			t.Errorf("asked for in scale set %d (-want +got):\n%s", f.github.scaleSet, diff)
		}
	})
}

// The pod was created, but the answer was lost: it is found, and not mistaken for somebody else's.
func TestPodThatExistsAlreadyIsTheRunners(t *testing.T) {
	inBubble(t, func(f *fixture) {
		runner := newRunner()
		f.lost = true
		if progress := f.launch(runner, 0); progress.Failure == nil {
			t.Fatal("a pod is created without an answer")
		}
		f.lost = false
		if progress := f.launch(runner, 42); progress.Failure != nil || len(f.github.asked) != 1 {
			t.Errorf("own pod: %v, %d registrations", progress.Failure, len(f.github.asked))
		}
		pod := f.pod()
		pod.Finalizers = []string{"test/keep"}
		if err := f.api.Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		if err := f.api.Delete(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		refusal := f.launch(runner, 42).Failure
		if refusal == nil || refusal.Kind != rules.Temporary || refusal.Reason != v1alpha1.ReasonPodTerminating {
			t.Errorf("own pod that is being deleted: %v, want to wait", refusal)
		}
	})
}

// A launch makes 87 allocations, and the pod takes 20 of them: each budget is less than twice that.
func TestAllocationsOfALaunch(t *testing.T) {
	controllertest.InBubble(t, func(t *testing.T, workers *pool.Pool) {
		runner, set, l := newRunner(), &v1alpha1.AutoscalingRunnerSet{}, newLauncher(created{}, &github{}, workers)
		for name, test := range map[string]struct {
			do     func()
			budget float64
		}{
			"pod": {func() { launch.SamplePod(runner, "dev") }, 39},
			"launch": {func() {
				l.Launch(set, runner, 0, &launch.Memory{})
				synctest.Wait()
			}, 120},
		} {
			if got := testing.AllocsPerRun(100, test.do); got > test.budget {
				t.Errorf("%s allocates %.0f times, budget %.0f", name, got, test.budget)
			}
		}
	})
}
