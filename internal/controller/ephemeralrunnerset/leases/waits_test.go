package leases_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/leases"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

// Of what an autoscaler says of a pod the last word counts, and only while the pod has no node; what is said of another
// pod, or of one of the same name before, doesn't.
func TestWhatAutoscalersSay(t *testing.T) {
	for name, test := range map[string]struct {
		said              []string // a minute apart
		of                string   // whose UID, "" for the pod's
		placed            bool
		announced, denied bool
	}{
		"nothing":               {},
		"it makes a node":       {said: []string{"TriggeredScaleUp"}, announced: true},
		"Karpenter makes one":   {said: []string{"Nominated"}, announced: true},
		"it can't":              {said: []string{"NotTriggerScaleUp"}, denied: true},
		"it can't, then it can": {said: []string{"NotTriggerScaleUp", "TriggeredScaleUp"}, announced: true},
		"it could, now it can't": {said: []string{"TriggeredScaleUp", "NotTriggerScaleUp"},
			denied: true},
		"of another pod":        {said: []string{"TriggeredScaleUp"}, of: "other"},
		"of a pod with a node":  {said: []string{"TriggeredScaleUp"}, placed: true},
		"something else of it":  {said: []string{"FailedScheduling"}},
		"the provisioner fails": {said: []string{"ProvisioningFailed"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, l *leases.Leases) {
				runner := newRunner("r")
				pod := podOf(runner, unplaced)
				l.Put(runner)
				showPod(l, pod)
				if test.placed {
					showPod(l, podOf(runner, bound))
				}
				var events []corev1.Event
				for _, reason := range test.said {
					<-time.After(time.Minute)
					event := said(pod, reason, "words that nobody reads", 0)
					if test.of != "" {
						event.InvolvedObject.UID = "other"
					}
					events = append([]corev1.Event{event}, events...) // in any order
				}
				l.RememberWaitEvents(scaleSet, events, nil)
				if got := l.World(newSet(), nil).Runners[0]; got.Announced != test.announced || got.Denied != test.denied {
					t.Errorf("announced %t, denied %t", got.Announced, got.Denied)
				}
			})
		})
	}
}

// A provisioner that fails is known by what it says of the claim, while the claim has no volume.
func TestWhatProvisionersSay(t *testing.T) {
	for name, test := range map[string]struct {
		of, volume string
		want       volumeclaims.FailureKind
	}{
		"of the claim":              {"claim-uid", "", volumeclaims.Unprovisioned},
		"of an earlier one":         {"other", "", volumeclaims.Unplaced},
		"but it has got its volume": {"claim-uid", "pvc-1", volumeclaims.Unplaced},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, l *leases.Leases) {
				runner := newRunner("r")
				l.Put(runner)
				showPod(l, podOf(runner, unplaced))
				since := time.Now()
				<-time.After(time.Minute)
				waits, _ := l.Unplaced(scaleSet, time.Minute)
				if len(waits) != 1 || waits[0] != claimName {
					t.Fatalf("%v wait", waits)
				}
				claim := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ci", Name: claimName,
					UID: "claim-uid"}}
				claim.Spec.VolumeName = test.volume
				event := corev1.Event{Reason: "ProvisioningFailed",
					InvolvedObject: corev1.ObjectReference{UID: claim.UID}, LastTimestamp: metav1.Now()}
				if test.of == "other" {
					event.InvolvedObject.UID = "other"
				}
				l.RememberWaitEvents(scaleSet, []corev1.Event{event}, []corev1.PersistentVolumeClaim{claim})
				if got := l.World(newSet(), nil).Runners[0].Failure; got.Kind != test.want || !got.Since.Equal(since) {
					t.Errorf("failure %+v, want %s since %s", got, test.want, since)
				}
			})
		})
	}
}
