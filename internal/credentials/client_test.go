package credentials

import (
	"errors"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
)

func (f *fixture) mustClient(t *testing.T, reference Reference) *actions.Client {
	t.Helper()
	client, err := f.Client(t.Context(), reference)
	if err != nil {
		t.Fatalf("Client: %v", err)
	}
	return client
}

func TestClientsAreSharedByEqualValues(t *testing.T) {
	f := newFixture(t)
	f.store.setSecret("runners", "copy", KeyToken, "token-1")
	f.store.setSecret("runners", "different", KeyToken, "token-9")
	first := f.mustClient(t, githubReference())

	change := func(edit func(*Reference)) Reference {
		reference := githubReference()
		edit(&reference)
		return reference
	}
	for name, test := range map[string]struct {
		reference Reference
		shared    bool
	}{
		"the same":                     {githubReference(), true},
		"a Secret of the same content": {change(func(r *Reference) { r.GitHubConfigSecret = "copy" }), true},
		"other credentials":            {change(func(r *Reference) { r.GitHubConfigSecret = "different" }), false},
		"another URL":                  {change(func(r *Reference) { r.GitHubConfigURL += "/repository" }), false},
		"no proxy rather than the environment's": {
			change(func(r *Reference) { r.Proxy = &v1alpha1.ProxyConfig{} }), false,
		},
	} {
		if shared := f.mustClient(t, test.reference) == first; shared != test.shared {
			t.Errorf("%s: shared is %t", name, shared)
		}
	}
}

func TestRotationReplacesTheClient(t *testing.T) {
	f := newFixture(t)
	f.store.setSecret("runners", "login", keyProxyUsername, "u", keyProxyPassword, "old")
	reference := githubReference()
	reference.Proxy = &v1alpha1.ProxyConfig{HTTPS: &v1alpha1.ProxyServerConfig{
		Url:                 "http://p:1",
		CredentialSecretRef: "login",
	}}
	before := f.mustClient(t, reference)

	f.store.setSecret("runners", "login", keyProxyUsername, "u", keyProxyPassword, "new")
	f.clock.Step(RereadInterval)
	after := f.mustClient(t, reference)
	if after == before {
		t.Error("a new proxy password did not lead to a new client")
	}
	for range int(keepGrace / RereadInterval) {
		f.clock.Step(RereadInterval)
		if f.mustClient(t, reference) != after {
			t.Fatal("the client changed although nothing else did")
		}
	}
	if kept := len(f.clients.entries); kept != 1 {
		t.Errorf("%d clients are kept, want the current one only", kept)
	}
}

func TestRefusedCredentialsAreReadAgain(t *testing.T) {
	f := newFixture(t)
	seen := 0
	f.options.OnRequest = func(string, actions.RequestInfo) { seen++ }
	f.mustClient(t, githubReference())
	f.store.setSecret("runners", "github", KeyToken, "token-2")
	f.clock.Step(RetryBackoff)

	key := keyOf("https://github.com/org", &Resolved{Credentials: actions.Credentials{Token: "token-1"}})
	f.observe(key, actions.RequestInfo{StatusCode: http.StatusOK})
	if got := f.mustResolve(t, githubReference()); got != "token-1" {
		t.Errorf("got %s after an ordinary answer", got)
	}
	f.observe(key, actions.RequestInfo{StatusCode: http.StatusUnauthorized})
	if got := f.mustResolve(t, githubReference()); got != "token-2" {
		t.Errorf("got %s after a 401", got)
	}
	if seen != 2 {
		t.Errorf("OnRequest was called %d times, want 2", seen)
	}
}

func TestUnusedURLsAreTold(t *testing.T) {
	f := newFixture(t)
	var told []string
	f.clients.unused = func(url string) { told = append(told, url) }
	f.mustClient(t, githubReference())
	f.store.setSecret("runners", "github", KeyToken, "token-2")
	f.clock.Step(RereadInterval)
	f.mustClient(t, githubReference())
	other := githubReference()
	other.GitHubConfigURL = "https://github.com/other"
	for range int(keepGrace/RereadInterval) + 1 {
		f.clock.Step(RereadInterval)
		f.mustClient(t, other)
	}
	if len(told) != 1 || told[0] != "https://github.com/org" {
		t.Errorf("told %q, want the URL that nobody asks for, once although it had two clients", told)
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
	set.Namespace = "runners"
	set.Spec.GitHubConfigUrl, set.Spec.GitHubConfigSecret, set.Spec.Proxy,
		set.Spec.GitHubServerTLS = "https://github.com/org",
		"github", proxy, tls

	listener := &v1alpha1.AutoscalingListener{}
	listener.Namespace = "manager"
	listener.Spec.AutoscalingRunnerSetNamespace = "runners"
	listener.Spec.GitHubConfigUrl, listener.Spec.GitHubConfigSecret = "https://github.com/org", "github"
	listener.Spec.Proxy, listener.Spec.GitHubServerTLS = proxy.DeepCopy(), tls.DeepCopy()

	runner := &v1alpha1.EphemeralRunner{}
	runner.Namespace = "runners"
	runner.Spec.GitHubConfigUrl, runner.Spec.GitHubConfigSecret = "https://github.com/org", "github"
	runner.Spec.Proxy, runner.Spec.GitHubServerTLS = proxy.DeepCopy(), tls.DeepCopy()

	runnerSet := &v1alpha1.EphemeralRunnerSet{}
	runnerSet.Namespace = "runners"
	runnerSet.Spec.EphemeralRunnerSpec = runner.Spec

	want := ForAutoscalingRunnerSet(set).source()
	for kind, reference := range map[string]Reference{
		"AutoscalingListener": ForAutoscalingListener(listener),
		"EphemeralRunner":     ForEphemeralRunner(runner),
		"EphemeralRunnerSet":  ForEphemeralRunnerSet(runnerSet),
	} {
		if reference.source() != want || reference.GitHubConfigURL != "https://github.com/org" {
			t.Errorf("%s leads elsewhere: %+v", kind, reference)
		}
	}
}
