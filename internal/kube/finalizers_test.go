package kube

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// Others keep an object only once it is deleted and we are done with it, whether it is ours or was ARC's.
func TestKeepersAreThoseWhoAreLeft(t *testing.T) {
	for name, test := range map[string]struct {
		deleted    bool
		finalizers []string
		want       []string
	}{
		"alive":               {false, []string{"example.com/a"}, nil},
		"ours is there":       {true, []string{"example.com/a", v1alpha1.FinalizerEphemeralRunner}, nil},
		"ARC's second":        {true, []string{v1alpha1.FinalizerRunnerRegistration, "example.com/a"}, nil},
		"an earlier build's":  {true, []string{v1alpha1.FinalizerFormerRunnerSet, "example.com/a"}, nil},
		"theirs":              {true, []string{"example.com/a", "b"}, []string{"example.com/a", "b"}},
		"garbage collection":  {true, []string{metav1.FinalizerDeleteDependents}, []string{metav1.FinalizerDeleteDependents}},
		"ARC's chart's":       {true, []string{v1alpha1.FinalizerCleanupProtection}, []string{v1alpha1.FinalizerCleanupProtection}},
		"about to be removed": {true, nil, nil},
	} {
		object := runnerWith(test.finalizers...)
		if test.deleted {
			object.DeletionTimestamp = new(metav1.Now())
		}
		if got := Keepers(object); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

func TestPodIsKeptOnceItsContainersHaveEnded(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: new(metav1.Now()), Finalizers: []string{"a"}}, Spec: corev1.PodSpec{NodeName: "n"}}
	for phase, kept := range map[corev1.PodPhase]bool{corev1.PodPending: false, corev1.PodRunning: false, corev1.PodUnknown: false, corev1.PodSucceeded: true, corev1.PodFailed: true} {
		if pod.Status.Phase = phase; (PodKeepers(pod) != nil) != kept {
			t.Errorf("%s: %v", phase, PodKeepers(pod))
		}
	}
	pod.Status.Phase, pod.Spec.NodeName = corev1.PodPending, ""
	if PodKeepers(pod) == nil {
		t.Error("a pod without a node waits for nothing else")
	}
}

// The time counts for each object from when it was first looked at, and starts anew once it is not.
func TestTimeOfKeptObjects(t *testing.T) {
	var kept Kept
	now := time.Unix(1000, 0)
	look := func(uid types.UID, after time.Duration, want time.Duration) {
		t.Helper()
		now = now.Add(after)
		kept.Begin()
		if got := kept.Look(uid, now); got != want {
			t.Errorf("%s waits %s, want %s", uid, got, want)
		}
	}
	look("a", 0, KeptAfter)
	look("a", KeptAfter-time.Second, time.Second)
	look("a", time.Second, 0)
	look("b", time.Hour, KeptAfter)
	look("a", time.Second, KeptAfter)
}

// However many finalizers there are, and however long, the command is not cut off: a condition has 1024 bytes.
func TestCommandIsNeverCutOff(t *testing.T) {
	longest := strings.Repeat("a", 253) + "/" + strings.Repeat("b", 63)
	key := types.NamespacedName{Namespace: strings.Repeat("n", 63), Name: strings.Repeat("m", 63)}
	for _, finalizers := range [][]string{{"example.com/a"}, {longest}, slices.Repeat([]string{longest}, 20), slices.Repeat([]string{"f.example.com/x"}, 1000), {metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents}} {
		text := WhyKept("AutoscalingRunnerSet", key, finalizers)
		if len(text) > 1024 || !strings.HasSuffix(text, `--type merge --patch '{"metadata":{"finalizers":null}}'`) || !strings.Contains(text, finalizers[0]) {
			t.Errorf("%d bytes: %s", len(text), text)
		}
	}
}
