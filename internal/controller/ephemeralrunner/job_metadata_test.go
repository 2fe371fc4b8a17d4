package ephemeralrunner_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/mark"
	"github.com/harrier-ci/harrier/internal/registrations"
)

// startJob reports an ordinary job, as the listener would.
func startJob(r *v1alpha1.EphemeralRunner) {
	r.Status.JobID, r.Status.JobRequestID, r.Status.WorkflowRunID = "6f5a", 7, 42
	r.Status.JobRepositoryName, r.Status.JobDisplayName = "acme/web", "test (linux, 1.26)"
	r.Status.JobWorkflowRef = "acme/web/.github/workflows/ci.yml@refs/heads/main"
}

func endJob(at time.Time) func(*v1alpha1.EphemeralRunner) {
	return func(r *v1alpha1.EphemeralRunner) {
		r.Status.JobResult, r.Status.FinishedAt = "succeeded", new(metav1.NewTime(at))
	}
}

// working brings a runner to where its job has just been reported.
func (f *fixture) working() {
	f.settle()
	f.setPod(runs)
	f.settle()
	f.api.sent()
	f.setStatus(startJob)
	f.settle()
}

func TestPodShowsItsJobAndIsProtectedWhileItRuns(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.working()
		if got := f.api.sent(); got != "patch Pod" {
			t.Errorf("requests %s, want one patch of the pod", got)
		}
		want := map[string]string{
			v1alpha1.AnnotationRunnerID:      "101",
			v1alpha1.AnnotationJobRepository: "acme/web",
			v1alpha1.AnnotationJobWorkflow:   "acme/web/.github/workflows/ci.yml",
			v1alpha1.AnnotationJobRef:        "refs/heads/main",
			v1alpha1.AnnotationJobRunID:      "42",
			v1alpha1.AnnotationJobID:         "6f5a",
			v1alpha1.AnnotationJobName:       "test (linux, 1.26)",
			v1alpha1.AnnotationDoNotDisrupt:  "true",
			v1alpha1.AnnotationSafeToEvict:   "false",
			v1alpha1.AnnotationPhases:        "registered=946684800 imagePulled=1767268800 containerUp=1767268800",
		}
		if diff := cmp.Diff(want, f.pod().Annotations); diff != "" {
			t.Errorf("annotations (-want +got):\n%s", diff)
		}
		labels := f.pod().Labels
		f.wantBusy("with a job", true)
		if labels[v1alpha1.LabelJobRepository] != "acme_web" || labels[v1alpha1.LabelJobRunID] != "42" ||
			labels[v1alpha1.LabelJobID] != "6f5a" {
			t.Errorf("labels %v", labels)
		}
	}, newRunner())
}

// Nearly all pods end immediately; only a pod that lives on gets the result, and may be evicted again.
func TestPodThatOutlivesItsJobShowsTheResult(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.working()
		f.api.sent()
		f.setStatus(endJob(time.Now()))
		if requeueAfter := f.reconcile().RequeueAfter; requeueAfter <= 0 || requeueAfter > mark.ResultGrace {
			t.Errorf("requeued after %s, want %s", requeueAfter, mark.ResultGrace)
		}
		if got := f.api.sent(); got != "" {
			t.Errorf("requests %s though the pod may end at any moment", got)
		}
		f.elapse(mark.ResultGrace)
		f.settle()
		if got := f.api.sent(); got != "patch Pod" {
			t.Errorf("requests %s, want one patch of the pod", got)
		}
		annotations := f.pod().Annotations
		_, protected := annotations[v1alpha1.AnnotationSafeToEvict]
		if annotations[v1alpha1.AnnotationJobResult] != "succeeded" || protected {
			t.Errorf("annotations %v, want the result and no protection", annotations)
		}
		f.wantBusy("after its job", false)
		f.restart() // forgets that both are written
		f.settle()
		if got := f.api.sent(); got != "" {
			t.Errorf("requests %s of another manager, want none", got)
		}
	}, newRunner())
}

// wantBusy fails unless the pod has the label that the PodDisruptionBudget selects by, or has it not.
func (f *fixture) wantBusy(when string, want bool) {
	f.Helper()
	if got := f.pod().Labels["actions.github.com/runner-busy"]; (got == "true") != want {
		f.Errorf("label of busy runners %s: %q, want it: %t", when, got, want)
	}
}

// Only a job makes a pod busy: a template that says so would keep nodes with idle runners for ever, and hide the start
// of a job.
func TestNoTemplateMakesAPodBusy(t *testing.T) {
	labels := map[string]string{v1alpha1.LabelRunnerBusy: "true"}
	inBubble(t, func(f *fixture) {
		f.settle()
		f.wantBusy("without a job", false)
		f.working()
		f.wantBusy("with a job", true)
	}, newRunner(func(r *v1alpha1.EphemeralRunner) {
		r.Spec.PodMetadata.Labels, r.Labels[v1alpha1.LabelRunnerBusy] = labels, "true"
	}))
}

// GitHub may know of a job whose start nobody has reported, as while the listener is away: its refusal to remove the
// registration says so, to the runner's set or to this controller. The report, when it comes, adds what job it is.
func TestARunnerThatGitHubCallsBusyIsMarked(t *testing.T) {
	for asks, ask := range map[string]func(*fixture){
		"its set": func(f *fixture) {
			f.verdicts.Give(runnerKey, registrations.Registration{Runner: f.runner().UID, ID: 101}, registrations.Busy)
		},
		"this controller": func(f *fixture) {
			f.github.remove = actions.ErrJobStillRunning
			f.delete()
			f.settle()
		},
	} {
		t.Run(asks, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.settle()
				f.setPod(runs)
				f.settle()
				f.wantBusy("before", false)
				ask(f)
				f.settle()
				f.wantBusy("once GitHub has refused", true)
				f.api.sent()
				f.setStatus(startJob)
				f.settle()
				if got := f.api.sent(); got != "patch Pod" || f.pod().Annotations[v1alpha1.AnnotationJobID] != "6f5a" {
					t.Errorf("requests %s, annotations %v; want the job, once", got, f.pod().Annotations)
				}
			}, newRunner())
		})
	}
}

// Another manager may have written the job on the pod without the label, as versions before it did.
func TestARestartedManagerMarksWhatIsNotMarked(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.working()
		pod := f.pod()
		delete(pod.Labels, v1alpha1.LabelRunnerBusy)
		if err := f.api.WithWatch.Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		f.restart()
		f.settle()
		f.wantBusy("after a restart", true)
	}, newRunner())
}

// Karpenter counts a duration from the pod's start, and an idle runner may have waited long before its job.
func TestProtectionForADurationBeginsWithTheJob(t *testing.T) {
	for _, test := range []struct {
		protection string
		idle       time.Duration
		want       string
	}{
		{"", time.Hour, "true"},
		{"true", time.Hour, "true"},
		{"false", time.Hour, "false"},
		{"6h", 90 * time.Minute, "7h30m0s"},
		{"30m", 0, "30m0s"},
		{"1h30m", 100 * time.Millisecond, "1h30m1s"},
		{"30m", -time.Minute, "30m0s"}, // the node's clock is ahead
	} {
		set := &v1alpha1.AutoscalingRunnerSet{}
		inBubble(t, func(f *fixture) {
			f.settle()
			f.setPod(runs)
			f.settle()
			f.setPod(func(pod *corev1.Pod) { pod.Status.StartTime = new(metav1.NewTime(time.Now().Add(-test.idle))) })
			controllertest.Read(t, f.api, types.NamespacedName{Namespace: namespace, Name: "set"}, set)
			set.Spec.JobProtection = test.protection // after the runner was made: a change needs no new runners
			if err := f.api.WithWatch.Update(t.Context(), set); err != nil {
				t.Fatal(err)
			}
			f.setStatus(startJob)
			f.settle()
			if got := f.pod().Annotations[v1alpha1.AnnotationDoNotDisrupt]; got != test.want {
				t.Errorf("jobProtection %q after %s: %q, want %q", test.protection, test.idle, got, test.want)
			}
		}, newRunner())
	}
}

// cluster-autoscaler keeps a node with idle runners unless their template marks them safe to evict. Their jobs are not.
func TestTemplateDecidesAboutEvictionWhileThereIsNoJob(t *testing.T) {
	for _, template := range []map[string]string{
		{},
		{v1alpha1.AnnotationSafeToEvict: "true"},
		{v1alpha1.AnnotationSafeToEvict: "false", v1alpha1.AnnotationDoNotDisrupt: "true"},
		{v1alpha1.AnnotationSafeToEvict: "true", v1alpha1.AnnotationDoNotDisrupt: "false"},
		{v1alpha1.AnnotationDoNotDisrupt: "5m"},
	} {
		protected := map[string]string{v1alpha1.AnnotationSafeToEvict: "false", v1alpha1.AnnotationDoNotDisrupt: "true"}
		inBubble(t, func(f *fixture) {
			f.settle()
			f.wantProtection("when it is new", protected)
			f.idle()
			f.wantProtection("when it is idle", template)
			f.working()
			f.wantProtection("with a job", protected)
			f.setStatus(endJob(time.Time{}))
			f.settle()
			f.wantProtection("after the job", template)
		}, newRunner(func(r *v1alpha1.EphemeralRunner) { r.Spec.PodMetadata.Annotations = template }))
	}
}

// wantProtection fails unless the pod has exactly these of the annotations that node autoscalers read.
func (f *fixture) wantProtection(when string, want map[string]string) {
	f.Helper()
	got := maps.Clone(f.pod().Annotations)
	maps.DeleteFunc(got, func(key, _ string) bool {
		return key != v1alpha1.AnnotationSafeToEvict && key != v1alpha1.AnnotationDoNotDisrupt
	})
	if diff := cmp.Diff(want, got); diff != "" {
		f.Errorf("annotations %s (-want +got):\n%s", when, diff)
	}
}

// Without our protection nothing overrides the template.
func TestTemplateDecidesAloneWithoutProtection(t *testing.T) {
	template := map[string]string{v1alpha1.AnnotationSafeToEvict: "true"}
	inBubble(t, func(f *fixture) {
		f.configure(func(o *ephemeralrunner.Options) { o.JobProtection = false })
		f.working()
		f.wantProtection("with a job", template)
	}, newRunner(func(r *v1alpha1.EphemeralRunner) { r.Spec.PodMetadata.Annotations = template }))
}

func TestJobMetadataCanBeTurnedOff(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.configure(func(o *ephemeralrunner.Options) { o.JobProtection = false })
		f.working()
		if annotations := f.pod().Annotations; annotations[v1alpha1.AnnotationDoNotDisrupt] != "" ||
			annotations[v1alpha1.AnnotationJobID] == "" {
			t.Errorf("annotations %v, want the job and no protection", annotations)
		}
	}, newRunner())
	inBubble(t, func(f *fixture) {
		f.configure(func(o *ephemeralrunner.Options) { o.JobMetadata = false })
		f.working()
		f.wantBusy("without metadata", true)
		if got := f.api.sent(); got != "patch Pod" || f.pod().Annotations[v1alpha1.AnnotationDoNotDisrupt] != "" ||
			f.pod().Labels[v1alpha1.LabelJobID] != "" {
			t.Errorf("requests %s, annotations %v, labels %v; want one label", got, f.pod().Annotations, f.pod().Labels)
		}
		f.setStatus(endJob(time.Time{}))
		f.settle()
		f.wantBusy("without metadata, after the job", false)
		f.settle()
		if got := f.api.sent(); got != "patch Pod" {
			t.Errorf("requests %s, want one that removes the label", got)
		}
	}, newRunner())
}

// deniedBy returns the refusal of an admission webhook, which may use any code.
func deniedBy(webhook string, code int32) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Message: fmt.Sprintf("admission webhook %q denied the request",
			webhook)}}
}

// Without the chart's Role, or with a policy that keeps pods as they are, jobs run as usual. The lack is recorded a
// single time per namespace, in the words of whoever refuses.
func TestRefusedPodMetadataIsReportedOnce(t *testing.T) {
	const policy = "validate.kyverno.svc"
	for title, refusal := range map[string]error{
		"no permission": apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, name, errors.New(policy)),
		"an admission policy": apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, name,
			field.ErrorList{field.Forbidden(nil, policy)}),
		"a webhook":       deniedBy(policy, http.StatusBadRequest),
		"a webhook's 403": deniedBy(policy, http.StatusForbidden),
	} {
		t.Run(title, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.api.refuse = map[string]error{"patch Pod": refusal}
				f.working() // fails if a pass does
				if got := f.api.sent(); got != "patch Pod" {
					t.Errorf("requests %s, want one try", got)
				}
				if wait := f.reconcile().RequeueAfter; wait <= 0 || wait > mark.ForbiddenBackoff {
					t.Errorf("tried again after %s: nothing else may bring the runner back", wait)
				}
				f.elapse(mark.ForbiddenBackoff)
				f.settle()
				if got := f.api.sent(); got != "patch Pod" {
					t.Errorf("requests %s, want another try after a pause", got)
				}
				recorded := controllertest.Events(f.recorder)
				if len(recorded) != 1 || !strings.Contains(recorded[0], "PodMetadataForbidden") ||
					!strings.Contains(recorded[0], policy) {
					t.Errorf("Events %q, want one that quotes the refusal", recorded)
				}
			}, newRunner())
		})
	}
}

func TestRefusedPatchIsRepeatedUnlessThePodIsGone(t *testing.T) {
	for _, test := range []struct {
		err   error
		fails bool
	}{
		{apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, name), false},
		{apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, name, nil), false},
		{apierrors.NewGenericServerResponse(http.StatusInternalServerError, "patch", schema.GroupResource{}, name, "", 0, true), true},
	} {
		inBubble(t, func(f *fixture) {
			f.settle()
			f.setPod(runs)
			f.settle()
			f.setStatus(startJob)
			f.api.refuse = map[string]error{"patch Pod": test.err}
			result, err := f.controller.Reconcile(t.Context(), reconcile.Request{NamespacedName: runnerKey})
			if (err != nil) != test.fails || result.RequeueAfter != 0 {
				t.Errorf("Reconcile() = %+v, %v, fails %t wanted", result, err, test.fails)
			}
		}, newRunner())
	}
}

func TestOnlyALivingPodIsMarked(t *testing.T) {
	for what, test := range map[string]struct {
		change func(f *fixture)
		want   bool
	}{
		"runs":                             {func(f *fixture) { f.setPod(runs) }, true},
		"has ended":                        {func(f *fixture) { f.setPod(exits(0)) }, false},
		"is being deleted":                 {func(f *fixture) { f.setPod(runs); f.dies(time.Hour) }, false},
		"is still pending, says the cache": {func(f *fixture) { f.setPod(statusOf(corev1.PodPending)) }, true},
	} {
		inBubble(t, func(f *fixture) {
			f.settle()
			test.change(f)
			f.setStatus(startJob)
			f.api.sent()
			f.reconcile()
			if sent := f.api.sent(); strings.Contains(sent, "patch Pod") != test.want {
				t.Errorf("a pod that %s: requests %q, marked: %t wanted", what, sent, test.want)
			}
		}, newRunner())
	}
}
