package autoscalingrunnerset

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/conditions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/scaleset"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/pool"
)

func TestDue(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	done := func(ago time.Duration, failures int, err error) pool.Call[scaleset.Result] {
		finished := now.Add(-ago)
		return pool.Call[scaleset.Result]{Result: scaleset.Result{RequestHash: "q"}, Err: err,
			Started: finished.Add(-time.Second), Finished: finished, Failures: failures}
	}
	limited := &actions.RateLimitedError{Until: now.Add(time.Hour), Err: errors.New("429")}
	for name, test := range map[string]struct {
		last        pool.Call[scaleset.Result]
		known       bool
		requestHash string
		lost        time.Duration // how long ago the listener reported the scale set gone, 0 for never
		atLeast     time.Duration
		atMost      time.Duration
	}{
		"never asked":        {requestHash: "q"},
		"asked for other":    {last: done(time.Second, 0, nil), known: true, requestHash: "other"},
		"under way":          {last: pool.Call[scaleset.Result]{Started: now}, known: true, requestHash: "other", atLeast: checkInterval, atMost: checkInterval},
		"answered just now":  {last: done(0, 0, nil), known: true, requestHash: "q", atLeast: checkInterval * 9 / 10, atMost: checkInterval * 11 / 10},
		"answered long ago":  {last: done(6*time.Minute, 0, nil), known: true, requestHash: "q"},
		"failed once":        {last: done(0, 1, errors.New("no")), known: true, requestHash: "q", atLeast: scaleset.RetryFirstBackoff, atMost: scaleset.RetryFirstBackoff},
		"failed three times": {last: done(0, 3, errors.New("no")), known: true, requestHash: "q", atLeast: 4 * scaleset.RetryFirstBackoff, atMost: 4 * scaleset.RetryFirstBackoff},
		"failed for days":    {last: done(0, 5000, errors.New("no")), known: true, requestHash: "q", atLeast: scaleset.RetryLongestBackoff, atMost: scaleset.RetryLongestBackoff},
		"rate limited":       {last: done(0, 1, limited), known: true, requestHash: "q", atLeast: time.Hour, atMost: time.Hour},
		"listener misses it": {last: done(time.Minute, 0, nil), known: true, requestHash: "q", lost: 30 * time.Second},
		"missed before that": {last: done(time.Minute, 0, nil), known: true, requestHash: "q", lost: 2 * time.Minute, atLeast: checkInterval*9/10 - time.Minute, atMost: checkInterval},
		"missed right after": {last: done(time.Second, 0, nil), known: true, requestHash: "q", lost: time.Millisecond, atLeast: recheckInterval - time.Second, atMost: recheckInterval - time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{Pass: new(Pass)}
			w.Set, w.Now, w.RequestHash = newSet(), now, test.requestHash
			if test.lost > 0 {
				since := metav1.NewTime(now.Add(-test.lost))
				w.RunnerSets = []v1alpha1.EphemeralRunnerSet{{Status: v1alpha1.EphemeralRunnerSetStatus{
					Listener: &v1alpha1.ListenerStatus{Reason: v1alpha1.ReasonScaleSetNotFound, Since: &since},
				}}}
			}
			if got := max(due(w, test.last, test.known), 0); got < test.atLeast || got > test.atMost {
				t.Errorf("due() = %s, want between %s and %s", got, test.atLeast, test.atMost)
			}
		})
	}
}

func TestSetsDoNotAskTogether(t *testing.T) {
	seen, now := map[time.Duration]bool{}, time.Now()
	for _, uid := range []types.UID{"a", "b", "c", "d"} {
		w := &world{Pass: new(Pass)}
		w.Set, w.Now = &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{UID: uid}}, now
		seen[due(w, pool.Call[scaleset.Result]{Started: now, Finished: now}, true)] = true
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
		f.create(owner, newSet())
		f.settle()
		f.wantCondition(v1alpha1.ConditionScaleSetRegistered, metav1.ConditionFalse, v1alpha1.ReasonScaleSetInUse)
		if len(f.listeners()) > 0 {
			t.Error("two listeners would fight for one session")
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
