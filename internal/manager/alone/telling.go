package alone

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// waiting is served by every manager, whether it leads or not.
var waiting = prometheus.NewGauge(prometheus.GaugeOpts{
	Name: "gha_controller_waits_for_other_revision",
	Help: "1 while the manager does not act because pods of its Deployment with another template live, or because it " +
		"can't know whether any do; else 0.",
})

func init() { metrics.Registry.MustRegister(waiting) }

// tell logs what the manager waits for when that changes, and writes an Event about its pod if it takes longer than a
// manager needs to end.
func (d *Deployment) tell(ctx context.Context) {
	d.mu.Lock()
	awaited, waits := d.awaited, d.waits()
	advice := "allow what the cause names; it is tried again"
	if len(awaited) > 0 {
		advice = d.own.Advice(awaited)
	}
	if text := waits.Error(); text != d.said {
		d.log.Info("Waiting before the manager takes its Lease", "cause", text, "advice", advice)
		d.said = text
	}
	now := d.clock.Now()
	due := len(awaited) > 0 && now.Sub(d.since) >= eventAfter && now.Sub(d.written) >= eventRepeat
	if due {
		d.written = now
	}
	d.mu.Unlock()
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	// A pod has one of these for each pod that it waits for, by the UIDs of both.
	name := string(d.pod.UID) + "." + string(awaited[0].UID)
	event := report.Warning(v1alpha1.ReasonOtherRevisionLives, "Wait",
		waits.Error()+". It takes its Lease when they are gone. Next: "+advice)
	if err := report.CreateEvent(ctx, d.cluster, name, d.pod, &awaited[0], event, now); err != nil {
		d.log.Error(err, "The Event about the wait could not be written")
	}
}
