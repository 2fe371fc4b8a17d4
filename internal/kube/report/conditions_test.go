package report

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestConditions(t *testing.T) {
	var conditions []metav1.Condition
	now := time.Unix(100, 0)
	steps := []struct {
		set     metav1.Condition
		changed bool
		since   time.Time
	}{
		{True("Ready", "Fine", "all is well"), true, now},
		{True("Ready", "Fine", "all is well"), false, now},
		{True("Ready", "Better", "even better"), true, now}, // the time is that of the status
		{False("Ready", "Broken", "not well"), true, now.Add(3 * time.Second)},
		{Unknown("Ready", "Lost", "who knows"), true, now.Add(4 * time.Second)},
	}
	for i, step := range steps {
		changed := SetConditions(&conditions, int64(i), now.Add(time.Duration(i)*time.Second), step.set)
		got := conditions[0]
		if changed != step.changed || !got.LastTransitionTime.Time.Equal(step.since) || got.ObservedGeneration != int64(i) || got.Reason != step.set.Reason {
			t.Errorf("step %d: changed %t, condition %+v", i, changed, got)
		}
	}
}

func TestLongMessagesAreCutAtACharacter(t *testing.T) {
	var conditions []metav1.Condition
	long := strings.Repeat("ä", 5000)
	SetConditions(&conditions, 1, time.Unix(1, 0), True("Ready", "Long", long))
	if got := conditions[0].Message; !utf8.ValidString(got) || len(got) > maxMessage || len(got) < maxMessage-utf8.UTFMax {
		t.Errorf("message of %d bytes, valid %t", len(got), utf8.ValidString(got))
	}
	if SetConditions(&conditions, 1, time.Unix(2, 0), True("Ready", "Long", long)) {
		t.Error("the same long message counts as another one")
	}
}

func TestReasonsFromElsewhereAreMadeValid(t *testing.T) {
	for given, want := range map[string]string{
		"ImagePullBackOff":       "ImagePullBackOff",
		"":                       "Unknown",
		"Not enough resources":   "Notenoughresources",
		"2 nodes: full:":         "nodes:full",
		"größe":                  "gre",
		strings.Repeat("x", 200): strings.Repeat("x", maxReason),
	} {
		var conditions []metav1.Condition
		SetConditions(&conditions, 1, time.Unix(1, 0), False("Ready", given, ""))
		if got := conditions[0].Reason; got != want {
			t.Errorf("reason %q became %q, want %q", given, got, want)
		}
		if SetConditions(&conditions, 1, time.Unix(2, 0), False("Ready", given, "")) {
			t.Errorf("the same reason %q counts as another one", given)
		}
	}
}
