package ephemeralrunnerset

import (
	"testing"

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
		if len(secrets.Items) != 1 || secrets.Items[0].Name != proxySecret || string(secrets.Items[0].Data["http_proxy"]) != "http://proxy" {
			t.Fatalf("Secrets %v, want %s", secrets.Items, proxySecret)
		}
		if got := f.runners()[0].Spec.ProxySecretRef; got != proxySecret {
			t.Errorf("the runner's proxy Secret is %q, want %s", got, proxySecret)
		}
	}, newSet(1, withProxy))
}

// Somebody has deleted the Secret: it is back in time for the runners that start.
func TestDeletedProxySecretComesBack(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.reconcile()
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: setKey.Namespace, Name: proxySecret}}
		if err := f.api.Delete(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		there := func() bool {
			return controllertest.Read(t, f.api, types.NamespacedName{Namespace: setKey.Namespace, Name: proxySecret}, &corev1.Secret{})
		}
		f.reconcile()
		if there() {
			t.Error("the Secret is written at every pass")
		}
		controllertest.Elapse(proxyReapplyPeriod)
		f.reconcile()
		if !there() {
			t.Error("the Secret is not back")
		}
	}, newSet(1, withProxy))
}
