package autoscalingrunnerset

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
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
				f.github.lacksReadByID = status
				test(f)
			})
		})
	}
}

func TestScaleSetSyncWithoutReadByID(t *testing.T) {
	basic := desiredScaleSet{URL: address, Name: "set", Labels: []string{"set"}}
	inGroup := desiredScaleSet{URL: address, Group: "Large", Name: "set", Labels: []string{"set"}}
	here, renamed, inLarge := scaleSetName{"Default", "set"}, scaleSetName{"Default", "old"}, scaleSetName{"large", "set"}
	there := labelled(4, "set", 1, "set")
	for name, test := range map[string]struct {
		desired desiredScaleSet
		knownAs []scaleSetName
		there   []actions.RunnerScaleSet
		calls   []string
		want    actions.RunnerScaleSet
	}{
		"unchanged":               {basic, []scaleSetName{here}, []actions.RunnerScaleSet{there}, []string{"get", "find"}, there},
		"renamed":                 {basic, []scaleSetName{renamed}, []actions.RunnerScaleSet{labelled(4, "old", 1, "set")}, []string{"get", "find", "update"}, there},
		"into a group":            {inGroup, []scaleSetName{here}, []actions.RunnerScaleSet{there}, []string{"get", "find", "group", "update"}, labelled(4, "set", 2, "set")},
		"out of a group":          {basic, []scaleSetName{inLarge}, []actions.RunnerScaleSet{labelled(4, "set", 2, "set")}, []string{"get", "group", "find", "update"}, there},
		"out of a group now gone": {basic, []scaleSetName{{"gone", "set"}}, []actions.RunnerScaleSet{there}, []string{"get", "group", "find"}, there},
		"other labels":            {basic, []scaleSetName{here}, []actions.RunnerScaleSet{labelled(4, "set", 1, "linux")}, []string{"get", "find", "update"}, there},
		"renamed without answer":  {basic, []scaleSetName{renamed, {"", "new"}}, []actions.RunnerScaleSet{labelled(4, "new", 1, "set")}, []string{"get", "find", "find", "update"}, there},
		"gone":                    {basic, []scaleSetName{renamed}, nil, []string{"get", "find", "find", "create"}, labelled(9, "set", 1, "set")},
		"gone, name taken":        {basic, []scaleSetName{renamed}, []actions.RunnerScaleSet{labelled(5, "old", 1, "old")}, []string{"get", "find", "find", "create"}, labelled(9, "set", 1, "set")},
	} {
		t.Run(name, func(t *testing.T) {
			github := newFakeGitHub()
			github.nextID, github.lacksReadByID = 9, http.StatusMethodNotAllowed
			github.sets[address] = map[int]actions.RunnerScaleSet{}
			for _, set := range test.there {
				github.sets[address][set.ID] = set
			}
			got, err := (&scaleSetSync{github: at{github, address}, desired: test.desired, id: 4, knownAs: test.knownAs}).run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.calls, github.made()); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			got.RunnerGroupName = ""
			if diff := cmp.Diff(&test.want, got); diff != "" {
				t.Errorf("scale set (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMayLackReadByID: GitHub names the exception if the scale set is gone.
func TestMayLackReadByID(t *testing.T) {
	answer := func(status int, typeName string) error {
		return fmt.Errorf("wrapped: %w", &actions.Error{Endpoint: actions.EndpointGetScaleSet, StatusCode: status, TypeName: typeName})
	}
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"read":                   {nil, false},
		"no route":               {answer(http.StatusNotFound, ""), true},
		"no such method":         {answer(http.StatusMethodNotAllowed, ""), true},
		"not implemented":        {answer(http.StatusNotImplemented, ""), true},
		"no such scale set":      {answer(http.StatusNotFound, "RunnerScaleSetNotFoundException"), false},
		"service away":           {answer(http.StatusServiceUnavailable, ""), false},
		"credentials refused":    {answer(http.StatusUnauthorized, ""), false},
		"address refused":        {&actions.Error{Endpoint: actions.EndpointRegister, StatusCode: http.StatusNotFound}, false},
		"no answer":              {&actions.NetworkError{Err: errors.New("refused")}, false},
		"not found by a program": {actions.ErrScaleSetNotFound, false},
	} {
		if got := actions.LacksReadByID(test.err); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
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
			f.restart(nil)
			f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { step.change(&s.Spec) })
			f.settle()
			sets := f.github.sets[address]
			if set := sets[1]; len(sets) != 1 || set.Name != step.name || set.RunnerGroupID != step.group || !sameLabels(&set, step.labels) {
				t.Fatalf("scale sets %+v, want the first one as %q with labels %v in group %d, and no other", sets, step.name, step.labels, step.group)
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
		if sets := f.github.sets[address]; len(sets) != 1 || sets[1].Name != "third" {
			t.Errorf("scale sets %+v, want the first one renamed", sets)
		}
	})
}

func TestScaleSetThatIsGoneComesBackWithoutReadByID(t *testing.T) {
	onEachServiceWithoutReadByID(t, func(f *fixture) {
		f.create(newSet())
		f.settle()
		f.github.made()
		controllertest.Elapse(2 * checkPeriod)
		f.settle()
		if diff := cmp.Diff([]string{"get", "find"}, f.github.made()); diff != "" {
			t.Errorf("calls of a check (-want +got):\n%s", diff)
		}
		delete(f.github.sets[address], 1)
		controllertest.Elapse(2 * checkPeriod)
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
			v1alpha1.AnnotationRunnerScaleSetID: "4", v1alpha1.AnnotationRunnerGroupName: "large", v1alpha1.AnnotationRunnerScaleSetName: "set",
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
				f.github.sets[address] = map[int]actions.RunnerScaleSet{4: labelled(4, "set", 2, "set")}
				f.create(set)
				if deleted {
					f.delete()
					f.finalizing()
					if left := f.github.sets[address]; len(left) > 0 || !f.gone() {
						t.Errorf("gone %t, left on GitHub: %+v", f.gone(), left)
					}
					return
				}
				f.settle()
				if sets := f.github.sets[address]; len(sets) != 1 || sets[4].Name != "renamed" || sets[4].RunnerGroupID != 1 {
					t.Errorf("scale sets %+v, want ARC's renamed", sets)
				}
			})
		})
	}
}

// An outage is not a reason to look anywhere else.
func TestOutageOfReadByIDAsksNothingElse(t *testing.T) {
	for _, err := range []error{&actions.NetworkError{Err: errors.New("refused")}, &actions.Error{StatusCode: http.StatusBadGateway}} {
		github := newFakeGitHub()
		github.failure = err
		work := scaleSetSync{github: at{github, address}, desired: desiredScaleSet{Name: "set"}, id: 4, knownAs: []scaleSetName{{"", "set"}}}
		if _, got := work.run(t.Context()); !errors.Is(got, err) {
			t.Errorf("run() = %v, want %v", got, err)
		}
		if calls := github.made(); !slices.Equal(calls, []string{"get"}) {
			t.Errorf("calls %v after %v", calls, err)
		}
	}
}

func TestRegistrationHasTheDesiredGroupWhereTheAnswerNamesNone(t *testing.T) {
	for named, want := range map[string]string{"": "large", "Large": "Large"} {
		result := syncResult{desired: desiredScaleSet{URL: address, Group: "large"}, set: &actions.RunnerScaleSet{ID: 1, Name: "set", RunnerGroupName: named}}
		if got := result.registration().Group; got != want {
			t.Errorf("group %q of an answer with %q, want %q", got, named, want)
		}
	}
}
