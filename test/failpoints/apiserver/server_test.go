package apiserver_test

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube/kinds"
	"github.com/harrier-ci/harrier/test/failpoints/apiserver"
)

// inBubble runs a test with a client of an empty server.
func inBubble(t *testing.T, test func(t *testing.T, server *apiserver.Server, c client.WithWatch)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := apiserver.New()
		c, err := client.NewWithWatch(server.Config(server), client.Options{Scheme: kinds.Scheme(), Mapper: kinds.Mapper()})
		if err != nil {
			t.Fatal(err)
		}
		test(t, server, c)
	})
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "n", Name: name} }

func TestWhoWritesTooLateHasAConflict(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *apiserver.Server, c client.WithWatch) {
		set := &v1alpha1.EphemeralRunnerSet{ObjectMeta: named("set")}
		check(t, c.Create(t.Context(), set))
		late := set.DeepCopy()
		set.Spec.Replicas = 3
		check(t, c.Update(t.Context(), set))
		if set.Generation != 2 {
			t.Errorf("generation is %d after a change of the spec, want 2", set.Generation)
		}
		late.Spec.Replicas = 4
		if err := c.Update(t.Context(), late); !apierrors.IsConflict(err) {
			t.Errorf("the late write has %v", err)
		}
		set.Status.CurrentReplicas, set.Spec.Replicas = 1, 9
		check(t, c.Status().Update(t.Context(), set))
		check(t, c.Get(t.Context(), client.ObjectKeyFromObject(set), set))
		if set.Spec.Replicas != 3 || set.Status.CurrentReplicas != 1 || set.Generation != 2 {
			t.Errorf("a write of the status made it %+v", set)
		}
		same := client.Preconditions{UID: &set.UID}
		check(t, c.Delete(t.Context(), set, same))
		if err := c.Delete(t.Context(), set); !apierrors.IsNotFound(err) {
			t.Errorf("a second deletion has %v", err)
		}
	})
}

func TestFinalizersHoldAnObjectAndItsDependents(t *testing.T) {
	inBubble(t, func(t *testing.T, server *apiserver.Server, c client.WithWatch) {
		owner := &corev1.ConfigMap{ObjectMeta: named("owner")}
		owner.Finalizers = []string{"example.com/held"}
		check(t, c.Create(t.Context(), owner))
		dependent := &corev1.Secret{ObjectMeta: named("dependent"), StringData: map[string]string{"key": "value"}}
		dependent.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: owner.UID}}
		check(t, c.Create(t.Context(), dependent))
		if string(dependent.Data["key"]) != "value" {
			t.Errorf("the Secret has %q", dependent.Data)
		}
		check(t, c.Delete(t.Context(), owner))
		<-time.After(time.Minute)
		if objects := server.Objects(); len(objects["configmaps"]) != 1 || len(objects["secrets"]) != 1 {
			t.Errorf("with a finalizer %d and %d are left", len(objects["configmaps"]), len(objects["secrets"]))
		}
		check(t, c.Get(t.Context(), client.ObjectKeyFromObject(owner), owner))
		owner.Finalizers = nil
		check(t, c.Update(t.Context(), owner))
		<-time.After(time.Minute)
		if objects := server.Objects(); len(objects["configmaps"])+len(objects["secrets"]) != 0 {
			t.Errorf("without it %d and %d are left", len(objects["configmaps"]), len(objects["secrets"]))
		}
	})
}

// A watch tells in order what has happened since a version, and an object that is selected no longer is gone for it.
func TestAWatchResumes(t *testing.T) {
	inBubble(t, func(t *testing.T, server *apiserver.Server, c client.WithWatch) {
		server.Lag = func(string) time.Duration { return time.Second }
		pods := &corev1.PodList{}
		check(t, c.List(t.Context(), pods))
		pod := &corev1.Pod{ObjectMeta: named("pod")}
		pod.Labels = map[string]string{"app": "a"}
		check(t, c.Create(t.Context(), pod))
		pod.Labels = map[string]string{"app": "b"}
		check(t, c.Update(t.Context(), pod))
		begun := time.Now()
		events, err := c.Watch(t.Context(), &corev1.PodList{}, client.MatchingLabels{"app": "a"},
			&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: pods.ResourceVersion}})
		check(t, err)
		defer events.Stop()
		for _, want := range []watch.EventType{watch.Added, watch.Deleted} {
			if got := (<-events.ResultChan()).Type; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		if late := time.Since(begun); late != time.Second {
			t.Errorf("the watch is %s late, want 1s", late)
		}
	})
}
