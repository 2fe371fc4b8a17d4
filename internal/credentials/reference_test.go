package credentials_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/credentials"
)

// A read may outlast the reconcile, which decodes the API server's answers into its object.
func TestReferenceSharesNothingWithItsObject(t *testing.T) {
	proxy := &v1alpha1.ProxyConfig{
		HTTPS:   &v1alpha1.ProxyServerConfig{Url: "http://proxy"},
		NoProxy: []string{"internal"},
	}
	set := &v1alpha1.AutoscalingRunnerSet{}
	set.Spec.Proxy = proxy.DeepCopy()
	listener := &v1alpha1.AutoscalingListener{}
	listener.Spec.Proxy = proxy.DeepCopy()
	runner := &v1alpha1.EphemeralRunner{}
	runner.Spec.Proxy = proxy.DeepCopy()
	references := []credentials.Reference{
		credentials.ForAutoscalingRunnerSet(set), credentials.ForAutoscalingListener(listener),
		credentials.ForEphemeralRunner(runner),
	}
	for _, written := range []*v1alpha1.ProxyConfig{set.Spec.Proxy, listener.Spec.Proxy, runner.Spec.Proxy} {
		written.HTTPS.Url, written.NoProxy[0] = "", ""
	}
	for _, reference := range references {
		if diff := cmp.Diff(proxy, reference.Proxy); diff != "" {
			t.Errorf("after a write into the object (-want +got):\n%s", diff)
		}
	}
}
