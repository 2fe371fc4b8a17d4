package autoscalingrunnerset_test

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/scaleset"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// working brings a set to where it is ready.
func (f *fixture) working() {
	f.Helper()
	f.create(newSet())
	f.settle()
	f.listening()
	f.settle()
	f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, reasonReady)
}

// setToken writes another token into the Secret.
func (f *fixture) setToken(token string) {
	f.github.Lock()
	defer f.github.Unlock()
	f.github.token = token
}

// upgrade changes the token and the spec, as the chart does.
func (f *fixture) upgrade(token string) {
	f.Helper()
	f.setToken(token)
	f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.GitHubConfigSecretRevision = token })
}

// wantObserved fails unless Ready has the status, for the present spec, and Stalled is as given.
func (f *fixture) wantObserved(status metav1.ConditionStatus, reason string, stalled metav1.ConditionStatus) {
	f.Helper()
	f.wantCondition(v1alpha1.ConditionReady, status, reason)
	set := f.set()
	for _, c := range set.Status.Conditions {
		if c.Type == v1alpha1.ConditionStalled && c.Status != stalled {
			f.Errorf("Stalled is %s because of %s", c.Status, c.Reason)
		}
	}
	if set.Status.ObservedGeneration != set.Generation {
		f.Errorf("observed generation %d of %d", set.Status.ObservedGeneration, set.Generation)
	}
}

// pass runs one pass, before GitHub can answer what it asks, and not so early that the status may not be written.
func (f *fixture) pass() {
	f.Helper()
	controllertest.Elapse(2 * statusInterval)
	controllertest.Reconcile(f, f.controller, setKey)
}

// After an upgrade Ready speaks of the credentials of that upgrade: not before GitHub has answered, whether they were
// good or bad before.
func TestReadyWaitsForTheCredentialsOfAnUpgrade(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.working()
		for range 2 {
			f.github.Fail(&actions.Error{Endpoint: actions.EndpointRegistrationToken, StatusCode: 401,
				Message: "Bad credentials", Credential: actions.CredentialPersonalAccessToken})
			f.upgrade("wrong")
			f.pass()
			f.wantObserved(metav1.ConditionFalse, reasonChecking, metav1.ConditionFalse)
			f.settle()
			f.wantObserved(metav1.ConditionFalse, v1alpha1.ReasonUnauthorized, metav1.ConditionTrue)
			f.github.Fail(nil)
			f.upgrade("token")
			f.pass()
			f.wantObserved(metav1.ConditionFalse, reasonChecking, metav1.ConditionFalse)
			f.settle()
			f.wantObserved(metav1.ConditionTrue, reasonReady, metav1.ConditionFalse)
		}
		if f.github.rereads != 4 {
			t.Errorf("the Secret was read at once %d times for 4 upgrades", f.github.rereads)
		}
	})
}

// It waits for as long as GitHub is away, says so, and a restart doesn't change that.
func TestReadyWaitsWhileGitHubIsAway(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.working()
		f.github.Fail(errors.New("no route to host"))
		f.upgrade("other")
		f.settle()
		f.wantObserved(metav1.ConditionFalse, reasonChecking, metav1.ConditionFalse)
		f.wantMessage(v1alpha1.ConditionReady, "no route to host")
		f.restart()
		f.settle()
		f.wantObserved(metav1.ConditionFalse, reasonChecking, metav1.ConditionFalse)
		f.github.Fail(nil)
		controllertest.Elapse(scaleset.RetryLongestBackoff)
		f.settle()
		f.wantObserved(metav1.ConditionTrue, reasonReady, metav1.ConditionFalse)
	})
}

// The same goes for what else GitHub has to agree to.
func TestReadyWaitsForTheGroupOfAnUpgrade(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.working()
		f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.RunnerGroup = "absent" })
		f.pass()
		f.wantObserved(metav1.ConditionFalse, reasonRegistering, metav1.ConditionFalse)
		f.settle()
		f.wantObserved(metav1.ConditionFalse, v1alpha1.ReasonRunnerGroupNotFound, metav1.ConditionTrue)
		f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.RunnerGroup = "large" })
		f.pass()
		f.wantObserved(metav1.ConditionFalse, reasonRegistering, metav1.ConditionFalse)
		f.settle()
		f.wantObserved(metav1.ConditionTrue, reasonReady, metav1.ConditionFalse)
	})
}

// Ready doesn't flicker for what concerns nobody on GitHub, nor when a token is renewed without an upgrade.
func TestReadyStays(t *testing.T) {
	for name, change := range map[string]func(f *fixture){
		"other fields, GitHub away": func(f *fixture) {
			f.github.Fail(errors.New("no route to host"))
			controllertest.Elapse(2 * checkInterval)
			f.pass()
			controllertest.Elapse(answered)
			f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.MinRunners = ptr.To(1) })
		},
		"restart, GitHub away": func(f *fixture) {
			f.github.Fail(errors.New("no route to host"))
			f.restart()
		},
		"renewed token":  func(f *fixture) { f.setToken("renewed") },
		"same content":   func(f *fixture) { f.upgrade("token") },
		"periodic check": func(*fixture) { controllertest.Elapse(2 * checkInterval) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.working()
				change(f)
				for range 10 {
					f.pass()
					f.wantObserved(metav1.ConditionTrue, reasonReady, metav1.ConditionFalse)
					controllertest.Elapse(time.Second)
				}
			})
		})
	}
}

// A set that takes the place of a deleted one may find another Secret under the same name.
func TestTheSecretOfANewSetIsReadAtOnce(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet(func(s *v1alpha1.AutoscalingRunnerSet) { s.CreationTimestamp = metav1.Now() }))
		f.settle()
		if f.github.rereads != 1 {
			t.Errorf("it was read at once %d times", f.github.rereads)
		}
	})
}
