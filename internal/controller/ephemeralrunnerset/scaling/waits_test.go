package scaling

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/jobpods"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// What runners wait for is a condition while they wait, with number, example and cause; afterwards the condition is
// False.
func TestWhatRunnersWaitForIsACondition(t *testing.T) {
	waits := func(name, reason string) *roster.Runner {
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
		"quota":       {[]*roster.Runner{waits("a", "QuotaExceeded"), {}, waits("b", "QuotaExceeded")}, v1alpha1.ConditionQuotaExceeded, "PodsForbidden", "2 runners wait"},
		"one":         {[]*roster.Runner{waits("a", "ImagePullBackOff"), running}, v1alpha1.ConditionRunnersPending, "ImagePullBackOff", "1 runner waits: because of a"},
		"the most":    {[]*roster.Runner{waits("a", "RateLimited"), waits("b", "Unschedulable"), waits("c", "Unschedulable")}, v1alpha1.ConditionRunnersPending, "Unschedulable", "ephemeralrunner b"},
		"same number": {[]*roster.Runner{waits("b", "B"), waits("a", "A")}, v1alpha1.ConditionRunnersPending, "A", "because of a"},
	} {
		t.Run(name, func(t *testing.T) {
			got := waitConditions(nil, test.runners, wait{})
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
			var status []metav1.Condition
			report.SetConditions(&status, 1, time.Unix(1, 0), got...)
			if after := waitConditions(status, nil, wait{}); len(after) != 1 ||
				after[0].Status != metav1.ConditionFalse {
				t.Errorf("conditions %+v after the wait, want %s False", after, test.about)
			}
		})
	}
}

func TestReasonOfMostJobPodsIsTold(t *testing.T) {
	waits := []jobpods.Wait{{Pod: "a", Reason: "ImagePullBackOff"}, {Pod: "b", Reason: "Unschedulable"},
		{Pod: "c", Reason: "Unschedulable"}}
	if got := waitConditions(nil, nil, wait{}, waits...); len(got) != 1 || got[0].Reason != "Unschedulable" ||
		!strings.HasPrefix(got[0].Message, "2 job pods wait") {
		t.Errorf("%+v", got)
	}
	runner := &roster.Runner{Name: "r", Reason: "RateLimited"}
	if got := waitConditions(nil, []*roster.Runner{runner}, wait{}, waits...); got[0].Reason != "RateLimited" {
		t.Errorf("%+v, but a runner that waits comes first", got)
	}
}
