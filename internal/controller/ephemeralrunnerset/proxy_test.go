package ephemeralrunnerset_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// proxySecret is ARC's name for this namespace.
const proxySecret = "set-754b578d-runner-proxy"

func withProxy(set *v1alpha1.EphemeralRunnerSet) {
	set.Spec.EphemeralRunnerSpec.Proxy = &v1alpha1.ProxyConfig{HTTP: &v1alpha1.ProxyServerConfig{Url: "http://proxy"}}
}

func TestRunnersProxyComesFromASecret(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.reconcile()
		secrets := &corev1.SecretList{}
		if err := f.api.List(t.Context(), secrets); err != nil {
			t.Fatal(err)
		}
		if len(secrets.Items) != 1 || secrets.Items[0].Name != proxySecret ||
			string(secrets.Items[0].Data["http_proxy"]) != "http://proxy" {
			t.Fatalf("Secrets %v, want %s", secrets.Items, proxySecret)
		}
		if got := f.runners()[0].Spec.ProxySecretRef; got != proxySecret {
			t.Errorf("the runner's proxy Secret is %q, want %s", got, proxySecret)
		}
	}, newSet(1, withProxy))
}

// Somebody has deleted the Secret: it is back in time for the runners that are starting.
func TestDeletedProxySecretComesBack(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.reconcile()
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: setKey.Namespace, Name: proxySecret}}
		if err := f.api.Delete(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		f.reconcile()
		if f.hasProxySecret() {
			t.Error("the Secret is written at every pass")
		}
		controllertest.Elapse(proxyPeriod)
		f.reconcile()
		if !f.hasProxySecret() {
			t.Error("the Secret is not back")
		}
	}, newSet(1, withProxy))
}

// removeProxy removes the proxy from the spec, as a user would.
func (f *fixture) removeProxy() {
	f.Helper()
	set := f.set()
	set.Spec.EphemeralRunnerSpec.Proxy = nil
	if err := f.api.Update(f.Context(), set); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) hasProxySecret() bool {
	f.Helper()
	return controllertest.Read(f.T, f.api, types.NamespacedName{Namespace: setKey.Namespace, Name: proxySecret},
		&corev1.Secret{})
}

// passes runs passes and checks the number of those that request the deletion of the Secret.
func (f *fixture) passes(n, wantDrops int) {
	f.Helper()
	before := f.requests["delete secret"]
	for range n {
		_, _ = f.pass()
	}
	if drops := f.requests["delete secret"] - before; drops != wantDrops {
		f.Errorf("%d passes delete the Secret %d times, want %d", n, drops, wantDrops)
	}
}

// The Secret has a password in it. It stays as long as a runner that may still get a pod needs it, seen or not, and is
// deleted a single time.
func TestSecretOfARemovedProxyIsDeletedAfterItsLastRunner(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.late = true
		f.reconcile()
		f.publish(0)
		f.removeProxy()
		f.passes(3, 0) // the runner was created and has not been seen
		f.late = false
		f.passes(3, 0)
		if r := f.runners()[0]; !f.hasProxySecret() || r.DeletionTimestamp == nil {
			t.Fatalf("the Secret is there: %t, the runner that needs it: %+v", f.hasProxySecret(), r.ObjectMeta)
		}
		f.finishAll()
		f.passes(3, 1)
		if f.hasProxySecret() {
			t.Error("the Secret stays though no runner needs it")
		}
		f.publish(1)
		if f.reconcile(); f.runners()[0].Spec.ProxySecretRef != "" {
			t.Error("a new runner has the Secret that is gone")
		}
	}, newSet(1, withProxy))
}

// After a restart nothing is known about a Secret: it is deleted a single time, and so is the Secret of a proxy that
// came back and was removed again.
func TestSecretOfARemovedProxyIsDeletedAfterARestart(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.passes(3, 1)
		set := f.set()
		withProxy(set)
		if err := f.api.Update(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		f.publish(1)
		f.passes(3, 0)
		if !f.hasProxySecret() {
			t.Fatal("no Secret though there is a proxy again")
		}
		f.removeProxy()
		f.publish(0)
		f.reconcile()
		f.finishAll()
		f.passes(3, 1)
	}, newSet(0))
}

// A runner that failed is kept for inspection: it does not get another pod.
func TestRunnerThatEndedKeepsNoSecret(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.reconcile()
		r := f.runners()[0]
		r.Status.Phase, r.Status.JobID = v1alpha1.EphemeralRunnerPhaseFailed, "1"
		if err := f.api.Status().Update(t.Context(), &r); err != nil {
			t.Fatal(err)
		}
		f.removeProxy()
		f.passes(3, 1)
	}, newSet(1, withProxy))
}

func TestRefusedDeletionOfTheSecretIsRepeatedWithAPause(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.refuseDrop = errNoAnswer
		f.passes(3, 1)
		if f.wantRunners(1); !f.controller.MemoryOf(f.set()).Creations.Allowed(time.Now()) {
			t.Error("it keeps runners from being created")
		}
		f.refuseDrop = nil
		controllertest.Elapse(reportPeriod) // after which the status no longer changes
		f.reconcile()
		if requeueAfter, want := f.reconcile().RequeueAfter, proxyPeriod-reportPeriod; requeueAfter != want {
			t.Errorf("again in %s, want %s", requeueAfter, want)
		}
		controllertest.Elapse(proxyPeriod)
		f.passes(3, 1)
	}, newSet(1))
}

// A missing Secret can't be written again in a namespace that is being deleted.
func TestProxySecretIsNotRestoredInANamespaceThatIsBeingDeleted(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.reconcile()
		f.refuse = namespaceTerminates()
		f.publish(2)
		f.reconcile()
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: setKey.Namespace, Name: proxySecret}}
		if err := f.api.Delete(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		controllertest.Elapse(proxyPeriod)
		f.reconcile()
		if f.hasProxySecret() {
			t.Error("the Secret is written again")
		}
	}, newSet(1, withProxy))
}
