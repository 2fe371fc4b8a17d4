package kube_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

func TestFinalizerIsAddedOnceAndNeverOverAnothers(t *testing.T) {
	c, writes := newAPI(t, runnerWith("theirs"))
	late := read(t, c)
	runner := read(t, c)
	for range 2 {
		if err := kube.AddFinalizer(t.Context(), c, runner, "ours"); err != nil {
			t.Fatal(err)
		}
	}
	if got := read(t, c).Finalizers; !slices.Equal(got, []string{"theirs", "ours"}) || *writes != 1 {
		t.Errorf("finalizers %v after %d writes", got, *writes)
	}
	if err := kube.AddFinalizer(t.Context(), c, runner, "ours", "theirs", "absent"); err != nil {
		t.Fatal(err)
	}
	if got := read(t, c).Finalizers; !slices.Equal(got, []string{"ours"}) || *writes != 2 {
		t.Errorf("finalizers %v after %d writes, want those that ours replaces removed", got, *writes)
	}
	if err := kube.AddFinalizer(t.Context(), c, late, "third"); !apierrors.IsConflict(err) {
		t.Errorf("AddFinalizer() on a late object = %v, want a conflict", err)
	}
}

func TestFinalizersAreRemovedInOneRequest(t *testing.T) {
	c, writes := newAPI(t, runnerWith("a", "theirs", "b"))
	runner := read(t, c)
	if err := kube.RemoveFinalizers(t.Context(), c, runner, "a", "b", "absent"); err != nil {
		t.Fatal(err)
	}
	if got := read(t, c).Finalizers; !slices.Equal(got, []string{"theirs"}) || *writes != 1 {
		t.Errorf("finalizers %v after %d writes", got, *writes)
	}
	if err := kube.RemoveFinalizers(t.Context(), c, read(t, c), "a"); err != nil || *writes != 1 {
		t.Errorf("RemoveFinalizers() = %v, %d writes though there is none", err, *writes)
	}
	gone := runnerWith("a")
	gone.Name = "gone"
	if err := kube.RemoveFinalizers(t.Context(), c, gone, "a"); err != nil {
		t.Errorf("RemoveFinalizers() of what is gone = %v", err)
	}
}

// If somebody removed a finalizer in the meantime, the one that has taken its place must not be removed.
func TestFinalizersAreLeftAloneWhereTheListHasChanged(t *testing.T) {
	c, _ := newAPI(t, runnerWith("a", "ours", "b"))
	late, runner := read(t, c), read(t, c)
	if err := kube.RemoveFinalizers(t.Context(), c, runner, "a"); err != nil {
		t.Fatal(err)
	}
	if err := kube.RemoveFinalizers(t.Context(), c, late, "ours"); err == nil {
		t.Error("removed by a position that is another's by now")
	}
	if got := read(t, c).Finalizers; !slices.Equal(got, []string{"ours", "b"}) {
		t.Errorf("finalizers %v", got)
	}
}

// Others keep an object only after it is deleted and we are done with it, whether it is ours or was ARC's.
func TestKeepersAreThoseWhoAreLeft(t *testing.T) {
	for name, test := range map[string]struct {
		deleted    bool
		finalizers []string
		want       []string
	}{
		"alive":              {false, []string{"example.com/a"}, nil},
		"ours is there":      {true, []string{"example.com/a", v1alpha1.FinalizerEphemeralRunner}, nil},
		"ARC's second":       {true, []string{v1alpha1.FinalizerRunnerRegistration, "example.com/a"}, nil},
		"an earlier build's": {true, []string{v1alpha1.FinalizerFormerRunnerSet, "example.com/a"}, nil},
		"theirs":             {true, []string{"example.com/a", "b"}, []string{"example.com/a", "b"}},
		"garbage collection": {
			true, []string{metav1.FinalizerDeleteDependents}, []string{metav1.FinalizerDeleteDependents},
		},
		"ARC's chart's": {
			true, []string{v1alpha1.FinalizerCleanupProtection}, []string{v1alpha1.FinalizerCleanupProtection},
		},
		"about to be removed": {true, nil, nil},
	} {
		object := runnerWith(test.finalizers...)
		if test.deleted {
			object.DeletionTimestamp = new(metav1.Now())
		}
		if got := kube.Keepers(object); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

func TestPodIsKeptOnceItsContainersHaveEnded(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: new(metav1.Now()), Finalizers: []string{"a"}},
		Spec:       corev1.PodSpec{NodeName: "n"},
	}
	for phase, kept := range map[corev1.PodPhase]bool{
		corev1.PodPending:   false,
		corev1.PodRunning:   false,
		corev1.PodUnknown:   false,
		corev1.PodSucceeded: true,
		corev1.PodFailed:    true,
	} {
		if pod.Status.Phase = phase; (kube.PodKeepers(pod) != nil) != kept {
			t.Errorf("%s: %v", phase, kube.PodKeepers(pod))
		}
	}
	pod.Status.Phase, pod.Spec.NodeName = corev1.PodPending, ""
	if kube.PodKeepers(pod) == nil {
		t.Error("a pod without a node waits for nothing else")
	}
}

// The time counts for each object from when it was first looked at, and starts anew when it is not.
func TestTimeOfKeptObjects(t *testing.T) {
	var kept kube.Kept
	now := time.Unix(1000, 0)
	look := func(uid types.UID, after time.Duration, want time.Duration) {
		t.Helper()
		now = now.Add(after)
		kept.Begin()
		if got := kept.Look(uid, now); got != want {
			t.Errorf("%s waits %s, want %s", uid, got, want)
		}
	}
	look("a", 0, kube.KeptGrace)
	look("a", kube.KeptGrace-time.Second, time.Second)
	look("a", time.Second, 0)
	look("b", time.Hour, kube.KeptGrace)
	look("a", time.Second, kube.KeptGrace)
}

// However many finalizers there are, and however long, the command is not cut off: a condition has 1024 bytes.
func TestCommandIsNeverCutOff(t *testing.T) {
	longest := strings.Repeat("a", 253) + "/" + strings.Repeat("b", 63)
	key := types.NamespacedName{Namespace: strings.Repeat("n", 63), Name: strings.Repeat("m", 63)}
	for _, finalizers := range [][]string{
		{"example.com/a"}, {longest}, slices.Repeat([]string{longest}, 20),
		slices.Repeat([]string{"f.example.com/x"}, 1000),
		{metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents},
	} {
		text := kube.WhyKept("AutoscalingRunnerSet", key, finalizers)
		if len(text) > 1024 || !strings.HasSuffix(text, `--type merge --patch '{"metadata":{"finalizers":null}}'`) ||
			!strings.Contains(text, finalizers[0]) {
			t.Errorf("%d bytes: %s", len(text), text)
		}
	}
}
