package failpoints

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/fakegithub"
)

// lives are the scenarios from an installation to its end.
var lives = []scenario{
	{name: "burst and drain", installs: true, uninstalls: true, run: burst},
	{name: "sidecar, two idle runners", uninstalls: true, run: func(w *world) {
		two, always := 2, corev1.ContainerRestartPolicyAlways
		set := w.set(3, func(set *v1alpha1.AutoscalingRunnerSet) {
			set.Spec.MinRunners = &two
			set.Spec.Template.Spec.InitContainers = []corev1.Container{
				{Name: "dind", Image: "docker:1", RestartPolicy: &always},
			}
		})
		if !w.install(set) || !w.idle(2) {
			return
		}
		w.queue(2, time.Minute)
		if !w.done() || !w.idle(2) {
			return
		}
		w.rest()
		w.uninstall(set)
	}},
	{name: "two managers", managers: 2, installs: true, uninstalls: true, run: burst},
	{name: "uninstall without GitHub", uninstalls: true, run: func(w *world) {
		set := w.set(2)
		if !w.install(set) {
			return
		}
		w.queue(1, time.Minute)
		if !w.done() {
			return
		}
		w.rest()
		if _, err := w.github.AddFault(fakegithub.Fault{Endpoint: "*", Status: 503}); err != nil {
			w.t.Fatal(err)
		}
		w.forgive = []string{"scale set builds at GitHub", "session of "} // nobody can delete them
		w.uninstall(set)
	}},
	{name: "uninstall while it installs", installs: true, uninstalls: true, run: func(w *world) {
		set := w.set(2)
		w.create(w.secret(), set)
		registered := func() bool { return len(w.github.Snapshot().ScaleSets) == 1 }
		if !w.until("registered", 10*time.Minute, registered) {
			return
		}
		if err := w.user.Delete(w.t.Context(), set); err != nil {
			w.t.Fatal(err)
		}
		gone := func() bool { return len(w.server.Objects()["autoscalingrunnersets"]) == 0 }
		if w.until("deleted", 10*time.Minute, gone) {
			w.uninstall(set) // the credentials, which helm deletes last if the user keeps them elsewhere
		}
	}},
	{name: "uninstall while a job runs", uninstalls: true, run: func(w *world) {
		set := w.set(2)
		if !w.install(set) {
			return
		}
		w.queue(1, 5*time.Minute)
		if w.busy(1) {
			w.uninstall(set)
		}
	}},
}

// burst is the shortest life: installed, three jobs, uninstalled.
func burst(w *world) {
	set := w.set(3)
	if !w.install(set) {
		return
	}
	w.queue(2, time.Minute)
	<-time.After(time.Second) // the third comes when the first runners are created and perhaps not yet seen
	w.queue(1, time.Minute)
	if !w.done() {
		return
	}
	w.rest()
	w.uninstall(set)
}
