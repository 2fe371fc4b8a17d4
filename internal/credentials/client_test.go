package credentials_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials"
)

func (f *fixture) mustClient(t *testing.T, reference credentials.Reference) *actions.Client {
	t.Helper()
	client, err := f.Client(t.Context(), reference)
	if err != nil {
		t.Fatalf("Client: %v", err)
	}
	return client
}

func TestClientsAreSharedByEqualValues(t *testing.T) {
	f := newFixture(t)
	f.store.setSecret("runners", "copy", credentials.KeyToken, "token-1")
	f.store.setSecret("runners", "different", credentials.KeyToken, "token-9")
	first := f.mustClient(t, githubReference())

	change := func(edit func(*credentials.Reference)) credentials.Reference {
		reference := githubReference()
		edit(&reference)
		return reference
	}
	for name, test := range map[string]struct {
		reference credentials.Reference
		shared    bool
	}{
		"the same":                     {githubReference(), true},
		"a Secret of the same content": {change(func(r *credentials.Reference) { r.GitHubConfigSecret = "copy" }), true},
		"other credentials":            {change(func(r *credentials.Reference) { r.GitHubConfigSecret = "different" }), false},
		"another URL":                  {change(func(r *credentials.Reference) { r.GitHubConfigURL += "/repository" }), false},
		"no proxy rather than the environment's": {
			change(func(r *credentials.Reference) { r.Proxy = &v1alpha1.ProxyConfig{} }), false,
		},
	} {
		if shared := f.mustClient(t, test.reference) == first; shared != test.shared {
			t.Errorf("%s: shared is %t", name, shared)
		}
	}
}

func TestRotationReplacesTheClient(t *testing.T) {
	f := newFixture(t)
	f.store.setSecret("runners", "login", "username", "u", "password", "old")
	reference := githubReference()
	reference.Proxy = &v1alpha1.ProxyConfig{HTTPS: &v1alpha1.ProxyServerConfig{
		Url:                 "http://p:1",
		CredentialSecretRef: "login",
	}}
	before := f.mustClient(t, reference)

	f.store.setSecret("runners", "login", "username", "u", "password", "new")
	f.clock.Step(credentials.RereadInterval)
	after := f.mustClient(t, reference)
	if after == before {
		t.Error("a new proxy password did not lead to a new client")
	}
	for range int(kept / credentials.RereadInterval) {
		f.clock.Step(credentials.RereadInterval)
		if f.mustClient(t, reference) != after {
			t.Fatal("the client changed although nothing else did")
		}
	}
	f.store.setSecret("runners", "login", "username", "u", "password", "old")
	f.clock.Step(credentials.RereadInterval)
	if f.mustClient(t, reference) == before {
		t.Error("a client is kept that nobody has used for ten minutes")
	}
}

// A good answer says nothing about the Secret. A refusal has it read again.
func TestRefusedCredentialsAreReadAgain(t *testing.T) {
	asked, seen, status := 0, 0, http.StatusNotFound
	github := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.WriteHeader(status)
	}))
	defer github.Close()
	f := newFixture(t, func(o *credentials.Options) {
		o.OnRequest = func([]types.NamespacedName, actions.RequestInfo) { seen++ }
	})
	reference := githubReference()
	reference.GitHubConfigURL = github.URL + "/org"
	client := f.mustClient(t, reference)
	f.store.setSecret("runners", "github", credentials.KeyToken, "token-2")
	f.clock.Step(credentials.RetryBackoff)

	if _, err := client.GetRunnerScaleSetByID(t.Context(), 1); err == nil {
		t.Error("an answer of 404 is no error")
	}
	if got := f.mustResolve(t, reference); got != "token-1" {
		t.Errorf("got %s after an ordinary answer", got)
	}
	status = http.StatusUnauthorized
	if _, err := client.GetRunnerScaleSetByID(t.Context(), 1); err == nil {
		t.Error("an answer of 401 is no error")
	}
	if got := f.mustResolve(t, reference); got != "token-2" {
		t.Errorf("got %s after a 401", got)
	}
	if seen != asked || asked < 2 {
		t.Errorf("OnRequest was called %d times for %d requests", seen, asked)
	}
}

func TestSetsWithoutAClientAreTold(t *testing.T) {
	var told []types.NamespacedName
	f := newFixture(t, func(o *credentials.Options) {
		o.OnUnused = func(set types.NamespacedName) { told = append(told, set) }
	})
	f.mustClient(t, ofSet("idle"))
	f.store.setSecret("runners", "github", credentials.KeyToken, "token-2")
	f.clock.Step(credentials.RereadInterval)
	f.mustClient(t, ofSet("idle"))
	f.mustClient(t, ofSet("gone"))
	f.Forget(types.NamespacedName{Namespace: "runners", Name: "gone"})
	for range int(kept/credentials.RereadInterval) + 1 {
		f.clock.Step(credentials.RereadInterval)
		f.mustClient(t, githubReference())
	}
	want := []types.NamespacedName{{Namespace: "runners", Name: "gone"}, {Namespace: "runners", Name: "idle"}}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

func TestClientOfAnInvalidURL(t *testing.T) {
	f := newFixture(t)
	reference := githubReference()
	reference.GitHubConfigURL = "https://github.com/a/b/c"
	_, err := f.Client(t.Context(), reference)
	var invalid *actions.InvalidConfigURLError
	if !errors.As(err, &invalid) {
		t.Errorf("got %v", err)
	}
}

func TestReferencesOfOneScaleSetAreEqual(t *testing.T) {
	proxy := &v1alpha1.ProxyConfig{HTTP: &v1alpha1.ProxyServerConfig{Url: "http://p:1"}}
	tls := &v1alpha1.TLSConfig{
		CertificateFrom: &v1alpha1.TLSCertificateSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			Key: "ca",
		}},
	}
	set := &v1alpha1.AutoscalingRunnerSet{}
	set.Namespace, set.Name = "runners", "set"
	set.Spec.GitHubConfigUrl, set.Spec.GitHubConfigSecret, set.Spec.Proxy,
		set.Spec.GitHubServerTLS = "https://github.com/org",
		"github", proxy, tls

	listener := &v1alpha1.AutoscalingListener{}
	listener.Namespace = "manager"
	listener.Spec.AutoscalingRunnerSetNamespace, listener.Spec.AutoscalingRunnerSetName = "runners", "set"
	listener.Spec.GitHubConfigUrl, listener.Spec.GitHubConfigSecret = "https://github.com/org", "github"
	listener.Spec.Proxy, listener.Spec.GitHubServerTLS = proxy.DeepCopy(), tls.DeepCopy()

	runner := &v1alpha1.EphemeralRunner{}
	runner.Namespace, runner.Labels = "runners", map[string]string{v1alpha1.LabelScaleSetName: "set"}
	runner.Spec.GitHubConfigUrl, runner.Spec.GitHubConfigSecret = "https://github.com/org", "github"
	runner.Spec.Proxy, runner.Spec.GitHubServerTLS = proxy.DeepCopy(), tls.DeepCopy()

	runnerSet := &v1alpha1.EphemeralRunnerSet{}
	runnerSet.Namespace, runnerSet.Labels = "runners", runner.Labels
	runnerSet.Spec.EphemeralRunnerSpec = runner.Spec

	want := credentials.ForAutoscalingRunnerSet(set)
	for kind, reference := range map[string]credentials.Reference{
		"AutoscalingListener": credentials.ForAutoscalingListener(listener),
		"EphemeralRunner":     credentials.ForEphemeralRunner(runner),
		"EphemeralRunnerSet":  credentials.ForEphemeralRunnerSet(runnerSet),
	} {
		if diff := cmp.Diff(want, reference); diff != "" || reference.GitHubConfigURL != "https://github.com/org" {
			t.Errorf("%s leads elsewhere: %+v (-set +%s):\n%s", kind, reference, kind, diff)
		}
	}
}
