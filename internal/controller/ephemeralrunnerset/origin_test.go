package ephemeralrunnerset_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/kube"
)

// registeredOrigin is an AutoscalingRunnerSet with a scale set, as a user writes it and the manager has registered it.
func registeredOrigin() *v1alpha1.AutoscalingRunnerSet {
	origin := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: setKey.Namespace, Name: "set", UID: "origin", Labels: map[string]string{"team": "a"},
	}}
	origin.Spec.GitHubConfigUrl, origin.Spec.GitHubConfigSecret, origin.Spec.MaxRunners = "https://github.com/acme",
		"github", new(10)
	origin.Spec.Template.Spec.Containers = []corev1.Container{{Name: v1alpha1.RunnerContainerName, Image: "runner:2.338.0"}}
	origin.Status.Registration = &v1alpha1.ScaleSetRegistration{URL: "https://github.com/acme", ID: 7}
	return origin
}

// setOf returns the runner set that the manager writes for an AutoscalingRunnerSet.
func setOf(origin *v1alpha1.AutoscalingRunnerSet) *v1alpha1.EphemeralRunnerSet {
	return newSet(2, func(set *v1alpha1.EphemeralRunnerSet) {
		set.Labels["team"] = "a"
		set.Spec.MaxRunners = origin.Spec.MaxRunners
		set.Spec.EphemeralRunnerSpec = *new(kube.RunnerSpec(origin, 7)).DeepCopy()
	})
}

// Each change is one that a listener's account may write: the API server has no right for single fields.
var listenersChanges = map[string]func(*v1alpha1.EphemeralRunnerSet){
	"another account": func(set *v1alpha1.EphemeralRunnerSet) {
		set.Spec.EphemeralRunnerSpec.PodSpec.ServiceAccountName = "admin"
	},
	"another image": func(set *v1alpha1.EphemeralRunnerSet) {
		set.Spec.EphemeralRunnerSpec.PodSpec.Containers[0].Image = "evil:1"
	},
	"a further container": func(set *v1alpha1.EphemeralRunnerSet) {
		spec := &set.Spec.EphemeralRunnerSpec.PodSpec
		spec.Containers = append(spec.Containers, corev1.Container{Name: "evil", Image: "evil:1"})
	},
	"another address": func(set *v1alpha1.EphemeralRunnerSet) {
		set.Spec.EphemeralRunnerSpec.GitHubConfigUrl = "https://evil.example.com/acme"
	},
	"other credentials": func(set *v1alpha1.EphemeralRunnerSet) { set.Spec.EphemeralRunnerSpec.GitHubConfigSecret = "other" },
	"another scale set": func(set *v1alpha1.EphemeralRunnerSet) { set.Spec.EphemeralRunnerSpec.RunnerScaleSetID = 8 },
	"metadata of runners": func(set *v1alpha1.EphemeralRunnerSet) {
		set.Spec.EphemeralRunnerMetadata = &v1alpha1.ResourceMeta{Labels: map[string]string{"identity": "admin"}}
	},
	"no owner": func(set *v1alpha1.EphemeralRunnerSet) { set.OwnerReferences = nil },
	"an owner of the same name": func(set *v1alpha1.EphemeralRunnerSet) {
		set.OwnerReferences[0].UID = "another"
	},
}

func TestNoRunnerIsCreatedFromARunnerSetThatWasChanged(t *testing.T) {
	for name, change := range listenersChanges {
		t.Run(name, func(t *testing.T) {
			origin := registeredOrigin()
			set := setOf(origin)
			set.OwnerReferences = kube.OwnedBy(origin)
			asWritten := set.DeepCopy()
			change(set)
			inBubble(t, func(f *fixture) {
				f.ownOrigin = true
				f.reconcile()
				f.wantRunners(0)
				if meta.FindStatusCondition(f.set().Status.Conditions, v1alpha1.ConditionDegraded) != nil {
					t.Error("the condition is set at once; a change of the AutoscalingRunnerSet makes the two differ " +
						"for a moment, too")
				}
				controllertest.Elapse(differsPatience)
				f.reconcile()
				f.wantRunners(0)
				degraded := meta.FindStatusCondition(f.set().Status.Conditions, v1alpha1.ConditionDegraded)
				if degraded == nil || degraded.Reason != v1alpha1.ReasonRunnerSpecDiffers {
					t.Errorf("Degraded is %v", degraded)
				}
				if f.asked+f.lookedUp > 0 {
					t.Error("GitHub was asked with what the changed set says")
				}

				restored := f.set()
				restored.Spec, restored.OwnerReferences = asWritten.Spec, asWritten.OwnerReferences
				if err := f.api.Update(f.Context(), restored); err != nil {
					t.Fatal(err)
				}
				f.reconcile()
				f.wantRunners(2)
				controllertest.Elapse(reportPeriod)
				f.reconcile()
				if meta.IsStatusConditionTrue(f.set().Status.Conditions, v1alpha1.ConditionDegraded) {
					t.Error("still Degraded after it was restored")
				}
			}, set, origin)
		})
	}
}

// Nobody gets more runners than the AutoscalingRunnerSet allows by raising the runner set's maximum. A lower one
// doesn't stop the set while something else keeps the runner set from following.
func TestTheLowerMaximumCounts(t *testing.T) {
	for name, most := range map[string]*int{"none": nil, "a higher one": new(11)} {
		t.Run(name, func(t *testing.T) {
			origin := registeredOrigin()
			set := setOf(origin)
			set.OwnerReferences = kube.OwnedBy(origin)
			set.Spec.MaxRunners, set.Spec.Replicas, set.Spec.AssignedJobs = most, 12, 12
			inBubble(t, func(f *fixture) {
				f.ownOrigin = true
				f.reconcile()
				f.wantRunners(10)
			}, set, origin)
		})
	}
}

// A version that recorded no hash has left the runner set at the former address, and everything else as the spec has
// it.
func TestRunnersGoOnAfterAnUpgradeDuringAMove(t *testing.T) {
	origin := registeredOrigin()
	set := setOf(origin)
	set.OwnerReferences = kube.OwnedBy(origin)
	origin.Spec.GitHubConfigUrl = "https://github.com/new"
	inBubble(t, func(f *fixture) {
		f.ownOrigin = true
		f.reconcile()
		f.wantRunners(2)
	}, set, origin)
}

// While a new address has not proven itself, the set goes on at the former one with what it was given last.
func TestRunnersGoOnWhileANewAddressIsNotProven(t *testing.T) {
	origin := registeredOrigin()
	set := setOf(origin)
	set.OwnerReferences = kube.OwnedBy(origin)
	origin.Status.RunnerSpecHash = kube.RunnerSpecHash(&set.Spec)
	origin.Spec.GitHubConfigUrl, origin.Spec.GitHubConfigSecret = "https://github.com/new", "new"
	inBubble(t, func(f *fixture) {
		f.ownOrigin = true
		f.reconcile()
		f.wantRunners(2)
	}, set, origin)
}

// A set that ARC registered has the scale set's id in an annotation until the manager has asked GitHub.
func TestARunnerSetTakenOverFromARCIsUsed(t *testing.T) {
	origin := registeredOrigin()
	set := setOf(origin)
	set.OwnerReferences = kube.OwnedBy(origin)
	origin.Status.Registration = nil
	origin.Annotations = map[string]string{v1alpha1.AnnotationRunnerScaleSetID: "7"}
	inBubble(t, func(f *fixture) {
		f.ownOrigin = true
		f.reconcile()
		f.wantRunners(2)
	}, set, origin)
}

// Runners pass their labels on to pods, where one can select a network policy or a cloud identity.
func TestRunnersInheritOnlyLabelsThatTheSetWasGiven(t *testing.T) {
	origin := registeredOrigin()
	origin.Spec.EphemeralRunnerSetMetadata = &v1alpha1.ResourceMeta{Labels: map[string]string{"cost-center": "4"}}
	set := setOf(origin)
	set.OwnerReferences = kube.OwnedBy(origin)
	set.Labels["cost-center"] = "4"
	set.Labels[v1alpha1.LabelOrganization] = "acme"
	// What a listener adds or changes:
	set.Labels[v1alpha1.LabelRepository] = "secrets"
	set.Labels["azure.workload.identity/use"] = "true"
	set.Labels["team"] = "b"
	set.Labels[v1alpha1.LabelScaleSetName] = "other"
	inBubble(t, func(f *fixture) {
		f.ownOrigin = true
		f.reconcile()
		f.wantRunners(2)
		want := client.MatchingLabels{
			"cost-center": "4", v1alpha1.LabelOrganization: "acme", v1alpha1.LabelScaleSetName: "set",
			v1alpha1.LabelScaleSetNamespace: setKey.Namespace,
			v1alpha1.LabelComponent:         v1alpha1.ComponentRunner, v1alpha1.LabelPartOf: v1alpha1.PartOfScaleSet,
		}
		for _, runner := range f.runners() {
			if len(runner.Labels) != len(want) {
				t.Errorf("labels of runner %s are %v, want %v", runner.Name, runner.Labels, want)
			}
			for key, value := range want {
				if runner.Labels[key] != value {
					t.Errorf("label %s of runner %s is %q, want %q", key, runner.Name, runner.Labels[key], value)
				}
			}
		}
	}, set, origin)
}
