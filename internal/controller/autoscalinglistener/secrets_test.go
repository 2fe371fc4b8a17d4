package autoscalinglistener_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/credentials"
)

// behindProxy returns a running listener with a token and a proxy's password.
func behindProxy(t *testing.T, token, password string) *fixture {
	t.Helper()
	f := newFixture(t)
	f.resolve(token, password)
	f.create(newSet(), newListener())
	f.settle()
	f.run()
	f.settle()
	return f
}

func (f *fixture) resolve(token, password string) {
	f.credentials.resolved = &credentials.Resolved{
		Credentials: actions.Credentials{Token: token},
		Proxy:       &credentials.ProxySettings{HTTPS: "http://user:" + password + "@proxy:3128"},
	}
}

// annotations returns the annotations of the pod and the Secrets.
func (f *fixture) annotations() map[string]string {
	f.Helper()
	found := map[string]string{}
	for _, list := range []client.ObjectList{&corev1.PodList{}, &corev1.SecretList{}} {
		if err := f.client.List(f.Context(), list); err != nil {
			f.Fatal(err)
		}
		for _, object := range controllertest.Items(f, list) {
			for annotation, value := range object.GetAnnotations() {
				found[object.GetName()+" "+annotation] = value
			}
		}
	}
	return found
}

// Whoever may read pods, or Secrets without their data, must not be able to try passwords: no annotation is a function
// of a secret, which would be the same wherever the secret is, and another one for another secret.
func TestAnnotationsSayNothingAboutSecrets(t *testing.T) {
	for name, other := range map[string]*fixture{"password": behindProxy(t, "token", "b"),
		"token": behindProxy(t, "other", "a")} {
		first, again, others := behindProxy(t, "token", "a").annotations(), behindProxy(t, "token", "a").annotations(),
			other.annotations()
		if len(first) < 5 {
			t.Errorf("annotations: %v", first)
		}
		for annotation, value := range first {
			if again[annotation] == value && others[annotation] != value {
				t.Errorf("annotation %s follows from the %s", annotation, name)
			}
		}
	}
}

// What the annotations say instead lasts, so neither a pass nor a restart replaces the pod or writes a Secret.
func TestSettledSecretsAndPodStay(t *testing.T) {
	f := behindProxy(t, "token", "a")
	before := f.objects()
	for range 3 {
		f.restart()
		f.elapse(recheckInterval)
		f.settle()
	}
	if diff := cmp.Diff(before, f.objects()); diff != "" {
		t.Errorf("objects (-before +after):\n%s", diff)
	}
}

// The pod has the proxy in its environment, so another password replaces it; metadata of the Secret does not.
func TestPodIsReplacedForAnotherPasswordOnly(t *testing.T) {
	f := behindProxy(t, "token", "a")
	hash := func() string { return f.pod().Annotations[v1alpha1.AnnotationIntegrityHash] }
	before := hash()
	f.edit(func(l *v1alpha1.AutoscalingListener) { l.Labels["team"] = "another" })
	f.settle()
	if hash() != before {
		t.Error("the pod is replaced for a label")
	}
	f.resolve("token", "b")
	f.settle()
	replaced := hash()
	f.settle()
	if replaced == before || hash() != replaced {
		t.Errorf("hash %s, then %s, then %s", before, replaced, hash())
	}
}

// A listener that works keeps its token until GitHub has accepted the next one, also across a restart of the manager.
func TestAListenerKeepsItsTokenUntilGitHubHasAcceptedAnother(t *testing.T) {
	f := behindProxy(t, "token-1", "a")
	accepted := func(status metav1.ConditionStatus, reason string, generation int64) {
		t.Helper()
		set := &v1alpha1.AutoscalingRunnerSet{}
		f.get(set, setNamespace, "set")
		set.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionCredentialsValid, Status: status,
			Reason:             reason,
			ObservedGeneration: generation}}
		if err := f.client.Status().Update(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		f.settle()
	}
	want := func(token string) {
		t.Helper()
		if got := f.configuration().Token; got != token {
			t.Errorf("the listener has %q, want %q", got, token)
		}
	}
	accepted(metav1.ConditionTrue, "Accepted", 0)
	set := &v1alpha1.AutoscalingRunnerSet{}
	f.get(set, setNamespace, "set")
	set.Generation++
	if err := f.client.Update(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	f.resolve("token-2", "a")
	f.settle()
	want("token-1") // what was accepted is that of the generation before
	accepted(metav1.ConditionUnknown, "CheckingCredentials", set.Generation)
	want("token-1")
	f.credentials.kept = &credentials.Resolved{Credentials: actions.Credentials{Token: "token-1"},
		Proxy: f.credentials.resolved.Proxy}
	f.restart()
	accepted(metav1.ConditionFalse, v1alpha1.ReasonSingleSignOnRequired, set.Generation)
	want("token-1")
	accepted(metav1.ConditionTrue, "Accepted", set.Generation)
	want("token-2")
}
