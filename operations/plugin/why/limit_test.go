package why

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// partsOf adds up what a story says of a wait.
func partsOf(s *Story) (whole int) {
	for _, phase := range s.Phases {
		whole += phase.Seconds
	}
	if s.Limit != nil {
		whole += s.Limit.Seconds
	}
	return whole
}

// The time during which the set was at its limit is the set's, with the limit's name and number, and in no phase:
// whether the set's status says it, or the ledger, which knows limits that are over.
func TestTheShareAtTheSetsLimit(t *testing.T) {
	atMost := func(since metav1.Time) []client.Object {
		objects := scaleSet(3, 3)
		objects[0].(*v1alpha1.AutoscalingRunnerSet).Status.LimitedBy.Since = since
		return append(objects, podWith(nil), runnerWith(nil)) // assigned 10 s after it was queued, created 2 s later
	}
	said, stories, _ := asked(t, server(nil, atMost(metav1.NewTime(began.Add(-time.Hour)))...), runner)
	if s := stories[0]; s.Limit == nil || s.Limit.Seconds != 12 || s.WaitSeconds != 100 || partsOf(&s) != 100 ||
		!strings.Contains(said, "12s of that while the scale set was at its limit MaxRunnersReached: maxRunners of 3 is reached") {
		t.Errorf("%+v\n%s", s, said)
	}
	// It became full with this job.
	if _, stories, _ := asked(t, server(nil, atMost(*after(10))...), runner); stories[0].Limit != nil || partsOf(&stories[0]) != 100 {
		t.Errorf("%+v", stories[0])
	}
	row := strings.Replace(lostRow, `"lostCause":"NodeLost"`, `"result":"succeeded","limitedReason":"MaxRunnersReached",`+
		`"limitNumber":3,"limitedAssigned":8,"limitedCreated":2`, 1)
	open, _ := remembering(t, map[string]string{"runID=1234567890": row})
	said, told, err := recalled(t, server(nil), "1234567890", Options{Everywhere: true, Ledger: open})
	if err != nil || len(told.Jobs) != 1 || told.Jobs[0].Limit == nil || told.Jobs[0].Limit.Seconds != 10 ||
		partsOf(&told.Jobs[0]) != 90 || told.Jobs[0].WaitSeconds != 90 ||
		!strings.Contains(said, "10s of that while the scale set was at its limit MaxRunnersReached at 3") {
		t.Errorf("%v: %+v\n%s", err, told.Jobs, said)
	}
}

// A job that ended before it had a runner is told as what it is.
func TestAJobThatGaveUp(t *testing.T) {
	open, _ := remembering(t, map[string]string{"runID=1234567890": `{"runnerUID":"gave-up-1","namespace":"runners","set":"linux",
"name":"build","repository":"acme/app","runID":1234567890,"jobID":"j","queued":"2026-03-04T12:00:00Z","assigned":"2026-03-04T12:00:10Z",
"finished":"2026-03-04T12:10:00Z","result":"canceled","ending":"GaveUp"}`})
	said, told, err := recalled(t, server(nil), "1234567890", Options{Everywhere: true, Ledger: open})
	if err != nil || len(told.Jobs) != 1 || told.Jobs[0].State != Ended || told.Jobs[0].WaitSeconds != 600 ||
		!strings.Contains(said, "it gave up: it ended before it had a runner") || strings.Contains(said, "created") {
		t.Errorf("%v: %+v\n%s", err, told.Jobs, said)
	}
}
