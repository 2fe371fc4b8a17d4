package autoscalingrunnerset_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/scaleset"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// withoutReadByID are the answers of services that lack the call which reads a scale set by its id.
var withoutReadByID = []int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented}

// onEachServiceWithoutReadByID runs a test against all of them.
func onEachServiceWithoutReadByID(t *testing.T, test func(f *fixture)) {
	t.Helper()
	for _, status := range withoutReadByID {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.github.LacksReadByID = status
				test(f)
			})
		})
	}
}

// changes are of the spec, one by one, and with a new manager between them.
var changes = []struct {
	change func(*v1alpha1.AutoscalingRunnerSetSpec)
	name   string
	group  int
	labels []string
}{
	{func(s *v1alpha1.AutoscalingRunnerSetSpec) { s.RunnerScaleSetName = "renamed" }, "renamed", 1, []string{"renamed"}},
	{func(s *v1alpha1.AutoscalingRunnerSetSpec) { s.RunnerGroup = "large" }, "renamed", 2, []string{"renamed"}},
	{func(s *v1alpha1.AutoscalingRunnerSetSpec) { s.RunnerScaleSetLabels = []string{"linux"} }, "renamed", 2, []string{"renamed", "linux"}},
	{func(s *v1alpha1.AutoscalingRunnerSetSpec) { s.RunnerGroup, s.RunnerScaleSetName = "", "again" }, "again", 1, []string{"again", "linux"}},
}

func TestChangesReachAServiceWithoutReadByID(t *testing.T) {
	onEachServiceWithoutReadByID(t, func(f *fixture) {
		f.create(newSet())
		f.settle()
		for _, step := range changes {
			f.restart()
			f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { step.change(&s.Spec) })
			f.settle()
			sets := f.github.Sets[address]
			if set := sets[1]; len(sets) != 1 || set.Name != step.name || set.RunnerGroupID != step.group ||
				len(set.Labels) != len(step.labels) || len(scaleset.MissingLabels(&set, step.labels)) > 0 {
				t.Fatalf("scale sets %+v, want the first one as %q with labels %v in group %d, and no other", sets,
					step.name,
					step.labels, step.group)
			}
			if got := f.set().Status.Registration; got.ID != 1 || got.Name != step.name {
				t.Errorf("registration = %+v", got)
			}
			f.wantCondition(v1alpha1.ConditionScaleSetRegistered, metav1.ConditionTrue, reasonRegistered)
		}
		if told := strings.Join(f.events(), "\n"); strings.Contains(told, "ScaleSetRecreated") {
			t.Errorf("told that it was created anew:\n%s", told)
		}
	})
}

// The name is changed again before GitHub's answer about the first change could be recorded.
func TestSecondChangeOfNameWithoutReadByID(t *testing.T) {
	onEachServiceWithoutReadByID(t, func(f *fixture) {
		f.create(newSet())
		f.settle()
		f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.RunnerScaleSetName = "second" })
		f.reconcile() // asked and answered, not recorded yet
		f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.RunnerScaleSetName = "third" })
		f.settle()
		if sets := f.github.Sets[address]; len(sets) != 1 || sets[1].Name != "third" {
			t.Errorf("scale sets %+v, want the first one renamed", sets)
		}
	})
}

func TestScaleSetThatIsGoneComesBackWithoutReadByID(t *testing.T) {
	onEachServiceWithoutReadByID(t, func(f *fixture) {
		f.create(newSet())
		f.settle()
		f.github.Made()
		controllertest.Elapse(2 * checkInterval)
		f.settle()
		if diff := cmp.Diff([]string{"get", "find"}, f.github.Made()); diff != "" {
			t.Errorf("calls of a check (-want +got):\n%s", diff)
		}
		delete(f.github.Sets[address], 1)
		controllertest.Elapse(2 * checkInterval)
		f.settle()
		if got := f.set().Status.Registration; got == nil || got.ID != 2 {
			t.Errorf("registration = %+v, want scale set 2", got)
		}
	})
}

// ARC has registered the set, and its name was changed together with the controller.
func TestTakeoverFromARCWithoutReadByID(t *testing.T) {
	registeredByARC := func(s *v1alpha1.AutoscalingRunnerSet) {
		s.Annotations = map[string]string{
			v1alpha1.AnnotationRunnerScaleSetID: "4", v1alpha1.AnnotationRunnerGroupName: "large",
			v1alpha1.AnnotationRunnerScaleSetName: "set",
		}
		s.Spec.RunnerScaleSetName = "renamed"
	}
	for name, deleted := range map[string]bool{"renamed": false, "deleted": true} {
		t.Run(name, func(t *testing.T) {
			onEachServiceWithoutReadByID(t, func(f *fixture) {
				set := newSet(registeredByARC)
				set.CreationTimestamp = metav1.NewTime(time.Now())
				if deleted {
					set.Finalizers = []string{v1alpha1.FinalizerAutoscalingRunnerSet}
				}
				f.github.Sets[address] = map[int]actions.RunnerScaleSet{4: labelled(4, "set", 2, "set")}
				f.create(set)
				if deleted {
					f.delete()
					f.finalizing()
					if left := f.github.Sets[address]; len(left) > 0 || !f.gone() {
						t.Errorf("gone %t, left on GitHub: %+v", f.gone(), left)
					}
					return
				}
				f.settle()
				if sets := f.github.Sets[address]; len(sets) != 1 || sets[4].Name != "renamed" ||
					sets[4].RunnerGroupID != 1 {
					t.Errorf("scale sets %+v, want ARC's renamed", sets)
				}
			})
		})
	}
}
