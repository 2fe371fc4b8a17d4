// Package ignored reports the AutoscalingListeners for which nothing is done: those that the manager didn't write.
package ignored

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

const (
	// Every period, the Reporter looks for listeners outside the manager's namespace. They do no harm, so their authors
	// may wait for the answer.
	period = time.Hour
	// If the API server didn't answer, the Reporter tries again after retry.
	retry = time.Minute
	// pageSize objects are read at a time, so that nobody's objects fill the manager's memory.
	pageSize = 500
	// One namespace gets maxEvents in a period. The log has the number of all.
	maxEvents = 20
	// memory limits the listeners that are remembered because they have had their Event. Forgetting one costs an Event.
	memory = 4096
)

// Reporter looks for listeners outside the manager's namespace, and reports those that are ignored. Safe for concurrent
// use.
type Reporter struct {
	reader                    client.Reader
	recorder                  events.EventRecorder
	namespace, watchNamespace string
	// told are the UIDs of the listeners that have their Event.
	told *lru.Cache
}

// NewReporter returns a reporter that has told nothing yet. The reader isn't the cache, which lacks the listeners in
// question. namespace is the manager's, and watchNamespace the only one whose scale sets it serves; empty means all.
func NewReporter(reader client.Reader, recorder events.EventRecorder, namespace, watchNamespace string) *Reporter {
	return &Reporter{
		reader:         reader,
		recorder:       recorder,
		namespace:      namespace,
		watchNamespace: watchNamespace,
		told:           lru.New(memory),
	}
}

// Run looks for ignored listeners until the context ends. Only the leader runs it.
func (r *Reporter) Run(ctx context.Context) error {
	for {
		pause := period
		if err := r.look(ctx); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Can't look for AutoscalingListeners outside the manager's namespace")
			pause = retry
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// look reports the listeners outside the manager's namespace, which the cache doesn't have. It reads their metadata
// only.
func (r *Reporter) look(ctx context.Context) error {
	if r.watchNamespace == r.namespace {
		return nil
	}
	found, told := 0, map[string]int{}
	var page metav1.PartialObjectMetadataList
	page.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("AutoscalingListenerList"))
	for {
		err := r.reader.List(ctx, &page, client.InNamespace(r.watchNamespace), client.Limit(pageSize),
			client.Continue(page.Continue))
		if err != nil {
			return fmt.Errorf("list AutoscalingListeners: %w", err)
		}
		for i := range page.Items {
			listener := &page.Items[i]
			if !r.isForeign(listener) {
				continue
			}
			found++
			if told[listener.Namespace] < maxEvents &&
				r.Tell(ctx, listener, "it is not in the manager's namespace "+r.namespace) {
				told[listener.Namespace]++
			}
		}
		if page.Continue == "" {
			break
		}
	}
	if found > 0 {
		ctrl.LoggerFrom(ctx).Info("AutoscalingListeners outside the manager's namespace are ignored", "number", found,
			"namespace", r.namespace)
	}
	return nil
}

// isForeign reports whether a listener is at a place to which this manager never writes one. If the manager serves one
// namespace only, another manager may have its own namespace there. The listeners in it are labelled with the namespace
// that this other manager serves.
func (r *Reporter) isForeign(listener client.Object) bool {
	served := kube.LabelledSet(listener).Namespace
	anothers := r.watchNamespace != "" && served != "" && served != r.watchNamespace
	return listener.GetNamespace() != r.namespace && !anothers
}

// Tell says in an Event, a single time for each listener, why nothing is done for it, and reports whether it said so
// now. The Event's object has neither the listener's labels nor its spec, which would choose the set whose limit on
// Events counts. The listener has a limit of its own.
func (r *Reporter) Tell(ctx context.Context, listener client.Object, why string) bool {
	if _, known := r.told.Get(listener.GetUID()); known {
		return false
	}
	r.told.Add(listener.GetUID(), true)
	about := &v1alpha1.AutoscalingListener{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: listener.GetNamespace(), Name: listener.GetName(), UID: listener.GetUID(),
			ResourceVersion: listener.GetResourceVersion(),
		},
		Spec: v1alpha1.AutoscalingListenerSpec{
			AutoscalingRunnerSetNamespace: listener.GetNamespace(),
			AutoscalingRunnerSetName:      listener.GetName(),
		},
	}
	note := fmt.Sprintf("This AutoscalingListener is ignored: %s. The manager creates the listeners of its scale sets "+
		"itself; delete this one, and remove its finalizer if it stays", why)
	report.RecordEvent(ctx, r.recorder, about, nil,
		report.Warning(v1alpha1.ReasonListenerIgnored, "IgnoreListener", note))
	return true
}
