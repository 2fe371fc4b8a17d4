package ephemeralrunner

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What happens after the API server has removed a pod at once, while the cache still shows it.

// The event of the pod's deletionTimestamp comes before the one of its end. A runner that is deleted with its finalizers is
// written twice.
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
		f.controller.options.Client = staleCache{f.api, runner, ended}
		f.reconcile()
		if sent := f.api.sent(); !strings.HasSuffix(sent, "patch EphemeralRunner, delete EphemeralRunner") {
			t.Errorf("the next pass sends %q, want the finalizers removed before the deletion", sent)
		}
		f.controller.options.Client = f.api
		f.reconcile()
		f.wantGone()
	}, newRunner())
}
