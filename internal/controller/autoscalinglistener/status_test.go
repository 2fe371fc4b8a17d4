package autoscalinglistener_test

import (
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// running returns gha_controller_running_listeners as the manager's registry has it, which gives it to whoever
// registers a metric of the same name and labels.
func running(t *testing.T) *prometheus.GaugeVec {
	t.Helper()
	again := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "gha_controller_running_listeners",
		Help: "1 while the listener's container is running, 0 otherwise; name and namespace are the " +
			"AutoscalingListener's.",
	}, []string{"name", "namespace", "repository", "organization", "enterprise"})
	registered, ok := errors.AsType[prometheus.AlreadyRegisteredError](metrics.Registry.Register(again))
	if !ok {
		t.Fatal("gha_controller_running_listeners is not registered")
	}
	return registered.ExistingCollector.(*prometheus.GaugeVec)
}

// A scrape may come at any moment of a pass: the series of an address that stays is never deleted, that of a former one
// is.
func TestTheSeriesStaysWhileItsAddressDoes(t *testing.T) {
	f := started(t)
	first := running(t).WithLabelValues(key.Name, key.Namespace, "", "my-org", "")
	before := testutil.CollectAndCount(running(t))
	f.reconcile()
	if running(t).WithLabelValues(key.Name, key.Namespace, "", "my-org", "") != first {
		t.Error("the series was deleted and made again")
	}
	f.edit(func(l *v1alpha1.AutoscalingListener) { l.Spec.GitHubConfigUrl = "https://github.com/other-org" })
	f.reconcile()
	if testutil.CollectAndCount(running(t)) != before {
		t.Error("the series of the former address is left")
	}
	if err := f.client.Delete(t.Context(), f.listener()); err != nil {
		t.Fatal(err)
	}
	f.settle()
	if left := testutil.CollectAndCount(running(t)); left >= before {
		t.Errorf("%d series are left of %d", left, before)
	}
}
