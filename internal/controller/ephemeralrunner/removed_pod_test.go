package ephemeralrunner_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The API server has removed a pod, or was about to, while the cache still shows it.

// The event of the pod's deletionTimestamp comes before the one of its end. A runner that is deleted with its
// finalizers is written twice.
func TestFinalizersGoBeforeTheRunnerThoughTheCacheStillShowsItsPod(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.started()
		f.setStatus(jobDone)
		f.setPod(exits(0))
		ended, runner := f.pod(), f.runner()
		f.api.sent()
		f.reconcile()
		if sent := f.api.sent(); sent != "delete Pod" {
			t.Fatalf("the first pass sends %q, want the pod's deletion alone", sent)
		}
		ended.DeletionTimestamp = &metav1.Time{Time: noon}
		f.cache.Client = staleCache{f.api, runner, ended}
		f.reconcile()
		if sent := f.api.sent(); !strings.HasSuffix(sent, "patch EphemeralRunner, delete EphemeralRunner") {
			t.Errorf("the next pass sends %q, want the finalizers removed before the deletion", sent)
		}
		f.cache.Client = f.api
		f.reconcile()
		f.wantGone()
	}, newRunner())
}

// The manager was killed while it deleted the pod: the API server has recorded that the pod is to go immediately, and
// no more. The next manager doesn't wait for it.
func TestTheNextManagerFinishesAnInterruptedDeletion(t *testing.T) {
	for name, test := range map[string]struct {
		grace   int64 // seconds
		keptBy  []string
		deletes bool
	}{
		"interrupted":         {deletes: true},
		"left to the kubelet": {grace: 30},
		"kept by a finalizer": {keptBy: []string{"test/keeper"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.started()
				f.setStatus(jobDone)
				f.setPod(exits(0))
				shown := f.pod()
				shown.DeletionTimestamp, shown.DeletionGracePeriodSeconds, shown.Finalizers = new(metav1.Now()),
					&test.grace,
					test.keptBy
				f.restart()
				f.cache.Client = staleCache{f.api, f.runner(), shown}
				f.api.sent()
				f.reconcile()
				if deletes := strings.Contains(f.api.sent(), "delete Pod"); deletes != test.deletes {
					t.Errorf("deletes the pod: %t, want %t", deletes, test.deletes)
				}
			}, newRunner())
		})
	}
}
