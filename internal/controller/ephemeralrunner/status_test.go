package ephemeralrunner_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/registrations"
)

// A status that could not be written is written again; its Event is recorded a single time.
func TestEventsComeAfterTheStatusTheyAreAbout(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.setPod(func(pod *corev1.Pod) { pod.Status.Phase, pod.Status.Reason = corev1.PodFailed, "Evicted" })
		f.api.refuse = map[string]error{"patch status EphemeralRunner": errors.New("the API server is away")}
		for range 3 {
			if _, err := f.controller.Reconcile(f.Context(), reconcile.Request{NamespacedName: runnerKey}); err == nil {
				t.Fatal("a status that was not written is not an error")
			}
		}
		if recorded := len(f.recorder.Events); recorded != 0 {
			t.Errorf("%d Events before the status was written", recorded)
		}
		f.api.refuse = nil
		f.reconcile()
		f.wantEvent("Evicted")
		if status := f.runner().Status; status.Phase != v1alpha1.EphemeralRunnerPhasePending ||
			rules.AttemptsRecorded(&status) != 1 {
			t.Errorf("status %+v", status)
		}
	}, newRunner())
}

// Its set finds out that a runner that succeeded had no job: kstatus and readers of Events must learn that, too.
func TestRunnerThatItsSetMarksAsFailedIsStalled(t *testing.T) {
	for _, test := range []struct {
		verdict registrations.Answer
		runner  corev1.Container
		want    string
	}{
		{registrations.NoJob, corev1.Container{Command: []string{"start"}}, "exited with code 0 before it got a job: check the image and its command"},
		{registrations.NoKnownJob, corev1.Container{Args: []string{"start"}}, "neither a report nor GitHub says that it had a job: check the image"},
		{registrations.NoJob, corev1.Container{}, "before it got a job: it has no command, and the usual image does not start the runner by itself"},
	} {
		inBubble(t, func(f *fixture) {
			f.exitsIdle()
			f.verdicts.Give(runnerKey, registrations.Registration{Runner: f.runner().UID}, test.verdict)
			f.settle()
			if got := f.api.sent(); got != "patch status EphemeralRunner" {
				t.Errorf("requests %s, want one that writes the status", got)
			}
			f.wantEvent(v1alpha1.ReasonRunnerExitedWithoutJob)
			status := f.runner().Status
			if status.Phase != v1alpha1.EphemeralRunnerPhaseFailed ||
				status.Reason != v1alpha1.ReasonRunnerExitedWithoutJob ||
				!strings.Contains(status.Message, test.want) {
				t.Errorf("status %+v, want %q", status, test.want)
			}
			for _, condition := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionStalled} {
				got := meta.FindStatusCondition(status.Conditions, condition)
				if got == nil || got.Reason != v1alpha1.ReasonRunnerExitedWithoutJob || got.Message != status.Message {
					t.Errorf("condition %s: %+v", condition, got)
				}
			}
		}, newRunner(func(r *v1alpha1.EphemeralRunner) {
			test.runner.Name = v1alpha1.RunnerContainerName
			r.Spec.PodSpec.Containers = []corev1.Container{test.runner}
		}))
	}
}

// What GitHub refuses because of its version is Outdated, whatever its exit code, and its message names image and
// version: of the tag, or of GitHub's record.
func TestRefusedVersionIsNamed(t *testing.T) {
	const takes = "; it takes 2.329.0 and later, each release until 30 days after the next one"
	for name, test := range map[string]struct {
		code            int32
		image, recorded string
		want            string
	}{
		"exit 7, named by the tag":    {7, "runner:2.334.0", "2.335.0", "GitHub refuses runner version 2.334.0 in image runner:2.334.0" + takes},
		"exit 7, named by the record": {7, "runner:latest", "2.334.0", "GitHub refuses runner version 2.334.0 in image runner:latest" + takes},
		"exit 7, named by nobody":     {7, "runner:latest", "", "GitHub refuses the runner version in image runner:latest" + takes},
		"exit 0, named by the tag": {0, "runner:2.330.0", "",
			"GitHub refuses runner version 2.330.0 in image runner:2.330.0, which exits with code 0 then, and says in its log that it is deprecated" + takes},
		"exit 0, named by the record": {0, "runner:latest", "2.330.0",
			"GitHub refuses runner version 2.330.0 in image runner:latest, which exits with code 0 then"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.github.recorded = test.recorded
				if test.code == 0 {
					f.exitsIdle()
					r := f.runner()
					if test.recorded != "" {
						f.verdicts.SeeVersion(registrations.Registration{Runner: r.UID, ID: r.Status.RunnerID}, test.recorded)
					}
					f.verdicts.Give(runnerKey, registrations.Registration{Runner: r.UID}, registrations.VersionRefused)
				} else {
					f.settle()
					f.setPod(exits(test.code))
				}
				f.settle()
				status := f.runner().Status
				if status.Phase != v1alpha1.EphemeralRunnerPhaseOutdated || status.Reason != "Outdated" ||
					!strings.HasPrefix(status.Message, test.want) {
					t.Errorf("status %+v, want %q", status, test.want)
				}
			}, newRunner(func(r *v1alpha1.EphemeralRunner) {
				r.Spec.GitHubConfigUrl = "https://github.com/acme"
				r.Spec.PodSpec.Containers[0].Image = test.image
			}))
		})
	}
}

// A report may come while the set's verdict is under way.
func TestOnlyARunnerWithoutAJobIsMarkedAsFailed(t *testing.T) {
	for name, change := range map[string]func(f *fixture){
		"its job is reported": func(f *fixture) { f.setStatus(func(r *v1alpha1.EphemeralRunner) { r.Status.JobID = "1" }) },
		"its job's end is":    func(f *fixture) { f.setStatus(func(r *v1alpha1.EphemeralRunner) { r.Status.JobResult = "succeeded" }) },
		"GitHub says it has one": func(f *fixture) {
			f.setStatus(func(r *v1alpha1.EphemeralRunner) {
				meta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionDraining,
					Status: metav1.ConditionTrue, Reason: "JobRunning"})
			})
		},
		"it is about a former one": func(f *fixture) {
			f.verdicts.Give(runnerKey, registrations.Registration{Runner: f.runner().UID}, registrations.None)
			f.verdicts.Give(runnerKey, registrations.Registration{Runner: "former"}, registrations.NoJob)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.exitsIdle()
				f.verdicts.Give(runnerKey, registrations.Registration{Runner: f.runner().UID}, registrations.NoJob)
				change(f)
				f.settle()
				if phase := f.runner().Status.Phase; phase != v1alpha1.EphemeralRunnerPhaseSucceeded {
					t.Errorf("phase %s", phase)
				}
			}, newRunner())
		})
	}
}

// exitsIdle makes the runner's container exit with 0, and lets the time for a report of a job pass.
func (f *fixture) exitsIdle() {
	f.started().setPod(exits(0))
	f.settle()
	f.elapse(rules.ReportGrace)
	f.settle()
	f.api.sent()
}

// kubectl wait uses Ready, and kstatus uses Stalled.
func TestReadinessFollowsThePhase(t *testing.T) {
	unready := map[string]metav1.ConditionStatus{"Ready": metav1.ConditionFalse}
	stalled := map[string]metav1.ConditionStatus{"Ready": metav1.ConditionFalse, "Progressing": metav1.ConditionFalse,
		"Stalled": metav1.ConditionTrue}
	for title, test := range map[string]struct {
		happens func(f *fixture)
		phase   v1alpha1.EphemeralRunnerPhase
		want    map[string]metav1.ConditionStatus
	}{
		"deleted before its pod was seen to run": {func(f *fixture) {
			f.settle()
			f.github.remove = actions.ErrJobStillRunning
			f.setStatus(hasReportedJob)
			f.delete()
		}, "", unready},
		"pending": {func(f *fixture) { f.github.jit = errGitHubAway }, v1alpha1.EphemeralRunnerPhasePending, unready},
		"runs": {
			func(f *fixture) { f.started() }, v1alpha1.EphemeralRunnerPhaseRunning,
			map[string]metav1.ConditionStatus{"Ready": metav1.ConditionTrue},
		},
		"runs, its pod is not ready": {func(f *fixture) {
			f.started().setPod(func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse })
		}, v1alpha1.EphemeralRunnerPhaseRunning, unready},
		"succeeded": {func(f *fixture) { f.exitsIdle() }, v1alpha1.EphemeralRunnerPhaseSucceeded, unready},
		"failed": {func(f *fixture) {
			f.started().setStatus(hasReportedJob)
			f.setPod(exits(1))
			f.settle()
			f.elapse(rules.SilentGrace)
		}, v1alpha1.EphemeralRunnerPhaseFailed, stalled},
		"outdated": {func(f *fixture) { f.started().setPod(exits(7)) }, v1alpha1.EphemeralRunnerPhaseOutdated, stalled},
	} {
		t.Run(title, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				test.happens(f)
				f.settle()
				got, status := map[string]metav1.ConditionStatus{}, f.runner().Status
				for _, c := range status.Conditions {
					if slices.Contains([]string{"Ready", "Progressing", "Stalled"}, c.Type) {
						got[c.Type] = c.Status
					}
				}
				if status.Phase != test.phase {
					t.Errorf("phase %q, want %q", status.Phase, test.phase)
				}
				if difference := cmp.Diff(test.want, got); difference != "" {
					t.Errorf("conditions (-want +got):\n%s", difference)
				}
			}, newRunner())
		})
	}
}

// Whoever reads the status of a runner that is not registered also reads what happens next.
func TestTheNextStepIsInTheStatus(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.github.jit = actions.ErrScaleSetNotFound
		f.settle()
		if got := f.runner().Status.Message; !strings.Contains(got, "the manager recreates the scale set") {
			t.Errorf("message %q, want what follows", got)
		}
	}, newRunner())
}
