package autoscalingrunnerset_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// A set takes a runner set back that has its labels and no owner that lives, as after a restore from a backup. What
// another set owns it never takes, whatever the labels say.
func TestARunnerSetIsTakenBackFromNobodyOnly(t *testing.T) {
	another := newSet(func(set *v1alpha1.AutoscalingRunnerSet) { set.Name, set.UID = "another", "another" })
	for name, test := range map[string]struct {
		name   string
		owners []metav1.OwnerReference
		taken  bool
	}{
		"no owner":                                  {setKey.Name, nil, true},
		"an owner of an earlier time":               {setKey.Name, kube.OwnedBy(newSet(func(set *v1alpha1.AutoscalingRunnerSet) { set.UID = "former" })), true},
		"no owner, and a name that ARC gave it":     {setKey.Name + "-k7x2m", nil, true},
		"another's, which has given it our labels":  {"another-k7x2m", kube.OwnedBy(another), false},
		"another's, whose labels a listener edited": {"another", kube.OwnedBy(another), false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				restored := &v1alpha1.EphemeralRunnerSet{ObjectMeta: metav1.ObjectMeta{
					Namespace: setKey.Namespace, Name: test.name, UID: "restored", OwnerReferences: test.owners,
					Labels:      kube.ScaleSetLabels(newSet(), v1alpha1.ComponentRunnerSet),
					Finalizers:  []string{v1alpha1.FinalizerEphemeralRunnerSet},
					Annotations: map[string]string{v1alpha1.AnnotationIntegrityHash: "written"},
				}}
				f.create(another.DeepCopy(), restored, newSet())
				f.settle()
				own := 0
				for _, runnerSet := range f.runnerSets() {
					if !metav1.IsControlledBy(&runnerSet, f.set()) {
						continue
					}
					own++
					if taken := runnerSet.UID == "restored"; taken != test.taken {
						t.Errorf("it is taken: %t, want %t", taken, test.taken)
					}
				}
				if own != 1 {
					t.Errorf("the set has %d runner sets, want 1", own)
				}
			})
		})
	}
}

// What another set owns doesn't hide what is to be taken back.
func TestARunnerSetIsTakenBackBesideAnothers(t *testing.T) {
	inBubble(t, func(f *fixture) {
		another := newSet(func(set *v1alpha1.AutoscalingRunnerSet) { set.Name, set.UID = "another", "another" })
		labelled := func(name string, owners []metav1.OwnerReference) *v1alpha1.EphemeralRunnerSet {
			return &v1alpha1.EphemeralRunnerSet{ObjectMeta: metav1.ObjectMeta{
				Namespace: setKey.Namespace, Name: name, OwnerReferences: owners,
				Labels:      kube.ScaleSetLabels(newSet(), v1alpha1.ComponentRunnerSet),
				Finalizers:  []string{v1alpha1.FinalizerEphemeralRunnerSet},
				Annotations: map[string]string{v1alpha1.AnnotationIntegrityHash: "written"},
			}}
		}
		f.create(another, labelled("a-anothers", kube.OwnedBy(another)), labelled("b-lost", nil), newSet())
		f.settle()
		for _, runnerSet := range f.runnerSets() {
			if metav1.IsControlledBy(&runnerSet, f.set()) && runnerSet.Name != "b-lost" {
				t.Errorf("%s is new, though b-lost was to be taken back", runnerSet.Name)
			}
		}
	})
}
