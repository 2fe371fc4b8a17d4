package autoscalingrunnerset_test

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset"
	"github.com/harrier-ci/harrier/internal/kube"
)

func TestSetBecomesReady(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet(func(s *v1alpha1.AutoscalingRunnerSet) {
			s.Spec.MinRunners, s.Spec.MaxRunners = new(1), new(7)
			s.Spec.RunnerScaleSetLabels = []string{"linux"}
		}))
		f.settle()
		f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, reasonListenerStarting)
		f.listening()
		f.settle()

		set := f.set()
		want := &v1alpha1.ScaleSetRegistration{URL: address, Group: "Default", Name: "set", ID: 1}
		if diff := cmp.Diff(want, set.Status.Registration); diff != "" {
			t.Errorf("status.registration (-want +got):\n%s", diff)
		}
		if got := set.Annotations[v1alpha1.AnnotationRunnerScaleSetID]; got != "1" {
			t.Errorf("annotation with the id = %q, want 1", got)
		}
		if set.Labels[v1alpha1.LabelOrganization] != "my-org" ||
			set.Status.Phase != v1alpha1.AutoscalingRunnerSetPhaseRunning {
			t.Errorf("organization label %q, phase %q", set.Labels[v1alpha1.LabelOrganization], set.Status.Phase)
		}
		for _, conditionType := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionScaleSetRegistered,
			v1alpha1.ConditionCredentialsValid, v1alpha1.ConditionListenerReady, v1alpha1.ConditionLabelsInSync,
			v1alpha1.ConditionVersionSupported} {
			if !slices.ContainsFunc(set.Status.Conditions,
				func(c metav1.Condition) bool { return c.Type == conditionType && c.Status == metav1.ConditionTrue }) {
				t.Errorf("condition %s is not True in %+v", conditionType, set.Status.Conditions)
			}
		}
		if diff := cmp.Diff([]string{"find", "create"}, f.github.Made()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

func TestSetMakesRunnerSetAndListener(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet(func(s *v1alpha1.AutoscalingRunnerSet) {
			s.Spec.MaxRunners = new(7)
			s.Spec.EphemeralRunnerSetMetadata = &v1alpha1.ResourceMeta{Labels: map[string]string{"extra": "yes",
				v1alpha1.LabelScaleSetName: "nope"}}
		}))
		f.settle()
		runnerSet, listener := f.runnerSets()[0], f.listeners()[0]
		if runnerSet.Name != "set" || *runnerSet.Spec.MaxRunners != 7 ||
			runnerSet.Spec.EphemeralRunnerSpec.RunnerScaleSetID != 1 {
			t.Errorf("EphemeralRunnerSet %s with spec %+v", runnerSet.Name, runnerSet.Spec)
		}
		wantLabels := map[string]string{
			"extra": "yes", "team": "build", v1alpha1.LabelVersion: "1.2.0", v1alpha1.LabelOrganization: "my-org",
			v1alpha1.LabelPartOf: v1alpha1.PartOfScaleSet, v1alpha1.LabelComponent: v1alpha1.ComponentRunnerSet,
			v1alpha1.LabelScaleSetName: "set", v1alpha1.LabelScaleSetNamespace: setNamespace,
		}
		if diff := cmp.Diff(wantLabels, runnerSet.Labels); diff != "" {
			t.Errorf("labels of the EphemeralRunnerSet (-want +got):\n%s", diff)
		}
		if listener.Name != kube.ListenerNames(f.set())[0] || listener.Namespace != managerNamespace ||
			listener.Spec.Image != "controller:1" || listener.Spec.MaxRunners != 7 {
			t.Errorf("AutoscalingListener %s/%s with spec %+v", listener.Namespace, listener.Name, listener.Spec)
		}
	})
}

func TestSettledSetWritesNothing(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet())
		f.settle()
		f.listening()
		f.settle()
		before := []string{f.set().ResourceVersion, f.runnerSets()[0].ResourceVersion, f.listeners()[0].ResourceVersion}
		f.settle()
		after := []string{f.set().ResourceVersion, f.runnerSets()[0].ResourceVersion, f.listeners()[0].ResourceVersion}
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("resource versions of a settled set changed (-before +after):\n%s", diff)
		}
	})
}

func TestMaxRunnersChangesInPlace(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet())
		f.settle()
		runnerSet := f.runnerSets()[0]
		runnerSet.Spec.Replicas, runnerSet.Spec.AssignedJobs = 5, 4
		if err := f.client.Update(t.Context(), &runnerSet); err != nil {
			t.Fatal(err)
		}
		uid := f.listeners()[0].UID
		f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.MaxRunners = new(3) })
		f.settle()
		got := f.runnerSets()[0].Spec
		if *got.MaxRunners != 3 || got.Replicas != 5 || got.AssignedJobs != 4 {
			t.Errorf("spec = %+v, want maxRunners 3 and the listener's fields untouched", got)
		}
		if listeners := f.listeners(); len(listeners) != 1 || listeners[0].UID != uid ||
			listeners[0].Spec.MaxRunners != 3 {
			t.Errorf("listeners = %+v, want the same one changed in place", listeners)
		}
		f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.MaxRunners = nil })
		f.settle()
		if got := f.runnerSets()[0].Spec.MaxRunners; got != nil {
			t.Errorf("maxRunners = %d after it was taken out of the spec", *got)
		}
	})
}

func TestGroupChangeKeepsTheListener(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet())
		f.settle()
		name := f.listeners()[0].Name
		f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.RunnerGroup = "LARGE" })
		f.settle()
		if listeners := f.listeners(); len(listeners) != 1 || listeners[0].Name != name {
			t.Errorf("listeners = %+v, want the one named %s", listeners, name)
		}
		if got := f.set().Status.Registration; got.Group != "large" || got.ID != 1 {
			t.Errorf("registration = %+v, want the same scale set in group large", got)
		}
	})
}

// TestListenerIsToldNumbersThatTheServiceKnows: the schema allows 64 bits.
func TestListenerIsToldNumbersThatTheServiceKnows(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet(func(s *v1alpha1.AutoscalingRunnerSet) {
			s.Spec.MaxRunners, s.Spec.MinRunners = new(1<<32), new(1<<32)
		}))
		f.settle()
		if spec := f.listeners()[0].Spec; spec.MaxRunners != math.MaxInt32 || spec.MinRunners != math.MaxInt32 {
			t.Errorf("maxRunners %d, minRunners %d, want the largest 32-bit integer", spec.MaxRunners, spec.MinRunners)
		}
	})
}

// The manager's limit holds for what is announced to GitHub and for what is created.
func TestLimitForEachSet(t *testing.T) {
	for name, test := range map[string]struct {
		least, most         *int
		wantLeast, wantMost int
	}{
		"nothing set":    {nil, nil, 0, 50},
		"below":          {new(1), new(2), 1, 2},
		"equal":          {new(50), new(50), 50, 50},
		"above":          {new(1), new(51), 1, 50},
		"absurd minimum": {new(math.MaxInt32), nil, 50, 50},
		"no runners":     {nil, new(0), 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.change = func(o *autoscalingrunnerset.Options) { o.MaxRunnersPerSet = 50 }
				f.restart()
				f.create(newSet(func(s *v1alpha1.AutoscalingRunnerSet) {
					s.Spec.MinRunners, s.Spec.MaxRunners = test.least,
						test.most
				}))
				f.settle()
				listener, runnerSet := f.listeners()[0].Spec, f.runnerSets()[0].Spec
				if listener.MinRunners != test.wantLeast || listener.MaxRunners != test.wantMost {
					t.Errorf("the listener has %d to %d, want %d to %d", listener.MinRunners, listener.MaxRunners,
						test.wantLeast,
						test.wantMost)
				}
				if runnerSet.MaxRunners == nil || *runnerSet.MaxRunners != test.wantMost {
					t.Errorf("the runner set has %v, want %d", runnerSet.MaxRunners, test.wantMost)
				}
			})
		})
	}
}
