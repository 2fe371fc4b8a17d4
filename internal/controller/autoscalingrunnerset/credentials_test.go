package autoscalingrunnerset

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/credentials"
)

// When a missing Secret was created, or a refused token replaced, the conditions show what else is wrong.
func TestMendedCredentialsGiveWayToWhatElseIsWrong(t *testing.T) {
	missing := &credentials.MissingError{Kind: "Secret", Namespace: "arc-runners", Name: "github"}
	type expectation struct {
		credentials         metav1.ConditionStatus
		credentialsBecause  string
		notRegisteredReason string
	}
	for name, test := range map[string]struct {
		unresolved, answer, then error
		want                     expectation
	}{
		"missing, then no such group": {missing, nil, actions.ErrRunnerGroupNotFound,
			expectation{metav1.ConditionTrue, reasonAccepted, v1alpha1.ReasonRunnerGroupNotFound}},
		"missing, then GitHub away": {missing, nil, errors.New("no route to host"),
			expectation{metav1.ConditionUnknown, reasonRead, v1alpha1.ReasonGitHubUnavailable}},
		"refused, then no such group": {nil, actions.ErrUnauthorized, actions.ErrRunnerGroupNotFound,
			expectation{metav1.ConditionTrue, reasonAccepted, v1alpha1.ReasonRunnerGroupNotFound}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.github.unresolved = test.unresolved
				f.github.fail(test.answer)
				f.create(newSet())
				f.settle()
				f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, map[bool]string{
					true: v1alpha1.ReasonCredentialsMissing, false: v1alpha1.ReasonUnauthorized}[test.unresolved != nil])
				f.github.unresolved = nil
				f.github.fail(test.then)
				for range 4 {
					controllertest.Elapse(retryMaxDelay)
					f.settle()
				}
				f.wantCondition(v1alpha1.ConditionCredentialsValid, test.want.credentials, test.want.credentialsBecause)
				f.wantCondition(v1alpha1.ConditionScaleSetRegistered, metav1.ConditionFalse, test.want.notRegisteredReason)
				f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, test.want.notRegisteredReason)
				f.github.fail(nil)
				controllertest.Elapse(2 * time.Minute)
				f.settle()
				f.wantCondition(v1alpha1.ConditionCredentialsValid, metav1.ConditionTrue, reasonAccepted)
			})
		})
	}
}

// What the administrator's list of vaults refuses is told, and GitHub is not asked.
func TestARefusedVaultIsTold(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.github.unresolved = &credentials.VaultNotAllowedError{Field: "spec.githubConfigSecret", Value: "team-a", Namespace: setNamespace}
		f.create(newSet())
		f.settle()
		f.wantCondition(v1alpha1.ConditionCredentialsValid, metav1.ConditionFalse, v1alpha1.ReasonVaultNotAllowed)
		f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonVaultNotAllowed)
		f.wantCondition(v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonVaultNotAllowed)
	})
}
