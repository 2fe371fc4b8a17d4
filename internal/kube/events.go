package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Reasons of Events about a claim that has no volume: its provisioner fails, also because there is no such StorageClass;
// or there is neither a StorageClass nor a volume that is free.
const (
	EventProvisioningFailed = "ProvisioningFailed"
	EventFailedBinding      = "FailedBinding"
)

// maxEvents bounds the number of Events of one reason that are read.
const maxEvents = 500

// EventsOf returns the Events in a namespace with one of the reasons, at most 500 of each. Without the right to list them
// there are none. With an error it returns those that could be read.
func EventsOf(ctx context.Context, reader client.Reader, namespace string, reasons []string) (found []corev1.Event, err error) {
	for _, reason := range reasons {
		var list corev1.EventList
		failed := reader.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{"reason": reason},
			client.Limit(maxEvents))
		if failed != nil && !apierrors.IsForbidden(failed) {
			err = errors.Join(err, fmt.Errorf("list Events of reason %s: %w", reason, failed))
		}
		found = append(found, list.Items...)
	}
	return found, err
}

// SaidAt returns the times at which an Event was first and last reported. Reporters fill different fields.
func SaidAt(event *corev1.Event) (first, last time.Time) {
	first = EarlierOf(event.FirstTimestamp.Time, event.EventTime.Time)
	last = LaterOf(event.LastTimestamp.Time, LaterOf(event.EventTime.Time, first))
	if event.Series != nil {
		last = LaterOf(last, event.Series.LastObservedTime.Time)
	}
	return first, last
}
