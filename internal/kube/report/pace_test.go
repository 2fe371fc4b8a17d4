package report_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/internal/kube/report"
)

func TestWhatNobodyWaitsForIsWrittenLater(t *testing.T) {
	noon := time.Unix(43_200, 0)
	pace := report.Pace{Figures: time.Second, Echo: 4 * time.Second}
	written := noon.Add(-500 * time.Millisecond)
	for name, test := range map[string]struct {
		change report.Change
		took   time.Duration
		moved  time.Time
		want   time.Time
	}{
		"a condition turns":                    {report.ChangeTurn, 10 * time.Millisecond, noon, noon},
		"a condition turns, a busy API server": {report.ChangeTurn, time.Second, noon, noon},
		"figures":                              {report.ChangeFigures, 10 * time.Millisecond, noon, written.Add(time.Second)},
		"figures, a busy API server": {
			report.ChangeFigures, 300 * time.Millisecond, noon.Add(time.Minute), written.Add(6 * time.Second),
		},
		"figures, an API server that hangs": {
			report.ChangeFigures, time.Minute, noon.Add(time.Minute), written.Add(10 * time.Second),
		},
		"figures at rest, a busy API server": {report.ChangeFigures, 300 * time.Millisecond, noon, noon.Add(time.Second)},
		"figures that rested before this write": {
			report.ChangeFigures, 300 * time.Millisecond, written.Add(-time.Minute), written.Add(time.Second),
		},
		"the generation": {report.ChangeEcho, 10 * time.Millisecond, noon, noon.Add(4 * time.Second)},
	} {
		if got := pace.DueAt(
			test.change, report.Written{At: written, Took: test.took}, noon, test.moved,
		); !got.Equal(test.want) {
			t.Errorf("%s: due at %s, want %s", name, got, test.want)
		}
	}
}

func TestAConditionTurnsWithItsStatusOrReason(t *testing.T) {
	before := []metav1.Condition{report.True("Ready", "Listening", "one"), report.False("Degraded", "Fine", "")}
	for name, test := range map[string]struct {
		after []metav1.Condition
		want  bool
	}{
		"nothing":        {before, false},
		"another text":   {[]metav1.Condition{report.True("Ready", "Listening", "two"), before[1]}, false},
		"another order":  {[]metav1.Condition{before[1], before[0]}, false},
		"another reason": {[]metav1.Condition{report.True("Ready", "Other", "one"), before[1]}, true},
		"another status": {[]metav1.Condition{report.False("Ready", "Listening", "one"), before[1]}, true},
		"one is gone":    {before[:1], true},
		"one is new":     {append([]metav1.Condition{report.True("New", "New", "")}, before...), true},
	} {
		if got := report.Turned(before, test.after); got != test.want {
			t.Errorf("%s: Turned() = %t", name, got)
		}
	}
}
