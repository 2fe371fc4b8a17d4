package autoscalinglistener_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalinglistener/listenerpod"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/listener/config"
)

func TestListenerBecomesReady(t *testing.T) {
	f := newFixture(t)
	f.create(newSet(), newListener())
	f.settle()
	f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, listenerpod.ReasonStarting)
	f.run()
	f.settle()
	f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, listenerpod.ReasonReady)
	f.wantCondition(v1alpha1.ConditionProgressing, metav1.ConditionFalse, listenerpod.ReasonReady)
	want := map[string]bool{"pod": true, "config": true, "proxy": false, "ServiceAccount": true, "Role": true,
		"RoleBinding": true, "listener": true}
	if diff := cmp.Diff(want, f.exists()); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	if got := testutil.ToFloat64(running(t).WithLabelValues(key.Name, key.Namespace, "", "my-org", "")); got != 1 {
		t.Errorf("gha_controller_running_listeners = %v, want 1", got)
	}
}

func TestAccessIsTheLeastThatWorks(t *testing.T) {
	f := started(t)
	role, binding := f.access()
	want := []rbacv1.PolicyRule{
		{Verbs: []string{"get", "patch"}, APIGroups: []string{"actions.github.com"}, Resources: []string{"ephemeralrunnersets"}, ResourceNames: []string{"set"}},
		{Verbs: []string{"patch"}, APIGroups: []string{"actions.github.com"}, Resources: []string{"ephemeralrunnersets/status"}, ResourceNames: []string{"set"}},
		{Verbs: []string{"patch"}, APIGroups: []string{"actions.github.com"}, Resources: []string{"ephemeralrunners/status"}},
	}
	if diff := cmp.Diff(want, role.Rules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	if owner := metav1.GetControllerOf(role); owner == nil || owner.UID != "set-uid" {
		t.Errorf("the Role's owner is %+v, want the AutoscalingRunnerSet: garbage collection takes it with the set",
			owner)
	}
	if binding.Labels[v1alpha1.LabelListenerNamespace] != key.Namespace ||
		binding.Labels[v1alpha1.LabelListenerName] != key.Name {
		t.Errorf("the RoleBinding's labels %v don't lead to %s", binding.Labels, key)
	}
	if binding.RoleRef.Name != key.Name || binding.Subjects[0].Namespace != managerNamespace {
		t.Errorf("binding of %+v to %+v", binding.RoleRef, binding.Subjects)
	}
}

// What somebody adds to the listener's rights is removed, and a second pass finds nothing to do.
func TestAddedRightsAreTakenBack(t *testing.T) {
	f := started(t)
	role, binding := f.access()
	rules, subjects := slices.Clone(role.Rules), slices.Clone(binding.Subjects)
	role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"},
		Verbs: []string{"*"}})
	binding.Subjects = append(binding.Subjects,
		rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "elsewhere", Name: "stranger"})
	if err := errors.Join(f.client.Update(t.Context(), role), f.client.Update(t.Context(), binding)); err != nil {
		t.Fatal(err)
	}
	f.settle()
	role, binding = f.access()
	if diff := cmp.Diff(rules, role.Rules) + cmp.Diff(subjects, binding.Subjects); diff != "" {
		t.Errorf("rules and subjects (-want +got):\n%s", diff)
	}
	f.settle()
	if again, _ := f.access(); again.ResourceVersion != role.ResourceVersion {
		t.Error("the Role is written again and again")
	}
}

// access returns the listener's Role and RoleBinding.
func (f *fixture) access() (*rbacv1.Role, *rbacv1.RoleBinding) {
	f.Helper()
	role, binding := &rbacv1.Role{}, &rbacv1.RoleBinding{}
	f.get(role, setNamespace, key.Name)
	f.get(binding, setNamespace, key.Name)
	return role, binding
}

// configuration reads the configuration as the listener does.
func (f *fixture) configuration() *config.Config {
	f.Helper()
	secret := &corev1.Secret{}
	if !f.get(secret, key.Namespace, key.Name+"-config") {
		f.Fatal("there is no config Secret")
	}
	parsed, err := config.Parse(secret.Data[config.FileName])
	if err != nil {
		f.Fatal(err)
	}
	return parsed
}

func TestConfigurationReachesTheListenerWithoutRestart(t *testing.T) {
	f := started(t)
	hash := f.pod().Annotations[v1alpha1.AnnotationIntegrityHash]
	f.edit(func(l *v1alpha1.AutoscalingListener) { l.Spec.MinRunners, l.Spec.MaxRunners = 2, 20 })
	f.credentials.resolved = &credentials.Resolved{Credentials: actions.Credentials{Token: "token-2"}, RootCAs: "pem"}
	f.settle()
	got := f.configuration()
	if got.MinRunners != 2 || got.MaxRunners != 20 || got.Token != "token-2" || got.ServerRootCA != "pem" ||
		got.MetricsAddr != ":8080" {
		t.Errorf("configuration min %d, max %d, token replaced %t, CA %q", got.MinRunners, got.MaxRunners,
			got.Token == "token-2", got.ServerRootCA)
	}
	if pod := f.pod(); pod == nil || pod.Annotations[v1alpha1.AnnotationIntegrityHash] != hash {
		t.Errorf("the pod was replaced by %+v", pod)
	}
}

// A listener checks addresses as the manager does. It learns the rules from its file: its environment may be a
// tenant's.
func TestRulesAboutAddressesReachTheListener(t *testing.T) {
	f := started(t)
	if got := f.configuration().Addresses; got == nil || len(got.AllowedGitHubURLs) != 0 {
		t.Errorf("got %+v, want rules without exceptions", got)
	}
	f.options.AllowedGitHubURLs = []string{"https://github.com/acme"}
	f.restart()
	f.settle()
	if got := f.configuration().Addresses; got == nil ||
		!slices.Equal(got.AllowedGitHubURLs, f.options.AllowedGitHubURLs) {
		t.Errorf("got %+v, want those of the manager", got)
	}
}

// A kubelet reads a pod's Secrets again as soon as the pod changes. Where the manager may not change the pod, the
// kubelet reads them within a minute.
func TestConfigurationIsAnnouncedOnThePod(t *testing.T) {
	f := started(t)
	announced := func() string { return f.pod().Annotations["actions.github.com/listener-config-hash"] }
	first := announced()
	f.edit(func(l *v1alpha1.AutoscalingListener) { l.Spec.MaxRunners = 20 })
	f.settle()
	if announced() != first {
		t.Error("announced before the kubelet can have seen the Secret")
	}
	f.elapse(announceGrace)
	f.settle()
	second := announced()
	if first == "" || second == first || f.podPatches != 1 {
		t.Errorf("annotation %q, then %q, after %d patches", first, second, f.podPatches)
	}
	f.podsForbidden = true
	f.edit(func(l *v1alpha1.AutoscalingListener) { l.Spec.MaxRunners = 30 })
	f.settle()
	f.elapse(announceGrace)
	f.settle()
	if announced() != second || f.podPatches != 2 {
		t.Errorf("annotation %q after %d patches, of which the second was refused", announced(), f.podPatches)
	}
	f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, listenerpod.ReasonReady)
}

// The listener gets the 401. It reports that, the set's status has it, and then the credentials are read more often
// than every minute.
func TestRefusedListenerGetsNewCredentials(t *testing.T) {
	f := started(t)
	f.credentials.next = &credentials.Resolved{Credentials: actions.Credentials{Token: "token-2"}}
	f.settle()
	if token := f.configuration().Token; token != "token-1" {
		t.Fatalf("credentials %q were read without a reason", token)
	}
	set := &v1alpha1.AutoscalingRunnerSet{}
	f.get(set, setNamespace, "set")
	set.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionListenerReady, Status: metav1.ConditionFalse,
		Reason: v1alpha1.ReasonUnauthorized}}
	if err := f.client.Status().Update(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	if requeueAfter := f.reconcile().RequeueAfter; requeueAfter != announceGrace {
		t.Errorf("the new token is announced after %s", requeueAfter)
	}
	f.elapse(announceGrace)
	if requeueAfter := f.reconcile().RequeueAfter; requeueAfter != refusedRecheckInterval {
		t.Errorf("next look after %s", requeueAfter)
	}
	if token := f.configuration().Token; token != "token-2" {
		t.Errorf("the listener still has %q", token)
	}
}

func TestSettledListenerReadsSecretsSeldom(t *testing.T) {
	f := started(t)
	f.secretReads = 0
	for range 10 { // minutes
		for range 20 {
			f.reconcile()
		}
		f.elapse(time.Minute)
	}
	if f.secretReads < 4 || f.secretReads > 5 {
		t.Errorf("%d reads of the config Secret in 10 minutes, want one every %s", f.secretReads, recheckInterval)
	}
}

func TestChangedSecretIsRepaired(t *testing.T) {
	f := started(t)
	secret := &corev1.Secret{}
	f.get(secret, key.Namespace, key.Name+"-config")
	secret.Data = nil
	if err := f.client.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	f.elapse(recheckInterval)
	f.settle()
	f.configuration()
}

func TestMissingCredentialsKeepTheRunningPod(t *testing.T) {
	f := started(t)
	f.credentials.err = &credentials.MissingError{Kind: "Secret", Namespace: setNamespace, Name: "github"}
	f.settle()
	if f.pod() == nil {
		t.Error("the pod is gone; its old credentials may still do")
	}
	f.wantCondition(v1alpha1.ConditionStalled, metav1.ConditionTrue, "CredentialsMissing")
	f.credentials.err = nil
	f.settle()
	f.wantCondition(v1alpha1.ConditionStalled, metav1.ConditionFalse, listenerpod.ReasonReady)
}

func TestImpossibleBoundsAreSaid(t *testing.T) {
	f := newFixture(t)
	f.create(newSet(), newListener(func(l *v1alpha1.AutoscalingListener) { l.Spec.MinRunners = 11 }))
	f.settle()
	f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonInvalidConfiguration)
	f.wantCondition(v1alpha1.ConditionCredentialsValid, metav1.ConditionTrue, "Complete")
}

// A set was deleted by force. Its listener has our finalizer, so it was served, and its session goes with it.
func TestListenerWithoutSetDeletesItself(t *testing.T) {
	f := started(t)
	set := f.set()
	set.Finalizers = nil
	if err := errors.Join(f.client.Update(t.Context(), set), f.client.Delete(t.Context(), set)); err != nil {
		t.Fatal(err)
	}
	f.settle()
	if f.exists()["listener"] {
		t.Error("the listener of a set that is gone is still there")
	}
}

func TestProxySecretFollowsTheSpec(t *testing.T) {
	f := newFixture(t)
	f.credentials.resolved.Proxy = &credentials.ProxySettings{HTTPS: "http://user:pass@proxy:3128"}
	f.create(newSet(), newListener())
	f.settle()
	f.run()
	if !f.exists()["proxy"] {
		t.Fatal("there is no proxy Secret")
	}
	before := f.pod().Annotations[v1alpha1.AnnotationIntegrityHash]
	f.credentials.resolved = &credentials.Resolved{Credentials: f.credentials.resolved.Credentials}
	f.settle()
	if f.exists()["proxy"] || f.pod().Annotations[v1alpha1.AnnotationIntegrityHash] == before {
		t.Error("want the proxy Secret gone and the pod replaced")
	}
}

// A listener that runs with what its set may no longer read from a vault loses it, and gets it back when the list
// allows it again. It costs no request after that.
func TestListenerLosesWhatTheListOfVaultsRefuses(t *testing.T) {
	f := started(t, func(l *v1alpha1.AutoscalingListener) { l.Spec.Proxy = &v1alpha1.ProxyConfig{} })
	f.credentials.resolved.Proxy = &credentials.ProxySettings{HTTPS: "http://u:p@proxy"}
	f.elapse(time.Minute)
	f.settle()
	secrets := []string{"set-listener-config", "set-listener-proxy"}
	there := func() (found int) {
		for _, name := range secrets {
			if f.get(&corev1.Secret{}, managerNamespace, name) {
				found++
			}
		}
		return found
	}
	if there() != len(secrets) {
		t.Fatal("the listener has no Secrets")
	}
	f.credentials.err = &credentials.VaultNotAllowedError{Field: "spec.githubConfigSecret", Value: "team-a",
		Namespace: setNamespace}
	f.settle()
	if f.get(&corev1.Pod{}, managerNamespace, key.Name) || there() > 0 {
		t.Error("the listener still has its pod or Secrets")
	}
	f.wantCondition(v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonVaultNotAllowed)
	f.wantCondition(v1alpha1.ConditionCredentialsValid, metav1.ConditionFalse, v1alpha1.ReasonVaultNotAllowed)
	f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonVaultNotAllowed)
	f.credentials.err = nil
	f.settle()
	if !f.get(&corev1.Pod{}, managerNamespace, key.Name) || there() != len(secrets) {
		t.Error("the listener has not come back")
	}
}
