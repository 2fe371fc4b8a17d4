package autoscalingrunnerset_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/kube"
)

// listenerNamed returns a listener with the labels of the set in a namespace, which a manager has served.
func listenerNamed(name, namespace string) *v1alpha1.AutoscalingListener {
	return &v1alpha1.AutoscalingListener{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: managerNamespace, Name: name, Finalizers: []string{v1alpha1.FinalizerAutoscalingListener},
			Labels: map[string]string{v1alpha1.LabelScaleSetName: setKey.Name,
				v1alpha1.LabelScaleSetNamespace: namespace},
		},
		Spec: v1alpha1.AutoscalingListenerSpec{AutoscalingRunnerSetNamespace: namespace,
			AutoscalingRunnerSetName: setKey.Name, Image: "theirs:1"},
	}
}

// own returns the listeners that have the set's labels.
func (f *fixture) own() (own []v1alpha1.AutoscalingListener) {
	f.Helper()
	for _, listener := range f.listeners() {
		if kube.LabelledSet(&listener) == setKey {
			own = append(own, listener)
		}
	}
	return own
}

// wantUnchanged fails unless the listeners are as they were created.
func (f *fixture) wantUnchanged(listeners ...*v1alpha1.AutoscalingListener) {
	f.Helper()
	for _, before := range listeners {
		now := &v1alpha1.AutoscalingListener{}
		if err := f.client.Get(f.Context(), client.ObjectKeyFromObject(before), now); err != nil {
			f.Fatal(err)
		}
		if diff := cmp.Diff(before.ObjectMeta, now.ObjectMeta) + cmp.Diff(before.Spec, now.Spec); diff != "" {
			f.Errorf("AutoscalingListener %s (-before +after):\n%s", before.Name, diff)
		}
	}
}

// unlabelled takes the labels away.
func unlabelled(listener *v1alpha1.AutoscalingListener) *v1alpha1.AutoscalingListener {
	listener.Labels = nil
	return listener
}

// A listener of another set that has the name is not written, whoever gave it the name.
func TestTakenListenerNameIsAvoided(t *testing.T) {
	for name, other := range map[string]func(string) *v1alpha1.AutoscalingListener{
		"another set's": func(name string) *v1alpha1.AutoscalingListener { return listenerNamed(name, "tenant-b") },
		"nobody's":      func(name string) *v1alpha1.AutoscalingListener { return unlabelled(listenerNamed(name, setNamespace)) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				names := kube.ListenerNames(newSet())
				taken := other(names[0])
				f.create(newSet(), taken)
				f.settle()
				f.wantUnchanged(taken)
				if own := f.own(); len(own) != 1 || own[0].Name != names[1] {
					t.Errorf("own listeners: %+v", own)
				}
			})
		})
	}
}

// With all names taken the set says so, touches nothing, and has its listener as soon as one is free.
func TestAllListenerNamesTaken(t *testing.T) {
	inBubble(t, func(f *fixture) {
		names := kube.ListenerNames(newSet())
		one, other := listenerNamed(names[0], "tenant-b"), unlabelled(listenerNamed(names[1], setNamespace))
		f.create(newSet(), one, other)
		f.settle()
		f.wantUnchanged(one, other)
		f.wantCondition(v1alpha1.ConditionListenerReady, metav1.ConditionFalse, v1alpha1.ReasonListenerNameTaken)
		if said := meta.FindStatusCondition(f.set().Status.Conditions,
			v1alpha1.ConditionListenerReady).Message; !strings.Contains(said, names[0]) ||
			!strings.Contains(said, names[1]) {
			t.Errorf("ListenerReady says %q", said)
		}
		if wait := f.reconcile().RequeueAfter; wait > takenRetryInterval {
			t.Errorf("the next attempt comes after %s", wait)
		}
		other.Finalizers = nil
		if err := f.client.Update(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		if err := f.client.Delete(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		f.settle()
		if own := f.own(); len(own) != 1 || own[0].Name != names[1] {
			t.Errorf("own listeners: %+v", own)
		}
		f.wantCondition(v1alpha1.ConditionListenerReady, metav1.ConditionUnknown, reasonListenerStarting)
	})
}

// The set's listener exists already, but the cache doesn't show it yet: no second one is created.
func TestListenerThatTheCacheLacksIsNotCreatedTwice(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet())
		f.settle()
		f.intercept.List = func(
			ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption,
		) error {
			if _, listeners := list.(*v1alpha1.AutoscalingListenerList); listeners {
				return nil
			}
			return c.List(ctx, list, options...)
		}
		f.restart()
		before := f.listeners()
		if wait := f.reconcile().RequeueAfter; wait != time.Second {
			t.Errorf("the next pass comes after %s, want a second, by which the cache has caught up", wait)
		}
		if diff := cmp.Diff(before, f.listeners()); diff != "" {
			t.Errorf("listeners (-before +after):\n%s", diff)
		}
	})
}

// Listeners that exist keep their names, whether ARC gave them or they are from another address.
func TestListenerKeepsItsName(t *testing.T) {
	for _, name := range []string{kube.ARCListenerName(newSet()), "set-of-another-address-listener"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.create(newSet(), listenerNamed(name, setNamespace))
				f.settle()
				own := f.listeners()
				if len(own) != 1 || own[0].Name != name || own[0].Spec.Image != "controller:1" ||
					own[0].Annotations[v1alpha1.AnnotationIntegrityHash] == "" {
					t.Errorf("listeners: %+v", own)
				}
				f.edit(func(set *v1alpha1.AutoscalingRunnerSet) { set.Spec.GitHubConfigUrl += "/repository" })
				f.settle()
				if own := f.listeners(); len(own) != 1 || own[0].Name != name ||
					own[0].Spec.GitHubConfigUrl != address+"/repository" {
					t.Errorf("listeners at another address: %+v", own)
				}
			})
		})
	}
}

// Nobody but the finalizer says of a listener that it is the manager's own if its set is deleted before a cache shows it.
func TestListenerHasItsFinalizerFromItsCreation(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet())
		f.settle()
		if got := f.listeners()[0].Finalizers; !slices.Equal(got, []string{v1alpha1.FinalizerAutoscalingListener}) {
			t.Errorf("finalizers %v", got)
		}
	})
}

// Of two that were served one goes, as after ARC gave one a new name. One that somebody else has labelled as the set's
// is neither used nor deleted.
func TestOtherListenersWithTheSetsLabels(t *testing.T) {
	inBubble(t, func(f *fixture) {
		handmade := listenerNamed("handmade", setNamespace)
		handmade.Finalizers, handmade.CreationTimestamp = nil, metav1.Now()
		former := listenerNamed("former", setNamespace)
		f.holds = true
		f.create(newSet(), former, listenerNamed(kube.ARCListenerName(newSet()), setNamespace), handmade)
		f.settle()
		f.wantUnchanged(handmade)
		deleting := map[string]bool{}
		for _, listener := range f.listeners() {
			deleting[listener.Name] = listener.DeletionTimestamp != nil
		}
		want := map[string]bool{"former": true, "handmade": false, kube.ARCListenerName(newSet()): false}
		if diff := cmp.Diff(want, deleting); diff != "" {
			t.Errorf("which is being deleted (-want +got):\n%s", diff)
		}
	})
}

// A listener's spec can't make the manager read credentials in another namespace than the set's.
func TestReferenceOfAListenerIsInTheSetsNamespace(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.working()
		var sent []string
		f.way.Connections = watched{f.github, &sent}
		const former = "https://github.com/former"
		f.github.Sets[former] = map[int]actions.RunnerScaleSet{7: labelled(7, "set", 1, "set")}
		listener, set := f.listeners()[0], f.set()
		listener.Spec.GitHubConfigUrl, listener.Spec.AutoscalingRunnerSetNamespace = former, "tenant-b"
		f.put(&listener)
		set.Status.Registration.URL, set.Status.Registration.ID = former, 7 // so that it is one to be deleted
		f.updateStatus(set)
		f.settle()
		f.settle()
		slices.Sort(sent)
		if diff := cmp.Diff([]string{"arc-runners/github to " + former}, slices.Compact(sent)); diff != "" ||
			len(f.github.Sets[former]) > 0 {
			t.Errorf("references (-want +got):\n%s\nleft there: %+v", diff, f.github.Sets[former])
		}
	})
}

// tracked are the labels by which Argo CD, kubectl's ApplySets, kapp, Flux, Helm and Fleet know an AutoscalingRunnerSet
// that they have installed, and whether its EphemeralRunnerSet has them, too: not if the tool deletes objects that have
// an owner.
var tracked = map[string]bool{
	"app.kubernetes.io/instance": true, "argocd.argoproj.io/instance": true, "kustomize.toolkit.fluxcd.io/name": true,
	"helm.toolkit.fluxcd.io/name":  true,
	"app.kubernetes.io/managed-by": true, "helm.sh/chart": true,
	"applyset.kubernetes.io/part-of": false, "kapp.k14s.io/app": false, "objectset.rio.cattle.io/hash": false,
	"configsync.gke.io/declared-version": false,
}

// The listener is in another namespace than its set and has no owner: a tool that finds its label there deletes it as
// something that it has not installed. Labels that come later, and those that ARC has copied, don't stay either; other
// labels do, as do those in the namespace of the set, where everything has an owner.
func TestListenerDoesNotInheritWhatInstallersPruneBy(t *testing.T) {
	for name, takenOver := range map[string]bool{"labels that are added later": false,
		"labels that ARC has copied": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.create(newSet())
				f.settle()
				f.edit(func(s *v1alpha1.AutoscalingRunnerSet) {
					for key := range tracked {
						kube.SetAnnotation(s, key, "app")
						s.Labels[key] = "app"
					}
				})
				if takenOver {
					listener, runnerSet := f.listeners()[0], f.runnerSets()[0]
					for key := range tracked {
						listener.Labels[key], runnerSet.Labels[key] = "app", "app"
					}
					f.put(&listener)
					f.put(&runnerSet)
				}
				f.settle()
				listener, runnerSet := f.listeners()[0], f.runnerSets()[0]
				for key, stays := range tracked {
					if value, has := listener.Labels[key]; has {
						t.Errorf("the listener has %s=%s", key, value)
					}
					if got := runnerSet.Labels[key] != ""; got != stays {
						t.Errorf("the runner set has %s: %t, want %t", key, got, stays)
					}
					if listener.Annotations[key] != "" || runnerSet.Annotations[key] != "" {
						t.Errorf("an object has the annotation %s", key)
					}
				}
				if listener.Labels["team"] != "build" || runnerSet.Labels["team"] != "build" {
					t.Errorf("labels %v and %v, want the set's own", listener.Labels, runnerSet.Labels)
				}
			})
		})
	}
}
