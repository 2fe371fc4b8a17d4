package report

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWhatNobodyWaitsForIsWrittenLater(t *testing.T) {
	noon := time.Unix(43_200, 0)
	pace := Pace{Figures: time.Second, Echo: 4 * time.Second}
	written := noon.Add(-500 * time.Millisecond)
	for name, test := range map[string]struct {
		change Change
		took   time.Duration
		want   time.Time
	}{
		"a condition turns":                    {ChangeTurn, 10 * time.Millisecond, noon},
		"a condition turns, a busy API server": {ChangeTurn, time.Second, noon},
		"figures":                              {ChangeFigures, 10 * time.Millisecond, written.Add(time.Second)},
		"figures, a busy API server":           {ChangeFigures, 300 * time.Millisecond, written.Add(6 * time.Second)},
		"figures, an API server that hangs":    {ChangeFigures, time.Minute, written.Add(10 * time.Second)},
		"the generation":                       {ChangeEcho, 10 * time.Millisecond, noon.Add(4 * time.Second)},
	} {
		if got := pace.DueAt(test.change, Written{written, test.took}, noon); !got.Equal(test.want) {
			t.Errorf("%s: due at %s, want %s", name, got, test.want)
		}
	}
}

func TestAConditionTurnsWithItsStatusOrReason(t *testing.T) {
	before := []metav1.Condition{True("Ready", "Listening", "one"), False("Degraded", "Fine", "")}
	for name, test := range map[string]struct {
		after []metav1.Condition
		want  bool
	}{
		"nothing":        {before, false},
		"another text":   {[]metav1.Condition{True("Ready", "Listening", "two"), False("Degraded", "Fine", "")}, false},
		"another order":  {[]metav1.Condition{before[1], before[0]}, false},
		"another reason": {[]metav1.Condition{True("Ready", "Other", "one"), before[1]}, true},
		"another status": {[]metav1.Condition{False("Ready", "Listening", "one"), before[1]}, true},
		"one is gone":    {before[:1], true},
		"one is new":     {append([]metav1.Condition{True("New", "New", "")}, before...), true},
	} {
		if got := Turned(before, test.after); got != test.want {
			t.Errorf("%s: Turned() = %t", name, got)
		}
	}
}
