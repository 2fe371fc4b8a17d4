package autoscalingrunnerset_test

import (
	"cmp"
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/addresses"
	"github.com/harrier-ci/harrier/internal/causes"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/scaleset"
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
				f.github.Fail(test.answer)
				f.create(newSet())
				f.settle()
				f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, map[bool]string{
					true: v1alpha1.ReasonCredentialsMissing, false: v1alpha1.ReasonUnauthorized}[test.unresolved != nil])
				f.github.unresolved = nil
				f.github.Fail(test.then)
				for range 4 {
					controllertest.Elapse(scaleset.RetryLongestBackoff)
					f.settle()
				}
				f.wantCondition(v1alpha1.ConditionCredentialsValid, test.want.credentials, test.want.credentialsBecause)
				f.wantCondition(v1alpha1.ConditionScaleSetRegistered, metav1.ConditionFalse,
					test.want.notRegisteredReason)
				f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, test.want.notRegisteredReason)
				f.github.Fail(nil)
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
		f.github.unresolved = &credentials.VaultNotAllowedError{Field: "spec.githubConfigSecret", Value: "team-a",
			Namespace: setNamespace}
		f.create(newSet())
		f.settle()
		f.wantCondition(v1alpha1.ConditionCredentialsValid, metav1.ConditionFalse, v1alpha1.ReasonVaultNotAllowed)
		f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonVaultNotAllowed)
		f.wantCondition(v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonVaultNotAllowed)
	})
}

// An address that may not be used, or leads away from TLS, is told where the call belongs, also if the scale set was
// registered.
func TestRefusedAddressesAreTold(t *testing.T) {
	notAllowed := &addresses.NotAllowedError{Field: "githubConfigUrl", Address: address,
		Reason: "it is a loopback address"}
	insecure := func(endpoint string) error {
		return &actions.InsecureRedirectError{Endpoint: endpoint, From: "https://a", To: "http://a"}
	}
	for name, test := range map[string]struct {
		unresolved, answer error
		// credentials and registered are the reasons of the two conditions. With the former status True, there is none.
		credentials, registered string
	}{
		"not allowed":                      {notAllowed, nil, v1alpha1.ReasonAddressNotAllowed, ""},
		"leads to what is not allowed":     {nil, notAllowed, v1alpha1.ReasonAddressNotAllowed, v1alpha1.ReasonAddressNotAllowed},
		"registration leads away from TLS": {nil, insecure(actions.EndpointRegister), v1alpha1.ReasonInsecureRedirect, v1alpha1.ReasonInsecureRedirect},
		"service leads away from TLS":      {nil, insecure(actions.EndpointGetScaleSet), "", v1alpha1.ReasonInsecureRedirect},
	} {
		for _, before := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, registered before: %t", name, before), func(t *testing.T) {
				inBubble(t, func(f *fixture) {
					f.create(newSet())
					if before {
						f.settle()
						f.wantCondition(v1alpha1.ConditionScaleSetRegistered, metav1.ConditionTrue, reasonRegistered)
					}
					f.github.unresolved = test.unresolved
					f.github.Fail(test.answer)
					for range 7 {
						controllertest.Elapse(scaleset.RetryLongestBackoff)
						f.settle()
					}
					if test.credentials != "" {
						f.wantCondition(v1alpha1.ConditionCredentialsValid, metav1.ConditionFalse, test.credentials)
					}
					if test.registered != "" {
						f.wantCondition(v1alpha1.ConditionScaleSetRegistered, metav1.ConditionFalse, test.registered)
					}
					reason := cmp.Or(test.credentials, test.registered)
					f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, reason)
					f.wantCondition(v1alpha1.ConditionStalled, metav1.ConditionTrue, reason)
				})
			})
		}
	}
}

// A vault is asked only about sets whose addresses may be used.
func TestAddressesAreCheckedBeforeCredentialsAreRead(t *testing.T) {
	policy, err := addresses.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	provider := credentials.New(nil, credentials.Options{Addresses: policy}) // a read would panic
	_, err = scaleset.ConnectionsOf(provider).Resolve(t.Context(),
		credentials.Reference{GitHubConfigURL: "http://169.254.169.254/x"}, false)
	if causes.Of(err).Reason != v1alpha1.ReasonAddressNotAllowed {
		t.Errorf("got %v", err)
	}
}
