package autoscalinglistener

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// A token dies with its ServiceAccount, and the kubelet gets another only when its hour is nearly over.
func TestPodIsReplacedWithItsServiceAccount(t *testing.T) {
	f := started(t)
	f.made(f.pod(), f.clock.Now())
	f.deleteAccount()
	f.settle()
	if f.pod().Status.Phase != corev1.PodRunning {
		t.Fatal("the pod was replaced before the cache has shown that the account is another one")
	}
	f.made(f.account(), f.clock.Now())
	f.settle()
	if f.pod().Status.Phase != corev1.PodRunning {
		t.Fatal("the pod was replaced, though it is as old as the account")
	}
	f.made(f.account(), f.clock.Now().Add(time.Second))
	f.reconcile()
	if told := controllertest.CountEvents(f.recorder, reasonReplacing); told != 1 {
		t.Errorf("the pod's replacement was told %d times", told)
	}
	f.reconcile()
	f.made(f.pod(), f.clock.Now().Add(time.Second))
	f.run()
	f.settle()
	f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, reasonReady)
}

// A first pass makes the account and the pod at once, before the cache has either.
func TestPodOfANewAccountStays(t *testing.T) {
	f := newFixture(t)
	f.create(newSet(), newListener())
	f.settle()
	f.made(f.account(), f.clock.Now())
	f.made(f.pod(), f.clock.Now())
	f.run()
	f.settle()
	f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, reasonReady)
}

func (f *fixture) account() *corev1.ServiceAccount {
	f.Helper()
	account := &corev1.ServiceAccount{}
	if !f.get(account, key.Namespace, key.Name) {
		f.Fatal("there is no ServiceAccount")
	}
	return account
}

func (f *fixture) deleteAccount() {
	f.Helper()
	if err := f.client.Delete(f.Context(), f.account()); err != nil {
		f.Fatal(err)
	}
}

// made sets when an object was created, which the fake API server leaves open.
func (f *fixture) made(object client.Object, at time.Time) {
	f.Helper()
	object.SetCreationTimestamp(metav1.NewTime(at))
	if err := f.client.Update(f.Context(), object); err != nil {
		f.Fatal(err)
	}
}
