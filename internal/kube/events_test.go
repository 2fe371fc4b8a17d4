package kube_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/internal/kube"
)

// Reporters fill different fields of Events.
func TestEventsSayWhenInDifferentFields(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 3, 4, 12, minute, 0, 0, time.UTC) }
	for name, test := range map[string]struct {
		event       corev1.Event
		first, last time.Time
	}{
		"of the former form": {corev1.Event{FirstTimestamp: metav1.NewTime(at(1)), LastTimestamp: metav1.NewTime(at(3))}, at(1), at(3)},
		"once":               {corev1.Event{EventTime: metav1.NewMicroTime(at(2))}, at(2), at(2)},
		"a series": {corev1.Event{EventTime: metav1.NewMicroTime(at(1)),
			Series: &corev1.EventSeries{LastObservedTime: metav1.NewMicroTime(at(5))}}, at(1), at(5)},
		"none": {},
	} {
		if first, last := kube.SaidAt(&test.event); !first.Equal(test.first) || !last.Equal(test.last) {
			t.Errorf("%s: %s to %s, want %s to %s", name, first, last, test.first, test.last)
		}
	}
}
