package ephemeralrunner

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

// serverNoon is the API server's time when it is noon by ours.
var serverNoon = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func TestPodDueAt(t *testing.T) {
	const long = time.Hour
	for title, test := range map[string]struct {
		timeout, grace time.Duration
		deleting       time.Time // zero if it is not being deleted
		noted          time.Time // zero if no failure is noted
		want           time.Time
	}{
		"not being deleted":             {timeout: long},
		"deleted just now":              {timeout: long, grace: time.Minute, deleting: noon, want: noon.Add(long)},
		"longer grace period":           {timeout: time.Minute, grace: long, deleting: noon, want: noon.Add(long + podstatus.StuckTimeout)},
		"no timeout":                    {deleting: noon, want: noon.Add(podstatus.StuckTimeout)},
		"failure noted before":          {timeout: long, deleting: noon, noted: noon.Add(-time.Minute), want: noon.Add(long - time.Minute)},
		"failure noted long before":     {timeout: time.Minute, deleting: noon, noted: noon.Add(-long), want: noon.Add(podstatus.StuckTimeout)},
		"failure noted long after":      {timeout: long, grace: long, deleting: noon.Add(-2 * long), noted: noon, want: noon.Add(long)},
		"failure noted by a fast clock": {timeout: long, deleting: noon.Add(-time.Minute), noted: noon.Add(2 * long), want: noon.Add(long - time.Minute)},
	} {
		t.Run(title, func(t *testing.T) {
			m := &memory{pod: lastPod{uid: "pod", deletingAt: test.deleting}}
			runner, pod := &v1alpha1.EphemeralRunner{}, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "pod"}}
			runner.Spec.PendingTimeout = &metav1.Duration{Duration: test.timeout}
			if !test.deleting.IsZero() {
				// By the API server's clock, whose date does not matter.
				pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = new(metav1.NewTime(serverNoon)),
					new(int64(test.grace.Seconds()))
			}
			if !test.noted.IsZero() {
				runner.Status.Failures = map[string]metav1.Time{string(pod.UID): metav1.NewTime(test.noted)}
			}
			if got := m.podDueAt(runner, pod, noon); !got.Equal(test.want) {
				t.Errorf("podDueAt() = %s, want %s", got, test.want)
			}
		})
	}
}

// What is remembered of an earlier pod's deletion says nothing about another pod.
func TestAPIServerTimeIsThatOfTheSamePod(t *testing.T) {
	const grace = time.Minute
	m := &memory{pod: lastPod{uid: "seen", deletingAt: noon.Add(-time.Hour)}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "seen"}}
	if got := m.apiServerTime(pod, noon); got != noon {
		t.Errorf("%s by a pod that is not being deleted, want our own time, %s", got, noon)
	}
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = new(metav1.NewTime(serverNoon.Add(grace))),
		new(int64(grace.Seconds()))
	if got, want := m.apiServerTime(pod, noon), serverNoon.Add(time.Hour); got != want {
		t.Errorf("%s by a pod whose deletion was first seen an hour ago, want %s", got, want)
	}
	pod.UID = "another"
	if got := m.apiServerTime(pod, noon); got != serverNoon {
		t.Errorf("%s by a pod whose deletion is first seen now, want %s", got, serverNoon)
	}
}
