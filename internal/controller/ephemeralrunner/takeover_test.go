package ephemeralrunner_test

import (
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/kube"
)

// A job came and ended under a manager that could not write anything about it, and its report is late. The next manager
// finds no trace of a pod, so it registers the runner again. When the report comes, it is not about that registration.
func TestALateReportIsNotAboutTheNextManagersRegistration(t *testing.T) {
	for name, test := range map[string]struct {
		again bool
		calls []string
	}{
		"the next manager":            {calls: []string{"remove 102"}},
		"and the one that comes next": {again: true, calls: []string{"find", "remove 102"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.settle()
				f.endUnnoticed()
				f.restart()
				f.api.refuse = map[string]error{"create Secret": errors.New("away")}
				f.settle()
				if test.again {
					f.restart()
				}
				f.github.said()
				f.setStatus(jobDone)
				f.api.refuse = nil
				f.settle()
				if got := f.github.said(); !slices.Equal(got, test.calls) || len(f.github.registered) != 0 {
					t.Errorf("GitHub was asked %v, want %v; registered are %v", got, test.calls, f.github.registered)
				}
				if f.runner() != nil {
					t.Error("the runner is still there")
				}
			}, newRunner())
		})
	}
}

// endUnnoticed ends the runner's job and removes all traces of it, on GitHub too.
func (f *fixture) endUnnoticed() {
	f.Helper()
	for _, err := range []error{f.api.WithWatch.Delete(f.Context(), f.pod()),
		f.api.WithWatch.Delete(f.Context(), f.secret())} {
		if err != nil {
			f.Fatal(err)
		}
	}
	clear(f.github.registered)
}

// secondRegistration brings about a second registration while the report about the first one's job is late.
var secondRegistration = map[string]func(f *fixture){
	"after a takeover": func(f *fixture) {
		f.endUnnoticed()
		f.restart()
	},
	"after an eviction as the job ended": func(f *fixture) {
		f.setPod(runs)
		f.settle()
		f.endUnnoticed()
		f.settle() // records the failure
		f.elapse(rules.RetryBackoff[0])
	},
}

// The late report comes when the second registration has its pod: only GitHub knows whether that one has a job.
func TestALateReportIsNotAboutAPodThatCameLater(t *testing.T) {
	for name, register := range secondRegistration {
		for state, test := range map[string]struct {
			pod    func(*corev1.Pod)
			answer error
			calls  []string
			gone   bool
		}{
			"busy":     {pod: runs, answer: actions.ErrJobStillRunning, calls: []string{"remove 102"}},
			"idle":     {pod: runs, calls: []string{"remove 102"}, gone: true},
			"starting": {pod: pulls, calls: []string{"remove 102"}, gone: true},
			"waiting":  {pod: func(*corev1.Pod) {}, calls: []string{"remove 102"}, gone: true},
		} {
			t.Run(name+", "+state, func(t *testing.T) {
				inBubble(t, func(f *fixture) {
					f.settle()
					register(f)
					f.settle()
					f.setPod(test.pod)
					f.settle()
					f.setStatus(jobDone)
					f.settle()
					f.github.said()
					f.github.remove = test.answer
					f.delete()
					f.settle()
					f.wantCalls(test.calls...)
					if gone := f.pod() == nil && f.runner() == nil; gone != test.gone {
						t.Errorf("pod and runner gone: %t, want %t", gone, test.gone)
					}
				}, newRunner())
			})
		}
	}
}

// If GitHub doesn't say whether there is another job, the runner is deleted after the time for a runner without a job.
func TestALateReportKeepsNoPodForeverWhenGitHubIsSilent(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.endUnnoticed()
		f.restart()
		f.settle()
		f.setPod(runs)
		f.setStatus(jobDone)
		f.settle()
		f.github.remove = errGitHubAway
		f.delete()
		f.settle()
		if f.pod() == nil {
			t.Fatal("the pod is gone though GitHub has time to answer")
		}
		f.elapse(rules.SilenceTimeout)
		f.settle()
		f.wantGone()
	}, newRunner())
}

// A runner whose pod the next manager finds has been registered a single time, by the former manager.
func TestReportAboutAFormerManagersPodNeedsNoGitHub(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.started()
		f.restart()
		f.settle()
		f.setStatus(jobDone)
		f.delete()
		f.settle()
		f.wantCalls()
		f.wantGone()
	}, newRunner())
}

// ARC writes the runner's id to the status before it creates the pod, and not on the pod.
func TestARCsRunnerKeepsItsRegistration(t *testing.T) {
	for state, change := range map[string]func(*corev1.Pod){"pending at takeover": func(*corev1.Pod) {},
		"running at takeover": runs} {
		t.Run(state, func(t *testing.T) {
			runner := newRunner(func(r *v1alpha1.EphemeralRunner) {
				r.Status.Phase, r.Status.RunnerID, r.Status.RunnerName = v1alpha1.EphemeralRunnerPhasePending,
					37, r.Name
			})
			pod := &corev1.Pod{Spec: runner.Spec.PodSpec, ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: name, UID: "pod-uid", Labels: runner.Labels,
				OwnerReferences: kube.OwnedBy(runner)}}
			change(pod)
			inBubble(t, func(f *fixture) {
				f.restart()
				f.settle()
				f.setPod(runs)
				f.settle()
				if status := f.runner().Status; status.Phase != v1alpha1.EphemeralRunnerPhaseRunning ||
					status.RunnerID != 37 {
					t.Errorf("status %+v, want Running with registration 37", status)
				}
				f.delete()
				f.settle()
				f.wantCalls("remove 37")
			}, runner, pod)
		})
	}
}
