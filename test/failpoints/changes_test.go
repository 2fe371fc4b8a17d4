package failpoints

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/fakegithub"
)

// changes are the scenarios in which a user changes a scale set while a job runs, and another job comes after that.
var changes = []scenario{
	{name: "template", run: changed(func(w *world) {
		w.change(func(set *v1alpha1.AutoscalingRunnerSet) { set.Spec.Template.Spec.Containers[0].Image = "runner:2" })
	})},
	{name: "address", run: changed(func(w *world) {
		w.change(func(set *v1alpha1.AutoscalingRunnerSet) { set.Spec.GitHubConfigUrl = gitHubURL + "/org/repository" })
	})},
	{name: "runner group", github: fakegithub.Options{RunnerGroups: []string{"large"}}, run: changed(func(w *world) {
		w.change(func(set *v1alpha1.AutoscalingRunnerSet) { set.Spec.RunnerGroup = "large" })
	})},
	{name: "name", github: fakegithub.Options{Rules: fakegithub.Rules{MultiLabel: true}}, run: changed(func(w *world) {
		w.change(func(set *v1alpha1.AutoscalingRunnerSet) {
			set.Spec.RunnerScaleSetName, set.Spec.RunnerScaleSetLabels = "other", []string{"builds"}
		})
	})},
	{name: "name while it installs", installs: true, run: func(w *world) {
		set := w.set(2)
		w.create(w.secret(), set)
		registered := func() bool { return len(w.github.Snapshot().ScaleSets) == 1 }
		if !w.until("registered", 10*time.Minute, registered) {
			return
		}
		w.change(func(set *v1alpha1.AutoscalingRunnerSet) { set.Spec.RunnerScaleSetName = "other" })
		listening := func() bool { return len(w.github.Snapshot().Sessions) == 1 }
		if w.until("listening", 10*time.Minute, listening) {
			w.rest()
			w.uninstall(set)
		}
	}},
	{name: "rotation of the token", run: changed(func(w *world) {
		secret := &corev1.Secret{}
		if err := w.user.Get(w.t.Context(), client.ObjectKey{Namespace: runners, Name: "github"}, secret); err != nil {
			w.t.Fatal(err)
		}
		secret.Data["github_token"] = []byte("second")
		if err := w.user.Update(w.t.Context(), secret); err != nil {
			w.t.Fatal(err)
		}
		w.github.RevokePAT("token", true)
		w.github.ExpireAdminTokens()
	})},
	{name: "maxRunners 0 and back", run: changed(func(w *world) {
		maximum := func(count int) {
			w.change(func(set *v1alpha1.AutoscalingRunnerSet) { set.Spec.MaxRunners = &count })
		}
		maximum(0)
		w.rest()
		w.allow(0)
		w.queue(1, time.Minute)
		w.rest()
		w.allow(2)
		maximum(2)
	})},
	{name: "listener restarts", run: changed(func(w *world) {
		list := &corev1.PodList{}
		if err := w.user.List(w.t.Context(), list, client.InNamespace(system)); err != nil {
			w.t.Fatal(err)
		}
		for i := range list.Items {
			if err := w.user.Delete(w.t.Context(), &list.Items[i]); err != nil {
				w.t.Fatal(err)
			}
		}
	})},
	{name: "schedule opens and closes", run: scheduled},
}

// changed is the life of a scale set that is changed while a job runs.
func changed(change func(*world)) func(*world) {
	return func(w *world) {
		set := w.set(2)
		if !w.install(set) {
			return
		}
		w.queue(1, 3*time.Minute)
		if !w.busy(1) {
			return
		}
		change(w)
		w.queue(1, time.Minute)
		if !w.done() {
			return
		}
		w.rest()
		w.uninstall(set)
	}
}

// scheduled keeps two runners idle from five to fifteen minutes after midnight, when a bubble begins.
func scheduled(w *world) {
	two := 2
	set := w.set(3, func(set *v1alpha1.AutoscalingRunnerSet) {
		set.Spec.Schedules = []v1alpha1.Schedule{{
			Name: "morning", Schedule: "5 0 * * *", Duration: metav1.Duration{Duration: 10 * time.Minute}, MinRunners: &two,
		}}
	})
	if !w.install(set) || !w.idle(2) {
		return
	}
	w.queue(1, time.Minute)
	if !w.done() || !w.idle(2) || !w.idle(0) {
		return
	}
	w.rest()
	w.uninstall(set)
}
