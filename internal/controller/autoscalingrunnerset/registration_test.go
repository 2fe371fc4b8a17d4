package autoscalingrunnerset_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/conditions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/scaleset"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/credentials"
)

// nextCall runs a pass each second, and returns the time until GitHub is asked, most if it takes longer.
func (f *fixture) nextCall(most time.Duration) time.Duration {
	f.Helper()
	f.github.Made()
	for begun := time.Now(); time.Since(begun) < most; controllertest.Elapse(time.Second - answered) {
		if f.reconcile(); len(f.github.Made()) > 0 {
			return time.Since(begun) - answered
		}
	}
	return most
}

func TestGitHubIsAskedAgain(t *testing.T) {
	const hour = time.Hour // nobody waits for that long
	for name, test := range map[string]struct {
		before          func(*fixture) // a set that GitHub has just answered about
		atLeast, atMost time.Duration
	}{
		"answered just now": {func(*fixture) {}, checkInterval * 9 / 10, checkInterval*11/10 + time.Second},
		"answered long ago": {func(*fixture) { controllertest.Elapse(6 * time.Minute) }, 0, 0},
		"asked for other": {func(f *fixture) {
			f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.RunnerGroup = "large" })
		}, 0, 0},
		"rate limited": {func(f *fixture) {
			f.github.Fail(&actions.RateLimitedError{Until: time.Now().Add(3 * time.Minute), Err: errors.New("429")})
			f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.RunnerGroup = "large" })
			f.reconcile()
		}, 3*time.Minute - time.Second, 3*time.Minute + time.Second},
		"listener misses it": {func(f *fixture) {
			f.reconcile() // records the registration
			f.reconcile() // makes the runner set
			controllertest.Elapse(30 * time.Second)
			f.reportLost()
			controllertest.Elapse(30 * time.Second)
		}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.create(newSet())
				if wait := f.nextCall(hour); wait != 0 {
					t.Errorf("asked for the first time after %s", wait)
				}
				test.before(f)
				if wait := f.nextCall(hour); wait < test.atLeast || wait > test.atMost {
					t.Errorf("asked again after %s, want between %s and %s", wait, test.atLeast, test.atMost)
				}
			})
		})
	}
}

// What the listener misses is looked for immediately, and again after a moment, because its time has whole seconds.
// What it missed before the last answer is not.
func TestWhatTheListenerMissedBeforeTheAnswerIsOld(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet())
		f.settle()
		f.reportLost()
		if at, again := f.nextCall(checkInterval), f.nextCall(checkInterval); at != 0 || again != recheckInterval {
			t.Errorf("asked after %s and %s more, want at once and after %s", at, again, recheckInterval)
		}
		if wait := f.nextCall(time.Hour); wait < checkInterval*9/10 {
			t.Errorf("asked again after %s", wait)
		}
	})
}

// The pauses after failures double up to a minute, and stay there however often GitHub fails: more often than a pause
// can be doubled in 64 bits.
func TestFailingGitHubIsAskedLessAndLess(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.github.Fail(errors.New("no"))
		f.create(newSet())
		f.reconcile()
		for i, want := range []time.Duration{5, 10, 20, 40, 60, 60} {
			if wait := f.nextCall(time.Hour); wait != want*time.Second {
				t.Errorf("pause %d is %s, want %d s", i+1, wait, want)
			}
		}
		for range 100 {
			controllertest.Elapse(time.Minute)
			f.reconcile()
		}
		if calls := len(f.github.Made()); calls != 100 {
			t.Errorf("asked %d times in 100 minutes", calls)
		}
		if wait := f.nextCall(time.Hour); wait != time.Minute {
			t.Errorf("the pause is %s in the end, want a minute", wait)
		}
	})
}

// A question that has not been answered is not asked another time, whatever the spec says by now.
func TestOneQuestionAtATime(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.github.Silence = 25 * time.Second
		f.create(newSet())
		f.reconcile()
		f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.RunnerScaleSetName = "other" })
		if wait := f.nextCall(time.Minute); wait < 24*time.Second {
			t.Errorf("asked after %s", wait)
		}
		if wait := f.nextCall(time.Minute); wait < 24*time.Second {
			t.Errorf("asked again after %s", wait)
		}
	})
}

func TestSetsDoNotAskTogether(t *testing.T) {
	seen := map[time.Duration]bool{}
	for _, uid := range []types.UID{
		"cfcd2084-95d5-65ef-66e7-dff9f98764da", "c4ca4238-a0b9-2382-0dcc-509a6f75849b",
		"eccbc87e-4b5c-e2fe-2830-8fd9f2a7baf3", "a87ff679-a2f3-e71d-9181-a67b7542122c",
	} {
		inBubble(t, func(f *fixture) {
			f.create(newSet(func(s *v1alpha1.AutoscalingRunnerSet) { s.UID = uid }))
			f.reconcile()
			controllertest.Elapse(checkInterval*9/10 - time.Second)
			seen[f.nextCall(time.Hour)] = true
		})
	}
	if len(seen) < 4 {
		t.Errorf("4 sets ask at %d different times", len(seen))
	}
}

func TestScaleSetDeletedBehindOurBackComesBack(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet())
		f.settle()
		f.listening()
		f.settle()
		delete(f.github.Sets[address], 1)
		controllertest.Elapse(10 * time.Second)
		runnerSet, since := f.runnerSets()[0], metav1.Now()
		runnerSet.Status.Listener = &v1alpha1.ListenerStatus{State: v1alpha1.ListenerStateRetrying,
			Reason: v1alpha1.ReasonScaleSetNotFound, Since: &since}
		f.updateStatus(&runnerSet)
		f.settle()
		if got := f.set().Status.Registration; got == nil || got.ID != 2 {
			t.Errorf("registration = %+v, want scale set 2", got)
		}
		if got := f.listeners()[0].Spec.RunnerScaleSetID; got != 2 {
			t.Errorf("the listener listens to scale set %d, want 2", got)
		}
		wantEvent(t, f.events(), "ScaleSetRecreated")
	})
}

func TestUnreachableGitHubLeavesAWorkingSetAlone(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet())
		f.settle()
		f.listening()
		f.settle()
		f.github.Fail(errors.New("connection refused"))
		controllertest.Elapse(checkInterval * 2)
		f.settle()
		f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, reasonReady)
		if len(f.listeners()) != 1 || len(f.runnerSets()) != 1 {
			t.Error("children went away with GitHub")
		}
	})
}

func TestFirstRegistrationIsRepeated(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.github.Fail(errors.New("connection refused"))
		f.create(newSet())
		f.settle()
		f.wantCondition(v1alpha1.ConditionScaleSetRegistered, metav1.ConditionFalse, v1alpha1.ReasonGitHubUnavailable)
		f.wantCondition(v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ReasonGitHubUnavailable)
		f.github.Fail(nil)
		controllertest.Elapse(scaleset.RetryLongestBackoff)
		f.settle()
		f.wantCondition(v1alpha1.ConditionScaleSetRegistered, metav1.ConditionTrue, reasonRegistered)
	})
}

// The condition says that GitHub does not answer before the call to it has timed out.
func TestSilenceIsToldBeforeTheCallEnds(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.github.Silence = 25 * time.Second // for each of two calls
		f.create(newSet())
		f.settle()
		f.wantCondition(v1alpha1.ConditionScaleSetRegistered, metav1.ConditionUnknown, reasonRegistering)
		if requeueAfter := f.reconcile().RequeueAfter; requeueAfter > conditions.SilentTimeout {
			t.Errorf("next look after %s", requeueAfter)
		}
		controllertest.Elapse(conditions.SilentTimeout)
		f.settle()
		f.wantCondition(v1alpha1.ConditionScaleSetRegistered, metav1.ConditionFalse, v1alpha1.ReasonGitHubUnavailable)
		controllertest.Elapse(2 * time.Minute)
		f.settle()
		f.wantCondition(v1alpha1.ConditionScaleSetRegistered, metav1.ConditionTrue, reasonRegistered)
	})
}

func TestTroubleOnlyAUserCanEndIsStalled(t *testing.T) {
	missing := &credentials.MissingError{Kind: "Secret", Namespace: setNamespace, Name: "github"}
	for name, test := range map[string]struct {
		change     func(*v1alpha1.AutoscalingRunnerSet)
		failure    error
		unresolved error
		reason     string
	}{
		"address":     {change: func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.GitHubConfigUrl = "https://github.com" }, reason: v1alpha1.ReasonInvalidConfigURL},
		"group":       {change: func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.RunnerGroup = "absent" }, reason: v1alpha1.ReasonRunnerGroupNotFound},
		"credentials": {unresolved: missing, reason: v1alpha1.ReasonCredentialsMissing},
		"vault":       {unresolved: &credentials.UnsupportedError{Feature: "vault"}, reason: v1alpha1.ReasonVaultUnsupported},
		"refused":     {failure: actions.ErrUnauthorized, reason: v1alpha1.ReasonUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.github.Failure, f.github.unresolved = test.failure, test.unresolved
				set := newSet()
				if test.change != nil {
					test.change(set)
				}
				f.create(set)
				f.settle()
				f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, test.reason)
				f.wantCondition(v1alpha1.ConditionStalled, metav1.ConditionTrue, test.reason)
			})
		})
	}
}

func TestRotatedCredentialsAreTriedAtOnce(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet())
		f.settle()
		f.github.Made()
		f.github.Lock()
		f.github.token = "rotated"
		f.github.Unlock()
		f.settle()
		if diff := cmp.Diff([]string{"get"}, f.github.Made()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

func TestDroppedLabelsAreSaidOnce(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.github.SingleLabel = true
		f.create(newSet(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.RunnerScaleSetLabels = []string{"linux"} }))
		f.settle()
		f.wantCondition(v1alpha1.ConditionLabelsInSync, metav1.ConditionFalse, v1alpha1.ReasonLabelsDropped)
		if told := controllertest.CountEvents(f.recorder, v1alpha1.ReasonLabelsDropped); told != 1 {
			t.Errorf("it was told %d times", told)
		}
		f.github.Made()
		for range 5 {
			controllertest.Elapse(checkInterval * 11 / 10)
			f.reconcile()
		}
		for _, call := range f.github.Made() {
			if call != "get" {
				t.Errorf("call %q: what GitHub dropped is asked for again", call)
			}
		}
	})
}

func TestSecondOwnerOfAScaleSetStandsBack(t *testing.T) {
	inBubble(t, func(f *fixture) {
		owner := newSet(func(s *v1alpha1.AutoscalingRunnerSet) {
			s.Namespace, s.UID = "elsewhere", "elsewhere-uid"
			s.Annotations = map[string]string{v1alpha1.AnnotationRunnerScaleSetID: "4"}
		})
		f.github.Sets[address] = map[int]actions.RunnerScaleSet{4: labelled(4, "set", 1, "set")}
		f.create(owner)
		for range 3 { // GitHub's answer counts, the annotation doesn't
			controllertest.Reconcile(f, f.controller, client.ObjectKeyFromObject(owner))
			controllertest.Elapse(answered)
		}
		f.create(newSet())
		f.settle()
		f.wantCondition(v1alpha1.ConditionScaleSetRegistered, metav1.ConditionFalse, v1alpha1.ReasonScaleSetInUse)
		for _, listener := range f.listeners() {
			if listener.Spec.AutoscalingRunnerSetNamespace == setNamespace {
				t.Error("two listeners would fight for one session")
			}
		}
	})
}

func TestNameChangedDuringRegistrationLeavesNoOrphan(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet())
		f.reconcile() // asked and answered, not recorded yet
		f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.RunnerScaleSetName = "renamed" })
		f.settle()
		if sets := f.github.Sets[address]; len(sets) != 1 || sets[1].Name != "renamed" {
			t.Errorf("scale sets %+v, want the first one renamed", sets)
		}
	})
}
