package reconcile_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/harrier-ci/harrier/internal/reconcile"
)

func TestResult(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	terminating := apierrors.NewForbidden(pods, "pod", errors.New("terminating"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, test := range map[string]struct {
		err   error
		after time.Duration
		fails bool
	}{
		"nothing wrong": {nil, 2 * time.Second, false},
		"conflict": {
			fmt.Errorf("patch: %w", apierrors.NewConflict(pods, "pod", errors.New("old"))), time.Second, false,
		},
		"two that are behind": {
			errors.Join(apierrors.NewConflict(pods, "pod", errors.New("old")), apierrors.NewAlreadyExists(pods, "pod")),
			time.Second, false,
		},
		"one that is not, wrapped": {
			fmt.Errorf(
				"delete: %w", errors.Join(apierrors.NewConflict(pods, "pod", errors.New("old")), errors.New("broken")),
			),
			0, true,
		},
		"one that is not": {
			errors.Join(apierrors.NewConflict(pods, "pod", errors.New("old")), errors.New("broken")), 0, true,
		},
		"exists":                {apierrors.NewAlreadyExists(pods, "pod"), time.Second, false},
		"namespace terminating": {terminating, 0, false},
		"forbidden":             {apierrors.NewForbidden(pods, "pod", errors.New("no Role")), 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			var requeue reconcile.Earliest
			requeue.After(time.Minute)
			requeue.After(2 * time.Second)
			requeue.After(time.Hour)
			got, err := requeue.Result(test.err)
			if got.RequeueAfter != test.after || (err != nil) != test.fails {
				t.Errorf("Result() = %s, %v; want %s, error %t", got.RequeueAfter, err, test.after, test.fails)
			}
		})
	}
}

func TestBackoff(t *testing.T) {
	for failures, want := range map[int]time.Duration{
		-1:      0,
		0:       0,
		1:       time.Second,
		2:       2 * time.Second,
		4:       8 * time.Second,
		5:       10 * time.Second,
		1 << 30: 10 * time.Second,
	} {
		if got := reconcile.Backoff(time.Second, 10*time.Second, failures); got != want {
			t.Errorf("Backoff() after %d failures = %s, want %s", failures, got, want)
		}
	}
}
