package autoscalinglistener_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalinglistener/listenerpod"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/kube"
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
	f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, "Stopping")
	if !f.exists()["Role"] {
		t.Error("the rights are gone before the listener has ended its session")
	}
	f.elapse(listenerpod.LostTimeout)
	f.settle()
	f.wantCondition(v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonPodTerminating)
	f.releasePod()
	f.settle()
	f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonListenerStopped)
	want := map[string]bool{"pod": false, "config": true, "proxy": false, "ServiceAccount": false, "Role": false,
		"RoleBinding": false, "listener": true}
	if diff := cmp.Diff(want, f.exists()); diff != "" {
		t.Errorf("objects before the deregistration (-want +got):\n%s", diff)
	}
	if series := testutil.CollectAndCount(running(t)); series != 0 {
		t.Error("gha_controller_running_listeners stays at 0 while the deletion waits for jobs, which raises " +
			"HarrierListenerDown")
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
	if series := testutil.CollectAndCount(running(t)); series != 0 {
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
	for name, test := range map[string]struct {
		finalizers []string // of the set, whose id on GitHub is in its annotations to the end
		kept       bool
	}{
		"not released":               {[]string{v1alpha1.FinalizerAutoscalingRunnerSet}, true},
		"released, kept by somebody": {[]string{"example.com/hold"}, false},
		"gone":                       {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := started(t)
			set := f.set()
			set.Finalizers = test.finalizers
			if err := f.client.Update(t.Context(), set); err != nil {
				t.Fatal(err)
			}
			for _, object := range []client.Object{set, f.listener()} {
				if err := f.client.Delete(t.Context(), object); err != nil {
					t.Fatal(err)
				}
			}
			f.settle()
			if left := f.exists(); left["pod"] || left["config"] != test.kept || left["listener"] != test.kept {
				t.Errorf("left %v, want the Secrets: %t", left, test.kept)
			}
			set = &v1alpha1.AutoscalingRunnerSet{}
			if f.get(set, setNamespace, "set") {
				set.Finalizers = nil
				if err := f.client.Update(t.Context(), set); err != nil {
					t.Fatal(err)
				}
			}
			f.settle()
			if left := f.exists(); left["config"] || left["listener"] {
				t.Errorf("left with the set: %v", left)
			}
		})
	}
}

// holding puts a foreign finalizer on one of the listener's objects.
func (f *fixture) holding(object client.Object, namespace, name string) {
	f.Helper()
	if !f.get(object, namespace, name) {
		f.Fatalf("there is no %T %s/%s", object, namespace, name)
	}
	object.SetFinalizers([]string{"example.com/policy"})
	if err := f.client.Update(f.Context(), object); err != nil {
		f.Fatal(err)
	}
}

// An object that somebody's finalizer keeps doesn't keep the listener, but is told: nobody looks at it any more. The
// Event is recorded about the listener, because there it can be created even if the set's namespace is being deleted. A
// finalizer that somebody serves in time is no news.
func TestListenerTellsWhatItLeaves(t *testing.T) {
	for kind, where := range map[string]struct {
		object    client.Object
		namespace string
		suffix    string
	}{
		"ServiceAccount": {&corev1.ServiceAccount{}, managerNamespace, ""}, "Secret": {&corev1.Secret{}, managerNamespace, "-config"},
		"Role": {&rbacv1.Role{}, setNamespace, ""}, "RoleBinding": {&rbacv1.RoleBinding{}, setNamespace, ""},
	} {
		for _, served := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, served %t", kind, served), func(t *testing.T) {
				f := started(t)
				name := f.listener().Name
				f.holding(where.object, where.namespace, name+where.suffix)
				controllertest.Events(f.recorder)
				if err := f.client.Delete(t.Context(), f.listener()); err != nil {
					t.Fatal(err)
				}
				f.settle()
				f.elapse(kube.KeptGrace - time.Second)
				f.settle()
				if !f.exists()["listener"] {
					t.Fatal("the listener is gone before anybody could be told what it leaves")
				}
				if served && f.get(where.object, where.namespace, name+where.suffix) {
					where.object.SetFinalizers(nil)
					if err := f.client.Update(t.Context(), where.object); err != nil {
						t.Fatal(err)
					}
				}
				f.elapse(2 * time.Second)
				f.settle()
				if f.exists()["listener"] {
					t.Error("the listener is left")
				}
				told := 0
				for _, event := range controllertest.Events(f.recorder) {
					if strings.Contains(event, v1alpha1.ReasonForeignFinalizers) &&
						strings.Contains(event, kind+" "+where.namespace) &&
						strings.Contains(event, "kubectl patch "+strings.ToLower(kind)) {
						told++
					}
				}
				if want := map[bool]int{true: 0, false: 2}[served]; told != want {
					t.Errorf("%d Events, want %d: about the listener and about the set", told, want)
				}
			})
		}
	}
}

// A pod whose containers have ended is told after less than a minute, not only when a node would have had its time.
func TestEndedPodThatIsKeptIsTold(t *testing.T) {
	f := started(t)
	f.holdPod()
	f.podStatus(func(status *corev1.PodStatus) { status.Phase = corev1.PodSucceeded })
	if err := f.client.Delete(t.Context(), f.listener()); err != nil {
		t.Fatal(err)
	}
	f.settle()
	f.elapse(kube.KeptGrace)
	f.settle()
	f.wantCondition(v1alpha1.ConditionDeletionBlocked, metav1.ConditionTrue, v1alpha1.ReasonPodTerminating)
}
