package ephemeralrunnerset_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/registrations"
)

var (
	errNoAnswer  = errors.New("connection reset")
	runnersGroup = schema.GroupResource{Group: "actions.github.com", Resource: "ephemeralrunners"}
	errOverQuota = apierrors.NewForbidden(runnersGroup, "", errors.New("exceeded quota"))
)

// namespaceTerminates returns the answer to a creation in a namespace that is being deleted.
func namespaceTerminates() error {
	refusal := apierrors.NewForbidden(runnersGroup, "", errors.New("terminating"))
	refusal.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	return refusal
}

func TestCreatesRunnersUnderChosenNames(t *testing.T) {
	set := newSet(3, func(s *v1alpha1.EphemeralRunnerSet) {
		s.Spec.EphemeralRunnerMetadata = &v1alpha1.ResourceMeta{
			Labels:      map[string]string{"team": "build", v1alpha1.LabelScaleSetName: "other"},
			Annotations: map[string]string{"note": "x"},
		}
		s.Annotations = map[string]string{v1alpha1.AnnotationRunnerGroupName: "Default"}
	})
	inBubble(t, func(f *fixture) {
		f.reconcile()
		f.reconcile()
		f.wantRunners(3)
		r := f.runners()[0]
		if !strings.HasPrefix(r.Name, "set-runner-") ||
			!slices.Equal(r.Finalizers, []string{v1alpha1.FinalizerEphemeralRunner}) {
			t.Errorf("runner %s with finalizers %v", r.Name, r.Finalizers)
		}
		if r.Labels["team"] != "build" || r.Labels[v1alpha1.LabelScaleSetName] != "set" ||
			r.Labels[v1alpha1.LabelComponent] != v1alpha1.ComponentRunner {
			t.Errorf("labels %v", r.Labels)
		}
		if r.Annotations["note"] != "x" || r.Annotations[v1alpha1.AnnotationPatchID] != "1" ||
			r.Annotations[v1alpha1.AnnotationRunnerGroupName] != "Default" {
			t.Errorf("annotations %v", r.Annotations)
		}
		if !metav1.IsControlledBy(&r, set) {
			t.Error("the runner does not belong to the set")
		}
		if !slices.Contains(f.set().Finalizers, v1alpha1.FinalizerEphemeralRunnerSet) {
			t.Error("the set has no finalizer")
		}
	}, set)
}

// Before the first job a pod is tried that is the same as a job's.
func TestASampleIsARunnerAsTheSetCreatesIt(t *testing.T) {
	set := newSet(1, func(s *v1alpha1.EphemeralRunnerSet) {
		s.Spec.EphemeralRunnerMetadata = &v1alpha1.ResourceMeta{Labels: map[string]string{"team": "build"},
			Annotations: map[string]string{"note": "x"}}
		s.Annotations = map[string]string{v1alpha1.AnnotationRunnerGroupName: "Default"}
		s.Spec.EphemeralRunnerSpec.Proxy = &v1alpha1.ProxyConfig{HTTP: &v1alpha1.ProxyServerConfig{Url: "http://proxy"}}
	})
	inBubble(t, func(f *fixture) {
		f.reconcile()
		f.reconcile()
		f.wantRunners(1)
		created, live := f.runners()[0], f.set()
		sample := ephemeralrunnerset.SampleRunner(controllertest.Origin(live.DeepCopy()), live)
		if !kube.IsRunnerName(live.Name, sample.Name) || len(sample.Name) != len(created.Name) || sample.UID == "" {
			t.Errorf("the sample is %s with UID %q", sample.Name, sample.UID)
		}
		sample.Name, sample.UID = created.Name, created.UID
		sample.ResourceVersion, sample.CreationTimestamp = created.ResourceVersion, created.CreationTimestamp
		if difference := cmp.Diff(&created, sample); difference != "" {
			t.Error(difference)
		}
	}, set)
}

func TestLateCacheCreatesNothingTwice(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.late = true
		for range 5 {
			f.reconcile()
		}
		f.wantRunners(3)
		if f.requests["create"] != 3 {
			t.Errorf("%d creations, want 3", f.requests["create"])
		}
	}, newSet(3))
}

// The answer to a creation is lost: the same name is tried again, so that there is one runner per name.
func TestLostAnswerIsRepeatedUnderTheSameName(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.late, f.refuse, f.made = true, errNoAnswer, true
		if _, err := f.pass(); !errors.Is(err, errNoAnswer) {
			t.Fatalf("Reconcile() = %v", err)
		}
		for range 4 { // a server that fails is not asked again before the pause is over
			f.reconcile()
		}
		if f.requests["create"] != 2 {
			t.Errorf("%d creations before the pause is over, want 2", f.requests["create"])
		}
		f.refuse = nil
		controllertest.Elapse(firstCreateBackoff)
		f.reconcile()
		f.wantRunners(2)
		f.late = false
		f.reconcile()
		f.wantRunners(2)
	}, newSet(2))
}

// The first try was carried out although its answer was lost, and now fills the quota. That its repetition is refused
// does not mean that there is no runner.
func TestRefusedRepetitionMakesRoomForNobody(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.late, f.refuse, f.made = true, errNoAnswer, true
		_, _ = f.pass()
		f.refuse, f.made = errOverQuota, false
		controllertest.Elapse(firstCreateBackoff)
		_, _ = f.pass()
		f.refuse = nil
		controllertest.Elapse(2 * firstCreateBackoff)
		f.reconcile()
		f.wantRunners(2)
	}, newSet(2))
}

// Some of the runners are refused: the others stay, and only the refused ones are created later.
func TestPartialCreationIsCompleted(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.refuse, f.refusals = errOverQuota, 2
		if _, err := f.pass(); !apierrors.IsForbidden(err) {
			t.Fatalf("Reconcile() = %v", err)
		}
		f.wantRunners(3)
		controllertest.Elapse(firstCreateBackoff)
		f.reconcile()
		f.wantRunners(5)
		if f.requests["create"] != 7 {
			t.Errorf("%d creations, want 5 and 2", f.requests["create"])
		}
	}, newSet(5))
}

// However long the server does not answer, no more runners are created than were requested.
func TestLongSilenceCreatesNoMoreRunners(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.refuse = errNoAnswer
		for range 10 {
			_, _ = f.pass()
			controllertest.Elapse(expectationTimeout + longestCreateBackoff)
		}
		f.refuse = nil
		f.reconcile()
		f.reconcile()
		f.wantRunners(2)
	}, newSet(2))
}

func TestRefusedCreationIsRepeatedWithAPause(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.refuse = errOverQuota
		if _, err := f.pass(); !apierrors.IsForbidden(err) {
			t.Fatalf("Reconcile() = %v", err)
		}
		if requeueAfter := f.reconcile().RequeueAfter; requeueAfter > firstCreateBackoff || f.requests["create"] != 1 {
			t.Errorf("again in %s after %d creations", requeueAfter, f.requests["create"])
		}
		f.refuse = nil
		controllertest.Elapse(firstCreateBackoff)
		f.reconcile()
		f.wantRunners(1)
	}, newSet(1))
}

func TestNothingIsCreatedInANamespaceThatIsBeingDeleted(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.refuse = namespaceTerminates()
		for range 3 {
			f.reconcile()
			controllertest.Elapse(time.Hour)
		}
		if f.requests["create"] != 1 {
			t.Errorf("%d creations, want one and no more", f.requests["create"])
		}
	}, newSet(1))
}

func TestSurplusIsRemovedWithGitHubsConsent(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.makeSurplus()
		f.reconcile()
		if f.asked != 2 || f.requests["delete"] != 0 {
			t.Fatalf("GitHub asked %d times, %d deletions; want 2 and none yet", f.asked, f.requests["delete"])
		}
		for _, r := range f.runners() {
			if !f.deregistered(r.UID, r.Status.RunnerID) {
				t.Errorf("%s's own finalization would ask again", r.Name)
			}
		}
		f.reconcile()
		f.reconcile()
		if f.asked != 2 || f.requests["delete"] != 2 {
			t.Errorf("GitHub asked %d times, %d deletions; want 2 of each", f.asked, f.requests["delete"])
		}
	}, newSet(2))
}

func TestBusyRunnerIsNotAVictim(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.remove = actions.ErrJobStillRunning
		var told []string
		f.verdicts.WhenGiven(func(runner types.NamespacedName) { told = append(told, runner.String()) })
		f.makeSurplus()
		for range 3 {
			f.reconcile()
		}
		if r := f.runners()[0]; f.asked != 1 || f.requests["delete"] != 0 || f.deregistered(r.UID, r.Status.RunnerID) {
			t.Errorf("GitHub asked %d times, %d deletions; want 1 and none, and no removal remembered", f.asked,
				f.requests["delete"])
		} else if f.verdicts.Of(registrations.Registration{Runner: r.UID,
			ID: r.Status.RunnerID}) != registrations.Busy ||
			!slices.Equal(told, []string{r.Namespace + "/" + r.Name}) {
			t.Errorf("told of %v that it has a job, want %s: its pod can be evicted until it is marked", told, r.Name)
		}
	}, newSet(1))
}

// As long as GitHub does not answer, no runner is deleted. The cause is logged a single time for all runners, and
// GitHub is asked again.
func TestRunnersStayWhileGitHubDoesNotAnswer(t *testing.T) {
	inBubble(t, func(f *fixture) {
		var logged []string
		ctx := log.IntoContext(t.Context(), funcr.New(func(_, line string) { logged = append(logged, line) },
			funcr.Options{}))
		f.remove = errors.New("GitHub is away")
		f.makeSurplus()
		f.reconcile()
		if _, err := f.controller.Reconcile(ctx, ctrl.Request{NamespacedName: setKey}); err != nil {
			t.Fatal(err)
		}
		if want := `"error"="GitHub is away" "scaleSet"="arc-runners/set" "runners"=3`; len(logged) != 1 ||
			!strings.Contains(logged[0], want) {
			t.Errorf("logged %q, want one line with %s", logged, want)
		}
		f.remove = nil
		controllertest.Elapse(retryQuestionAfter)
		f.reconcile()
		f.reconcile()
		if f.asked != 6 || f.requests["delete"] != 3 {
			t.Errorf("GitHub asked %d times, %d deletions; want 6 and 3", f.asked, f.requests["delete"])
		}
	}, newSet(3))
}

func TestStatusIsWrittenOnceASecond(t *testing.T) {
	const patches = "patch status *v1alpha1.EphemeralRunnerSet"
	inBubble(t, func(f *fixture) {
		f.reconcile()
		requeueAfter := f.reconcile().RequeueAfter
		f.bringUp()
		f.reconcile()
		if f.requests[patches] != 1 || requeueAfter <= 0 || requeueAfter > reportPeriod {
			t.Errorf("%d writes within a second, again in %s", f.requests[patches], requeueAfter)
		}
		controllertest.Elapse(reportPeriod)
		f.reconcile()
		if got := f.set().Status; f.requests[patches] != 2 || got.RunningEphemeralRunners != 2 || got.CurrentReplicas != 2 {
			t.Errorf("%d writes, status %+v; want 2 writes, 2 running", f.requests[patches], got)
		}
		controllertest.Elapse(time.Minute)
		f.reconcile()
		if f.requests[patches] != 2 {
			t.Error("a status that has not changed is written")
		}
	}, newSet(2))
}

func TestDegradedSetSaysSo(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.reconcile()
		for _, r := range f.runners() {
			r.Status.Phase, r.Status.Reason, r.Status.Message = v1alpha1.EphemeralRunnerPhaseFailed, "ErrImagePull",
				"no such image"
			if err := f.api.Status().Update(t.Context(), &r); err != nil {
				t.Fatal(err)
			}
		}
		controllertest.Elapse(reportPeriod)
		f.reconcile()
		if !f.event(v1alpha1.ConditionDegraded) {
			t.Error("no Event")
		}
		f.wantRunners(3)
	}, newSet(3))
}

func TestExitedRunnerWithoutAJobCountsAsFailed(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.reconcile()
		r := f.runners()[0]
		r.Status.Phase = v1alpha1.EphemeralRunnerPhaseSucceeded
		if err := f.api.Status().Update(t.Context(), &r); err != nil {
			t.Fatal(err)
		}
		f.reconcile()
		controllertest.Elapse(settleGrace)
		f.publish(1)
		f.reconcile()
		f.wantRunners(1) // it is not replaced before it counts as a failure
		if got := f.runners()[0].Status; got.Phase != v1alpha1.EphemeralRunnerPhaseFailed ||
			got.Reason != v1alpha1.ReasonRunnerExitedWithoutJob {
			t.Errorf("status %+v, want Failed for %s", got, v1alpha1.ReasonRunnerExitedWithoutJob)
		}
	}, newSet(1))
}

// Jobs that idle runners are not given are doubted. The status says so with the figures, and so does a single Event.
func TestDoubtedJobsAreTold(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.reconcile()
		f.bringUp()
		for range 14 {
			f.reconcile()
			controllertest.Elapse(time.Minute)
			f.publish(4)
		}
		set := f.set()
		told := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionStatisticsDoubtful)
		if told == nil || told.Status != metav1.ConditionTrue || told.Reason != v1alpha1.ReasonJobsNotTaken ||
			!strings.Contains(told.Message, "counts 4 assigned jobs; 4 of them") || set.Status.DoubtedJobs != 4 {
			t.Fatalf("told %+v, %d doubted jobs", told, set.Status.DoubtedJobs)
		}
		f.publish(0)
		for range 6 {
			f.reconcile()
			controllertest.Elapse(figuresSettleGrace)
			f.publish(0)
		}
		set = f.set()
		told = meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionStatisticsDoubtful)
		if told.Status != metav1.ConditionFalse || set.Status.DoubtedJobs != 0 {
			t.Errorf("when the figures are right: %+v, %d doubted jobs", told, set.Status.DoubtedJobs)
		}
		events := strings.Join(controllertest.Events(f.recorder), "\n")
		for _, reason := range []string{v1alpha1.ConditionStatisticsDoubtful, told.Reason} {
			if n := strings.Count(events, " "+reason+" "); n != 1 {
				t.Errorf("%d Events %s, want 1: %s", n, reason, events)
			}
		}
		if f.requests["delete"] != 4 || f.requests["create"] != 4 {
			t.Errorf("%d runners created and %d deleted, want one generation", f.requests["create"],
				f.requests["delete"])
		}
	}, newSet(4))
}

// While the API server is slow, passes take longer than an interval. The next one begins immediately, and it sees news
// of a moment ago.
func TestAStatusIsWrittenAtMostOnceAPeriodWhilePassesAreSlow(t *testing.T) {
	inBubble(t, func(f *fixture) {
		const patch = "patch status *v1alpha1.EphemeralRunnerSet"
		f.slow = 2 * reportPeriod
		f.reconcile()
		f.publish(2)
		again := f.reconcile().RequeueAfter
		if f.requests["create"] != 2 || f.requests[patch] != 1 || again != time.Millisecond {
			t.Fatalf("requests %v, and the next pass after %s; want 2 creations, a status, and another pass at once",
				f.requests, again)
		}
		if f.reconcile(); f.requests[patch] != 2 {
			t.Errorf("requests %v, want the status written", f.requests)
		}
	}, newSet(1))
}
