package report

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Event is what a Kubernetes Event says about an object.
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

// RecordEvent records an Event about an object and logs it. related may be nil. The note is not used as a format string, because
// it may quote others.
func RecordEvent(ctx context.Context, recorder events.EventRecorder, about, related runtime.Object, event Event) {
	ctrl.LoggerFrom(ctx).Info("Event", "type", event.Type, "reason", event.Reason, "note", event.Note)
	recorder.Eventf(about, related, event.Type, validReason(event.Reason), event.Action, "%s", Truncate(event.Note, maxNote))
}

// maxNote is the longest note, in bytes, that the API server accepts.
const maxNote = 1024
