package scaling_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/jobpods"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
)

// What runners wait for is a condition while they wait, with number, example and cause; afterwards the condition is
// False.
func TestWhatRunnersWaitForIsACondition(t *testing.T) {
	waiting := func(name, reason string) *roster.Runner {
		return &roster.Runner{Name: name, Reason: reason, Message: "because of " + name}
	}
	running := &roster.Runner{Phase: v1alpha1.EphemeralRunnerPhaseRunning, Reason: "Old"}
	failed := &roster.Runner{Phase: v1alpha1.EphemeralRunnerPhaseFailed, Reason: "OOMKilled"}
	for name, test := range map[string]struct {
		runners               []*roster.Runner
		about, reason, phrase string // of the condition that is True; empty for none
	}{
		"nothing":     {runners: []*roster.Runner{{}, running, failed}},
		"going":       {runners: []*roster.Runner{{Reason: "Unschedulable", Deleting: true}}},
		"quota":       {[]*roster.Runner{waiting("a", "QuotaExceeded"), {}, waiting("b", "QuotaExceeded")}, v1alpha1.ConditionQuotaExceeded, "PodsForbidden", "2 runners wait"},
		"one":         {[]*roster.Runner{waiting("a", "ImagePullBackOff"), running}, v1alpha1.ConditionRunnersPending, "ImagePullBackOff", "1 runner waits: because of a"},
		"the most":    {[]*roster.Runner{waiting("a", "RateLimited"), waiting("b", "Unschedulable"), waiting("c", "Unschedulable")}, v1alpha1.ConditionRunnersPending, "Unschedulable", "ephemeralrunner b"},
		"same number": {[]*roster.Runner{waiting("b", "B"), waiting("a", "A")}, v1alpha1.ConditionRunnersPending, "A", "because of a"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScenario(0)
			for i, r := range test.runners {
				r.Name = cmp.Or(r.Name, fmt.Sprint("other-", i))
				r.UID = types.UID(r.Name)
				s.runners = append(s.runners, r)
			}
			status := s.status(s.pass())
			got := waits(status)
			if test.about == "" {
				if len(got) > 0 {
					t.Errorf("conditions %+v though no runner waits", got)
				}
				return
			}
			if len(got) != 1 || got[0].Type != test.about || got[0].Status != metav1.ConditionTrue ||
				got[0].Reason != test.reason || !strings.Contains(got[0].Message, test.phrase) {
				t.Fatalf("conditions %+v, want %s %s with %q", got, test.about, test.reason, test.phrase)
			}
			s.runners = nil
			describe(status, s.Describe(status, newSet(0), nil, s.pass().Plan))
			if after := waits(status); len(after) != 1 || after[0].Type != test.about ||
				after[0].Status != metav1.ConditionFalse {
				t.Errorf("conditions %+v after the wait, want %s False", after, test.about)
			}
		})
	}
}

// waits returns the conditions that say what the set waits for.
func waits(status *v1alpha1.EphemeralRunnerSetStatus) []metav1.Condition {
	return slices.DeleteFunc(slices.Clone(status.Conditions), func(c metav1.Condition) bool {
		return c.Type != v1alpha1.ConditionQuotaExceeded && c.Type != v1alpha1.ConditionRunnersPending
	})
}

func TestReasonOfMostJobPodsIsTold(t *testing.T) {
	s := newScenario(0)
	s.jobWaits = []jobpods.Wait{{Pod: "a", Reason: "ImagePullBackOff"}, {Pod: "b", Reason: "Unschedulable"},
		{Pod: "c", Reason: "Unschedulable"}}
	if got := waits(s.status(s.pass())); len(got) != 1 || got[0].Reason != "Unschedulable" ||
		!strings.HasPrefix(got[0].Message, "2 job pods wait") {
		t.Errorf("%+v", got)
	}
	s.add(1, roster.Runner{Reason: "RateLimited"})
	if got := waits(s.status(s.pass())); len(got) != 1 || got[0].Reason != "RateLimited" {
		t.Errorf("%+v, but a runner that waits comes first", got)
	}
}
