package launch_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
)

// A JIT config that was never used, of the registration 7, is taken from the runner's own Secret, which is read and
// nothing else. Without one the runner is registered again, as 42.
func TestAnUnusedRegistrationIsUsed(t *testing.T) {
	earlier := func(s *corev1.Secret) { s.OwnerReferences[0].UID = "earlier" }
	for rule, test := range map[string]struct {
		secret *corev1.Secret
		id     int
	}{
		"its Secret has it":                      {newSecret(), 7},
		"its Secret has another one":             {newSecret(with("runnerId", "6")), 42},
		"its Secret has no id":                   {newSecret(with("runnerId", "")), 42},
		"its Secret has no config":               {newSecret(with("jitToken", "")), 42},
		"the Secret is of the runner before":     {newSecret(earlier), 42},
		"the Secret has lost its owner":          {newSecret(ownerless), 42},
		"it has no Secret":                       {nil, 42},
		"its Secret has no number for an id":     {newSecret(with("runnerId", "x")), 42},
		"its Secret has neither id nor a config": {newSecret(with("runnerId", ""), with("jitToken", "")), 42},
	} {
		t.Run(rule, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				if test.secret != nil {
					controllertest.Create(t, f.api, test.secret)
				}
				wantFailure(t, f.launch(newRunner(), 7), nil)
				if _, id := f.memory.Launched(); id != test.id || len(f.github.asked) != test.id/42 {
					t.Errorf("registration %d, %d requests for one", id, len(f.github.asked))
				}
				if got := strings.Join(f.requests, ", "); test.id == 7 && got != "get Secret, create Pod" {
					t.Errorf("requests: %s", got)
				}
				want := map[int]string{7: "registered=946684700", 42: "registered=946684800"}[test.id]
				if got := f.pod().Annotations[v1alpha1.AnnotationPhases]; !strings.HasSuffix(got, want) {
					t.Errorf("phases %s, want %s", got, want)
				}
			})
		})
	}
}

// The manager knows the Secret from which it has taken a registration: its deletion reads nothing.
func TestTheSecretOfAReusedRegistrationIsKnown(t *testing.T) {
	inBubble(t, func(f *fixture) {
		controllertest.Create(t, f.api, newSecret())
		wantFailure(t, f.launch(newRunner(), 7), nil)
		f.requests = nil
		if err := f.DeleteSecret(t.Context(), newRunner(), f.memory); err != nil || f.hasSecret() {
			t.Errorf("DeleteSecret() = %v, it is there: %t", err, f.hasSecret())
		}
		if !slices.Equal(f.requests, []string{"delete Secret"}) {
			t.Errorf("requests: %v", f.requests)
		}
	})
}

// Whether the Secret has a registration that was never used must be known before GitHub is asked for another one.
func TestAnUnreadableSecretIsReadAgain(t *testing.T) {
	for rule, test := range map[string]struct {
		err  error
		want *rules.Failure
	}{
		"away":      {errNoAnswer, &rules.Failure{Kind: rules.Away, Reason: v1alpha1.ReasonAPIServerUnavailable, Message: "read Secret set-runner-abcde: "}},
		"forbidden": {errForbidden, &rules.Failure{Reason: v1alpha1.ReasonSecretUnreadable, Message: "read Secret set-runner-abcde: "}},
	} {
		inBubble(t, func(f *fixture) {
			controllertest.Create(t, f.api, newSecret())
			f.fails["get Secret"] = test.err
			wantFailure(t, f.launch(newRunner(), 7), test.want)
			if len(f.github.calls) != 0 || f.hasPod() {
				t.Errorf("%s: calls to GitHub %v, there is a pod: %t", rule, f.github.calls, f.hasPod())
			}
			if there, err := f.HasSecret(t.Context(), newRunner()); err == nil || there {
				t.Errorf("%s: HasSecret() = %t, %v", rule, there, err)
			}
		})
	}
}

// A registration for which there is no Secret yet is kept: another one would cost four calls to GitHub. The refusal
// says what to correct, and whether it helps to wait.
func TestARegistrationWithoutASecretIsKept(t *testing.T) {
	for rule, test := range map[string]struct {
		err  error
		want *rules.Failure
	}{
		"invalid metadata":          {errInvalid, &rules.Failure{Kind: rules.Invalid, Reason: v1alpha1.ReasonInvalidSecret, Message: "correct ephemeralRunnerConfigSecretMetadata"}},
		"a quota":                   {errQuota, &rules.Failure{Reason: v1alpha1.ReasonQuotaExceeded, Message: "exceeded quota: compute"}},
		"a namespace that is going": {errNamespace, &rules.Failure{Kind: rules.Closed, Reason: "NamespaceTerminating"}},
		"no answer":                 {errNoAnswer, &rules.Failure{Kind: rules.Away, Reason: v1alpha1.ReasonAPIServerUnavailable, Message: "create Secret set-runner-abcde: "}},
		"a policy":                  {errForbidden, &rules.Failure{Reason: v1alpha1.ReasonSecretRefused, Message: "create Secret set-runner-abcde: "}},
	} {
		t.Run(rule, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.fails["create Secret"] = test.err
				wantFailure(t, f.launch(newRunner(), 0), test.want)
				if _, id := f.memory.Launched(); id != 42 || f.hasPod() {
					t.Errorf("registration %d, there is a pod: %t", id, f.hasPod())
				}
				f.fails = nil
				wantFailure(t, f.launch(newRunner(), 42), nil)
				if got := string(f.secret().Data["jitToken"]); got != "config" || len(f.github.asked) != 1 {
					t.Errorf("JIT config %q after %d registrations, want the first one's", got, len(f.github.asked))
				}
			})
		})
	}
}

// What is kept is for the registration that the runner has by then, and no other.
func TestAKeptRegistrationIsOfOneID(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.fails["create Secret"] = errNoAnswer
		f.launch(newRunner(), 0)
		f.fails = nil
		wantFailure(t, f.launch(newRunner(), 7), nil)
		if len(f.github.asked) != 2 {
			t.Errorf("%d registrations, want another one", len(f.github.asked))
		}
	})
}

// The Secret that has the name can't be read, or is gone by the time of the read.
func TestASecretInTheWay(t *testing.T) {
	inBubble(t, func(f *fixture) {
		controllertest.Create(t, f.api, newSecret())
		f.fails["get Secret"] = errNoAnswer
		wantFailure(t, f.launch(newRunner(), 0), &rules.Failure{Kind: rules.Away,
			Reason: v1alpha1.ReasonAPIServerUnavailable, Message: "read Secret set-runner-abcde: "})
		if got := string(f.secret().Data["jitToken"]); got != "config-7" {
			t.Errorf("JIT config %q, want that of before", got)
		}
	})
	inBubble(t, func(f *fixture) {
		controllertest.Create(t, f.api, newSecret())
		f.meanwhile["get Secret"] = func() {
			if err := f.api.Delete(t.Context(), newSecret()); err != nil {
				t.Error(err)
			}
		}
		wantFailure(t, f.launch(newRunner(), 0), nil)
		if got := string(f.secret().Data["jitToken"]); got != "config" {
			t.Errorf("JIT config %q", got)
		}
	})
}
