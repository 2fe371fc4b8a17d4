package autoscalinglistener

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

const (
	// ignoredPeriod is how often listeners are looked for that lie outside the manager's namespace. They do no harm, so their
	// authors may wait for the answer.
	ignoredPeriod = time.Hour
	// ignoredRetry is after what time it is tried again if the API server didn't answer.
	ignoredRetry = time.Minute
	// ignoredPage is how many are read at once, so that nobody's objects fill the manager's memory.
	ignoredPage = 500
	// ignoredEvents is how many Events one namespace gets in a period. The log has the number of all.
	ignoredEvents = 20
	// ignoredMemory is how many listeners that have had their Event are remembered. Forgetting one costs an Event.
	ignoredMemory = 4096
)

// reportIgnored looks for ignored listeners until the context ends. Only the leader runs it.
func (c *Controller) reportIgnored(ctx context.Context) error {
	for {
		pause := ignoredPeriod
		if err := c.lookForIgnored(ctx); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Can't look for AutoscalingListeners outside the manager's namespace")
			pause = ignoredRetry
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// lookForIgnored reports the listeners outside the manager's namespace, which the cache doesn't have. It reads their metadata only.
func (c *Controller) lookForIgnored(ctx context.Context) error {
	if c.options.WatchNamespace == c.options.Namespace {
		return nil
	}
	found, events := 0, map[string]int{}
	var page metav1.PartialObjectMetadataList
	page.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("AutoscalingListenerList"))
	for {
		err := c.options.Reader.List(ctx, &page, client.InNamespace(c.options.WatchNamespace), client.Limit(ignoredPage), client.Continue(page.Continue))
		if err != nil {
			return fmt.Errorf("list AutoscalingListeners: %w", err)
		}
		for i := range page.Items {
			listener := &page.Items[i]
			if !c.isForeign(listener) {
				continue
			}
			found++
			if events[listener.Namespace] < ignoredEvents && c.ignore(ctx, listener, "it is not in the manager's namespace "+c.options.Namespace) {
				events[listener.Namespace]++
			}
		}
		if page.Continue == "" {
			break
		}
	}
	if found > 0 {
		ctrl.LoggerFrom(ctx).Info("AutoscalingListeners outside the manager's namespace are ignored", "number", found, "namespace", c.options.Namespace)
	}
	return nil
}

// isForeign reports whether a listener is where this manager never writes one. If the manager serves one namespace only, another
// manager may have its own namespace there, and listeners in it, which are labelled with the namespace that it serves.
func (c *Controller) isForeign(listener client.Object) bool {
	served := kube.LabelledSet(listener).Namespace
	anothers := c.options.WatchNamespace != "" && served != "" && served != c.options.WatchNamespace
	return listener.GetNamespace() != c.options.Namespace && !anothers
}

// ignore says in an Event, once for each listener, why nothing is done for it, and reports whether it said so now. Neither its labels nor
// its spec are passed on: they would choose which set's limit on Events counts. The listener has its own.
func (c *Controller) ignore(ctx context.Context, listener client.Object, why string) bool {
	if _, told := c.told.Get(listener.GetUID()); told {
		return false
	}
	c.told.Add(listener.GetUID(), true)
	about := &v1alpha1.AutoscalingListener{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: listener.GetNamespace(), Name: listener.GetName(), UID: listener.GetUID(), ResourceVersion: listener.GetResourceVersion(),
		},
		Spec: v1alpha1.AutoscalingListenerSpec{AutoscalingRunnerSetNamespace: listener.GetNamespace(), AutoscalingRunnerSetName: listener.GetName()},
	}
	note := fmt.Sprintf("This AutoscalingListener is ignored: %s. The manager creates the listeners of its scale sets itself; "+
		"delete this one, and remove its finalizer if it stays", why)
	report.RecordEvent(ctx, c.options.Recorder, about, nil, report.Warning(v1alpha1.ReasonListenerIgnored, "IgnoreListener", note))
	return true
}
