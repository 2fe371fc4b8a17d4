package report

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/reference"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/kube"
)

// RecorderName is the reporting controller of Events.
const RecorderName = "gha-runner-scale-set-controller"

// Event is the content of a Kubernetes Event about an object.
type Event struct {
	// Type is corev1.EventTypeNormal or corev1.EventTypeWarning.
	Type string
	// Reason and Action are one word each: why something was done, and what.
	Reason, Action string
	// Note is the text for people.
	Note string
}

// Normal returns an Event about something that goes as intended.
func Normal(reason, action, note string) Event {
	return Event{Type: corev1.EventTypeNormal, Reason: reason, Action: action, Note: note}
}

// Warning returns an Event about something that somebody may have to fix.
func Warning(reason, action, note string) Event {
	return Event{Type: corev1.EventTypeWarning, Reason: reason, Action: action, Note: note}
}

// note returns the text as the API server takes it, and a terminal can show it: it may quote whatever others have
// written.
func (e *Event) note() string { return Truncate(actions.Printable(e.Note), maxNote) }

// RecordEvent records an Event about an object and logs it. related may be nil. The note is not used as a format
// string, because it may quote others.
func RecordEvent(ctx context.Context, recorder events.EventRecorder, about, related runtime.Object, event Event) {
	ctrl.LoggerFrom(ctx).Info("Event", "type", event.Type, "reason", event.Reason, "note", event.Note)
	recorder.Eventf(about, related, event.Type, validReason(event.Reason), event.Action, "%s", event.note())
}

// CreateEvent creates an Event about an object, under a name by which it is there a single time, however often this is
// called, and logs it. It is for what must not get lost, also if the process is killed after it, and beyond what the
// recorder lets through. It fails with the API server's error if trying again may help.
func CreateEvent(
	ctx context.Context, to client.Client, name string, about, related client.Object, event Event, now time.Time,
) error {
	regarding, err := reference.GetReference(to.Scheme(), about)
	if err != nil {
		return err
	}
	other, err := reference.GetReference(to.Scheme(), related)
	if err != nil {
		return err
	}
	ctrl.LoggerFrom(ctx).Info("Event", "type", event.Type, "reason", event.Reason, "note", event.Note)
	err = to.Create(ctx, &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: about.GetNamespace(), Name: name},
		EventTime:           metav1.NewMicroTime(now),
		ReportingController: RecorderName,
		ReportingInstance:   RecorderName,
		Type:                event.Type,
		Reason:              validReason(event.Reason),
		Action:              event.Action,
		Note:                event.note(),
		Regarding:           *regarding,
		Related:             other,
	})
	if apierrors.IsAlreadyExists(err) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) ||
		apierrors.IsNotFound(err) {
		return nil // it is there, or never will be
	}
	return err
}

// maxNote is the longest note, in bytes, that the API server accepts.
const maxNote = 1024

const (
	// A warning with the same text about the same object is repeated after eventRepeat at the earliest. An Event lives
	// for an hour. Normal Events, such as that a set has grown from 0 to 3 again, are news each time.
	eventRepeat = 10 * time.Minute
	// eventBurst and eventsPerSecond limit the Events with one reason about one kind of object of a scale set: if a
	// thousand runners fail alike, twenty have an Event immediately, and then one a minute. The set's status has the
	// number.
	eventBurst      = 20
	eventsPerSecond = 1.0 / 60
	// At most eventMemory texts, and as many buckets, are remembered. Forgetting one too early costs an Event.
	eventMemory = 4096
)

// limitedRecorder leaves out Events that say nothing new.
type limitedRecorder struct {
	events.EventRecorder
	clock clock.PassiveClock
	// said has the warnings of the last eventRepeat, by text.
	said *cache.LRUExpireCache
	// buckets has a flowcontrol.PassiveRateLimiter for each bucket.
	buckets *lru.Cache
}

// text identifies what an Event says about which object.
type text struct {
	about               types.UID
	kind, reason, words string
}

// bucket identifies Events that share a limit.
type bucket struct{ namespace, scaleSet, kind, reason string }

// bucketOf takes the scale set of a runner or runner set from its labels; see kube.ScaleSetOf. A listener shares its
// namespace with those of other sets, and its spec names its own.
func bucketOf(object client.Object, kind, reason string) bucket {
	set := kube.ScaleSetOf(object)
	if listener, ok := object.(*v1alpha1.AutoscalingListener); ok {
		set = types.NamespacedName{
			Namespace: listener.Spec.AutoscalingRunnerSetNamespace,
			Name:      listener.Spec.AutoscalingRunnerSetName,
		}
	}
	// Unknown reasons share a limit: an object's status may bring any number of them.
	return bucket{namespace: set.Namespace, scaleSet: set.Name, kind: kind, reason: KnownReason(reason)}
}

// LimitEvents wraps a recorder and drops Events beyond the limits. It may be called from several goroutines.
func LimitEvents(recorder events.EventRecorder, clk clock.PassiveClock) events.EventRecorder {
	return &limitedRecorder{
		EventRecorder: recorder, clock: clk,
		said: cache.NewLRUExpireCacheWithClock(eventMemory, clk), buckets: lru.New(eventMemory),
	}
}

// Eventf records an Event unless it repeats a warning or exceeds the limit of its bucket.
func (l *limitedRecorder) Eventf(
	regarding, related runtime.Object, eventType, reason, action, note string, arguments ...any,
) {
	if object, ok := regarding.(client.Object); ok {
		kind, warning := fmt.Sprintf("%T", regarding), eventType == corev1.EventTypeWarning
		said := text{about: object.GetUID(), kind: kind, reason: reason, words: fmt.Sprintf(note, arguments...)}
		_, repeated := l.said.Get(said)
		if (warning && repeated) || !l.bucket(bucketOf(object, kind, reason)).TryAccept() {
			return
		}
		if warning {
			l.said.Add(said, true, eventRepeat)
		}
	}
	l.EventRecorder.Eventf(regarding, related, eventType, reason, action, note, arguments...)
}

// bucket returns the limiter of a bucket. If two goroutines create the same one at the same time, one Event too many
// passes.
func (l *limitedRecorder) bucket(at bucket) flowcontrol.PassiveRateLimiter {
	found, _ := l.buckets.Get(at)
	if limiter, ok := found.(flowcontrol.PassiveRateLimiter); ok {
		return limiter
	}
	limiter := flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(eventsPerSecond, eventBurst, l.clock)
	l.buckets.Add(at, limiter)
	return limiter
}
