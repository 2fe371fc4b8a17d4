package autoscalinglistener

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/reconcile"
)

// A scrape may come at any moment of a pass: the series of an address that stays is never deleted, that of a former one
// is.
func TestTheSeriesStaysWhileItsAddressDoes(t *testing.T) {
	pass := &reconcile.Pass[*v1alpha1.AutoscalingListener, memory]{Key: key, Object: newListener(), Memory: &memory{}}
	w := &world{Pass: pass}
	t.Cleanup(func() { unpublish(key) })
	publishRunning(w)
	first := running.WithLabelValues(key.Name, key.Namespace, "", "my-org", "")
	publishRunning(w)
	if running.WithLabelValues(key.Name, key.Namespace, "", "my-org", "") != first {
		t.Error("the series was deleted and made again")
	}
	w.Object = newListener(func(l *v1alpha1.AutoscalingListener) {
		l.Spec.GitHubConfigUrl = "https://github.com/other-org"
	})
	before := testutil.CollectAndCount(running)
	publishRunning(w)
	if testutil.CollectAndCount(running) != before {
		t.Error("the series of the former address is left")
	}
}
