package autoscalinglistener

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

func (f *fixture) set() *v1alpha1.AutoscalingRunnerSet {
	f.Helper()
	set := &v1alpha1.AutoscalingRunnerSet{}
	if !f.get(set, setNamespace, "set") {
		f.Fatal("the AutoscalingRunnerSet is gone")
	}
	return set
}

func TestSecretsOutliveThePodUntilTheDeregistration(t *testing.T) {
	f := started(t)
	f.holdPod()
	if err := f.client.Delete(t.Context(), f.set()); err != nil {
		t.Fatal(err)
	}
	if err := f.client.Delete(t.Context(), f.listener()); err != nil {
		t.Fatal(err)
	}
	f.settle()
	f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, reasonStopping)
	if !f.exists()["Role"] {
		t.Error("the rights are gone before the listener has ended its session")
	}
	f.elapse(lostAfter)
	f.settle()
	f.wantCondition(v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonPodTerminating)
	f.releasePod()
	f.settle()
	f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonListenerStopped)
	want := map[string]bool{"pod": false, "config": true, "proxy": false, "ServiceAccount": false, "Role": false, "RoleBinding": false, "listener": true}
	if diff := cmp.Diff(want, f.exists()); diff != "" {
		t.Errorf("objects before the deregistration (-want +got):\n%s", diff)
	}
	if series := testutil.CollectAndCount(running); series != 0 {
		t.Error("gha_controller_running_listeners stays at 0 while the deletion waits for jobs, which raises HarrierListenerDown")
	}

	set := f.set()
	delete(set.Annotations, v1alpha1.AnnotationRunnerScaleSetID)
	if err := f.client.Update(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	f.settle()
	for object, exists := range f.exists() {
		if exists {
			t.Errorf("%s is left", object)
		}
	}
	if series := testutil.CollectAndCount(running); series != 0 {
		t.Errorf("%d series of gha_controller_running_listeners are left", series)
	}
}

func TestListenerDeletedByHandGoesAtOnce(t *testing.T) {
	f := started(t)
	if err := f.client.Delete(t.Context(), f.listener()); err != nil {
		t.Fatal(err)
	}
	f.settle()
	for object, exists := range f.exists() {
		if exists {
			t.Errorf("%s is left", object)
		}
	}
}

func TestDeregistrationEndsWithTheSet(t *testing.T) {
	set := newSet()
	deleted := metav1.Now()
	set.DeletionTimestamp = &deleted
	if !deregistrationPending(set) {
		t.Error("a set in deletion with an id on GitHub needs the listener's Secrets")
	}
	set.Finalizers = nil
	if deregistrationPending(set) || deregistrationPending(nil) {
		t.Error("a set that was released needs no Secrets any more")
	}
}
