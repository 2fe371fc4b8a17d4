package failpoints

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/fakegithub"
)

// modes are the scenarios of a job in each container mode, and of runners that fail before they have one. Docker beside
// the runner is a sidecar, which is one of lives.
var modes = []scenario{
	{name: "kubernetes mode", run: hooked("/home/runner/k8s/index.js")},
	{name: "kubernetes mode without volumes", run: hooked("/home/runner/k8s-novolume/index.js")},
	{name: "runners that fail", run: func(w *world) {
		w.crashes.Store(2)
		burst(w)
	}},
}

// hooked has container hooks run a job in a pod of its own. The job loses its runner, and with it the hooks that would
// have cleaned up: what they have made is the manager's to remove.
func hooked(hooks string) func(*world) {
	return func(w *world) {
		w.results, w.allowed = []string{"failed"}, []fakegithub.AnomalyKind{"RunnerLostBusy"}
		w.hooks = w.containerHooks
		lost(w, w.set(2, func(set *v1alpha1.AutoscalingRunnerSet) {
			container := &set.Spec.Template.Spec.Containers[0]
			container.Env = append(container.Env, corev1.EnvVar{Name: "ACTIONS_RUNNER_CONTAINER_HOOKS", Value: hooks})
		}))
	}
}

// containerHooks are those of a runner's pod: a pod for the job, and a Secret with its environment, which carry the
// runner's name and have no owner.
func (w *world) containerHooks(runner *corev1.Pod) fakegithub.JobHook {
	return func(ctx context.Context, _ map[string]string) fakegithub.Step {
		meta := metav1.ObjectMeta{
			Namespace: runner.Namespace, Labels: map[string]string{v1alpha1.LabelRunnerPod: runner.Name},
		}
		pod := &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "job", Image: "job:1"}},
		}}
		pod.Name = runner.Name + "-workflow"
		secret := &corev1.Secret{ObjectMeta: meta, StringData: map[string]string{"KEY": "value"}}
		secret.Name = runner.Name + "-environment"
		for _, object := range []client.Object{pod, secret} {
			if err := w.user.Create(ctx, object); err != nil {
				return fakegithub.Step{Name: "Initialize containers", Log: err.Error(), Failed: true}
			}
		}
		return fakegithub.Step{Name: "Initialize containers"}
	}
}
