package bystanders_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/bystanders"
)

func podWith(claim string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "runners", Name: "debug", UID: "debug", ResourceVersion: "1",
		Annotations: map[string]string{"large": "and of no interest"}}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "shell"}},
		Volumes: []corev1.Volume{{Name: "cache", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}},
	}}
}

func setNamed(name string) *v1alpha1.EphemeralRunnerSet {
	return &v1alpha1.EphemeralRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "runners", Name: name, UID: types.UID(name)}}
}

// scene is a namespace with one pod, whose list comes after delay.
type scene struct {
	*bystanders.Bystanders
	delay  time.Duration
	lists  int
	events *watch.FakeWatcher
	asked  metav1.ListOptions
	claims map[string][]corev1.Volume
	woken  []string
}

func newScene(delay time.Duration) *scene {
	s := &scene{delay: delay, events: watch.NewFake(), claims: map[string][]corev1.Volume{}}
	s.Bystanders = bystanders.New(bystanders.Options{
		Source: func(_ string, options func(*metav1.ListOptions)) cache.ListerWatcher {
			options(&s.asked)
			return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
				ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
					s.lists++
					<-time.After(s.delay)
					return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []corev1.Pod{*podWith("warm")}}, nil
				},
				WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return s.events, nil },
			}, unstreamed{})
		},
		Tell: func(pod *corev1.Pod, gone bool) {
			if delete(s.claims, pod.Name); !gone {
				s.claims[pod.Name] = pod.Spec.Volumes
			}
			if len(pod.Spec.Containers)+len(pod.Annotations) > 0 {
				panic("more is kept of a pod than its claims")
			}
		},
		Wake: func(set types.NamespacedName) { s.woken = append(s.woken, set.Name) },
	})
	return s
}

// unstreamed is a client whose lists are no watches.
type unstreamed struct{}

func (unstreamed) IsWatchListSemanticsUnSupported() bool { return true }

// Nothing is leased before the pods of the namespace are known. Then the sets that wait are woken; with the last of them
// what is known goes.
func TestPodsBesideSetsAreKnownBeforeTheirClaimsAreLeased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(2 * time.Second)
		if s.Shown(setNamed("a"), time.Now()) || s.Shown(setNamed("b"), time.Now()) {
			t.Error("shown before they were listed")
		}
		controllertest.Elapse(3 * time.Second)
		synctest.Wait()
		if !s.Shown(setNamed("a"), time.Now()) || len(s.woken) != 2 || len(s.claims["debug"]) != 1 || s.lists != 1 {
			t.Errorf("woken %v, claims %v, %d lists", s.woken, s.claims, s.lists)
		}
		if s.asked.LabelSelector != "!actions.github.com/scale-set-name" ||
			s.asked.FieldSelector != "status.phase!=Succeeded,status.phase!=Failed" {
			t.Errorf("asked for %+v", s.asked)
		}
		s.events.Delete(podWith("warm"))
		synctest.Wait()
		if len(s.claims) != 0 {
			t.Error("the pod is gone and still counts")
		}
		s.events.Add(podWith("other"))
		s.Forget("a")
		synctest.Wait()
		if len(s.claims) != 1 {
			t.Error("the second set's pods are not known any more")
		}
		s.Forget("b")
		s.Forget("b")
		synctest.Wait()
		if len(s.claims) != 0 {
			t.Errorf("nobody has claims, and there is kept %v", s.claims)
		}
	})
}

// Without the right to watch pods, or a source, claims are leased all the same.
func TestWithoutTheWatchClaimsAreLeased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(time.Minute)
		if s.Shown(setNamed("a"), time.Now()) {
			t.Error("shown before they were listed")
		}
		controllertest.Elapse(20 * time.Second)
		if !s.Shown(setNamed("a"), time.Now()) {
			t.Error("runners wait for a watch that shows nothing")
		}
		s.Forget("a")
		controllertest.Elapse(2 * time.Minute)
	})
	if !bystanders.New(bystanders.Options{}).Shown(setNamed("a"), time.Now()) {
		t.Error("there is no source, and runners wait for it")
	}
}
