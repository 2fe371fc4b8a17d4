package ephemeralrunnerset

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

var (
	errNoAnswer  = errors.New("connection reset")
	runnersGroup = schema.GroupResource{Group: "actions.github.com", Resource: "ephemeralrunners"}
	errOverQuota = apierrors.NewForbidden(runnersGroup, "", errors.New("exceeded quota"))
)

func TestCreatesRunnersUnderChosenNames(t *testing.T) {
	set := newSet(3, func(s *v1alpha1.EphemeralRunnerSet) {
		s.Spec.EphemeralRunnerMetadata = &v1alpha1.ResourceMeta{
			Labels:      map[string]string{"team": "build", v1alpha1.LabelScaleSetName: "other"},
			Annotations: map[string]string{"note": "x"},
		}
		s.Annotations = map[string]string{v1alpha1.AnnotationRunnerGroupName: "Default"}
	})
	inBubble(t, func(s *site) {
		s.reconcile()
		s.reconcile()
		s.wantRunners(3)
		r := s.runners()[0]
		if !strings.HasPrefix(r.Name, "set-runner-") || !slices.Equal(r.Finalizers, []string{v1alpha1.FinalizerEphemeralRunner}) {
			t.Errorf("runner %s with finalizers %v", r.Name, r.Finalizers)
		}
		if r.Labels["team"] != "build" || r.Labels[v1alpha1.LabelScaleSetName] != "set" || r.Labels[v1alpha1.LabelComponent] != v1alpha1.ComponentRunner {
			t.Errorf("labels %v", r.Labels)
		}
		if r.Annotations["note"] != "x" || r.Annotations[v1alpha1.AnnotationPatchID] != "1" || r.Annotations[v1alpha1.AnnotationRunnerGroupName] != "Default" {
			t.Errorf("annotations %v", r.Annotations)
		}
		if !metav1.IsControlledBy(&r, set) {
			t.Error("the runner does not belong to the set")
		}
		if !slices.Contains(s.set().Finalizers, v1alpha1.FinalizerEphemeralRunnerSet) {
			t.Error("the set has no finalizer")
		}
	}, set)
}

func TestLateCacheCreatesNothingTwice(t *testing.T) {
	inBubble(t, func(s *site) {
		s.late = true
		for range 5 {
			s.reconcile()
		}
		s.wantRunners(3)
		if s.requests["create"] != 3 {
			t.Errorf("%d creations, want 3", s.requests["create"])
		}
	}, newSet(3))
}

// The answer to a creation is lost: the same names are tried again, so that there is one runner for each.
func TestLostAnswerIsRepeatedUnderTheSameName(t *testing.T) {
	inBubble(t, func(s *site) {
		s.late, s.refuse, s.made = true, errNoAnswer, true
		if _, err := s.pass(); !errors.Is(err, errNoAnswer) {
			t.Fatalf("Reconcile() = %v", err)
		}
		for range 4 { // a failing server is not asked again and again
			s.reconcile()
		}
		if s.requests["create"] != 2 {
			t.Errorf("%d creations before the pause is over, want 2", s.requests["create"])
		}
		s.refuse = nil
		controllertest.Elapse(firstCreatePause)
		s.reconcile()
		s.wantRunners(2)
		s.late = false
		s.reconcile()
		s.wantRunners(2)
	}, newSet(2))
}

// The first try was carried out though its answer was lost, and now fills the quota: that its repetition is refused does
// not mean that there is no runner.
func TestRefusedRepetitionMakesRoomForNobody(t *testing.T) {
	inBubble(t, func(s *site) {
		s.late, s.refuse, s.made = true, errNoAnswer, true
		_, _ = s.pass()
		s.refuse, s.made = errOverQuota, false
		controllertest.Elapse(firstCreatePause)
		_, _ = s.pass()
		s.refuse = nil
		controllertest.Elapse(2 * firstCreatePause)
		s.reconcile()
		s.wantRunners(2)
	}, newSet(2))
}

// A part of the runners is refused: the others stay, and only that part is made later.
func TestPartialCreationIsCompleted(t *testing.T) {
	inBubble(t, func(s *site) {
		s.refuse, s.refusals = errOverQuota, 2
		if _, err := s.pass(); !apierrors.IsForbidden(err) {
			t.Fatalf("Reconcile() = %v", err)
		}
		s.wantRunners(3)
		controllertest.Elapse(firstCreatePause)
		s.reconcile()
		s.wantRunners(5)
		if s.requests["create"] != 7 {
			t.Errorf("%d creations, want 5 and 2", s.requests["create"])
		}
	}, newSet(5))
}

// However long the server does not answer, no more runners are made than were asked for.
func TestLongSilenceMakesNoMoreRunners(t *testing.T) {
	inBubble(t, func(s *site) {
		s.refuse = errNoAnswer
		for range 10 {
			_, _ = s.pass()
			controllertest.Elapse(expectedAtMost + longestCreatePause)
		}
		s.refuse = nil
		s.reconcile()
		s.reconcile()
		s.wantRunners(2)
	}, newSet(2))
}

func TestRefusedCreationIsRepeatedWithAPause(t *testing.T) {
	inBubble(t, func(s *site) {
		s.refuse = errOverQuota
		if _, err := s.pass(); !apierrors.IsForbidden(err) {
			t.Fatalf("Reconcile() = %v", err)
		}
		if again := s.reconcile().RequeueAfter; again > firstCreatePause || s.requests["create"] != 1 {
			t.Errorf("again in %s after %d creations", again, s.requests["create"])
		}
		s.refuse = nil
		controllertest.Elapse(firstCreatePause)
		s.reconcile()
		s.wantRunners(1)
	}, newSet(1))
}

func TestNothingIsMadeInANamespaceThatIsBeingDeleted(t *testing.T) {
	inBubble(t, func(s *site) {
		refusal := apierrors.NewForbidden(runnersGroup, "", errors.New("terminating"))
		refusal.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
		s.refuse = refusal
		for range 3 {
			s.reconcile()
			controllertest.Elapse(time.Hour)
		}
		if s.requests["create"] != 1 {
			t.Errorf("%d creations, want one and no more", s.requests["create"])
		}
	}, newSet(1))
}

func TestSurplusIsRemovedWithGitHubsLeave(t *testing.T) {
	inBubble(t, func(s *site) {
		s.makeSurplus()
		s.reconcile()
		if s.asked != 2 || s.requests["delete"] != 0 {
			t.Fatalf("GitHub asked %d times, %d deletions; want 2 and none yet", s.asked, s.requests["delete"])
		}
		for _, r := range s.runners() {
			if !s.removed.Has(r.UID, r.Status.RunnerID) {
				t.Errorf("%s's own farewell would ask again", r.Name)
			}
		}
		s.reconcile()
		s.reconcile()
		if s.asked != 2 || s.requests["delete"] != 2 {
			t.Errorf("GitHub asked %d times, %d deletions; want 2 of each", s.asked, s.requests["delete"])
		}
	}, newSet(2))
}

func TestBusyRunnerIsNoVictim(t *testing.T) {
	inBubble(t, func(s *site) {
		s.remove = actions.ErrJobStillRunning
		s.makeSurplus()
		for range 3 {
			s.reconcile()
		}
		if r := s.runners()[0]; s.asked != 1 || s.requests["delete"] != 0 || s.removed.Has(r.UID, r.Status.RunnerID) {
			t.Errorf("GitHub asked %d times, %d deletions; want 1 and none, and no removal remembered", s.asked, s.requests["delete"])
		}
	}, newSet(1))
}

// Without GitHub's word nothing goes; why it is missing is logged once for all runners, and they are asked about again.
func TestRunnersStayWhileGitHubDoesNotAnswer(t *testing.T) {
	inBubble(t, func(s *site) {
		var logged []string
		ctx := log.IntoContext(t.Context(), funcr.New(func(_, line string) { logged = append(logged, line) }, funcr.Options{}))
		s.remove = errors.New("GitHub is away")
		s.makeSurplus()
		s.reconcile()
		if _, err := s.controller.Reconcile(ctx, ctrl.Request{NamespacedName: setKey}); err != nil {
			t.Fatal(err)
		}
		if want := `"error"="GitHub is away" "scaleSet"="arc-runners/set" "runners"=3`; len(logged) != 1 || !strings.Contains(logged[0], want) {
			t.Errorf("logged %q, want one line with %s", logged, want)
		}
		s.remove = nil
		controllertest.Elapse(retryQuestion)
		s.reconcile()
		s.reconcile()
		if s.asked != 6 || s.requests["delete"] != 3 {
			t.Errorf("GitHub asked %d times, %d deletions; want 6 and 3", s.asked, s.requests["delete"])
		}
	}, newSet(3))
}

func TestStatusIsWrittenOnceASecond(t *testing.T) {
	const patches = "patch status *v1alpha1.EphemeralRunnerSet"
	inBubble(t, func(s *site) {
		s.reconcile()
		again := s.reconcile().RequeueAfter
		s.bringUp()
		s.reconcile()
		if s.requests[patches] != 1 || again <= 0 || again > reportEvery {
			t.Errorf("%d writes within a second, again in %s", s.requests[patches], again)
		}
		controllertest.Elapse(reportEvery)
		s.reconcile()
		if got := s.set().Status; s.requests[patches] != 2 || got.RunningEphemeralRunners != 2 || got.CurrentReplicas != 2 {
			t.Errorf("%d writes, status %+v; want 2 writes, 2 running", s.requests[patches], got)
		}
		controllertest.Elapse(time.Minute)
		s.reconcile()
		if s.requests[patches] != 2 {
			t.Error("a status that has not changed is written")
		}
	}, newSet(2))
}

func TestDegradedSetSaysSo(t *testing.T) {
	inBubble(t, func(s *site) {
		s.reconcile()
		for _, r := range s.runners() {
			r.Status.Phase, r.Status.Reason, r.Status.Message = v1alpha1.EphemeralRunnerPhaseFailed, "ErrImagePull", "no such image"
			if err := s.api.Status().Update(t.Context(), &r); err != nil {
				t.Fatal(err)
			}
		}
		controllertest.Elapse(reportEvery)
		s.reconcile()
		if !s.event(v1alpha1.ConditionDegraded) {
			t.Error("no Event")
		}
		s.wantRunners(3)
	}, newSet(3))
}

func TestExitedRunnerWithoutAJobCountsAsFailed(t *testing.T) {
	inBubble(t, func(s *site) {
		s.reconcile()
		r := s.runners()[0]
		r.Status.Phase = v1alpha1.EphemeralRunnerPhaseSucceeded
		if err := s.api.Status().Update(t.Context(), &r); err != nil {
			t.Fatal(err)
		}
		s.reconcile()
		controllertest.Elapse(settleAfterEnd)
		s.publish(1)
		s.reconcile()
		s.wantRunners(1) // it is not replaced before it counts as a failure
		if got := s.runners()[0].Status; got.Phase != v1alpha1.EphemeralRunnerPhaseFailed || got.Reason != v1alpha1.ReasonRunnerExitedWithoutJob {
			t.Errorf("status %+v, want Failed for %s", got, v1alpha1.ReasonRunnerExitedWithoutJob)
		}
	}, newSet(1))
}
