package autoscalinglistener

import (
	"testing"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// The pods of a former listener of its name failed; its own may start at once.
func TestRecreatedListenerDoesNotWaitForTheFormersBackOff(t *testing.T) {
	f := started(t)
	f.fail("a")
	if f.pod() != nil {
		t.Fatal("the former listener's next pod started at once")
	}
	f.edit(func(listener *v1alpha1.AutoscalingListener) { listener.Finalizers = nil })
	if err := f.client.Delete(t.Context(), f.listener()); err != nil {
		t.Fatal(err)
	}
	f.create(newListener(func(listener *v1alpha1.AutoscalingListener) { listener.UID = "recreated-uid" }))
	f.settle()
	if f.pod() == nil {
		t.Errorf("the recreated listener has no pod: %+v", f.listener().Status.Conditions)
	}
}
