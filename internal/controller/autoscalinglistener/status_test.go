package autoscalinglistener

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// A scrape may come at any moment of a pass: the series of an address that stays is never deleted, that of a former one is.
func TestTheSeriesStaysWhileItsAddressDoes(t *testing.T) {
	p := &pass{key: key, listener: newListener(), memory: &memory{}}
	t.Cleanup(func() { unpublish(key) })
	publishRunning(p)
	first := running.WithLabelValues(key.Name, key.Namespace, "", "my-org", "")
	publishRunning(p)
	if running.WithLabelValues(key.Name, key.Namespace, "", "my-org", "") != first {
		t.Error("the series was deleted and made again")
	}
	p.listener = newListener(func(l *v1alpha1.AutoscalingListener) { l.Spec.GitHubConfigUrl = "https://github.com/other-org" })
	before := testutil.CollectAndCount(running)
	publishRunning(p)
	if testutil.CollectAndCount(running) != before {
		t.Error("the series of the former address is left")
	}
}
