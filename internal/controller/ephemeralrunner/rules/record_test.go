package rules_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
)

// attempts returns the time of noon for each of these attempts, nil if there are none, as in a status that was read.
func attempts(keys ...string) map[string]metav1.Time {
	if len(keys) == 0 {
		return nil
	}
	recorded := map[string]metav1.Time{}
	for _, key := range keys {
		recorded[key] = metav1.NewTime(noon)
	}
	return recorded
}

func sorted(recorded map[string]metav1.Time) []string { return slices.Sorted(maps.Keys(recorded)) }

// An end joins those that were recorded before.
func TestRecord(t *testing.T) {
	failure, disruption := rules.Decision{}, rules.Decision{Disruption: true}
	for title, test := range map[string]struct {
		failures, disruptions         map[string]metav1.Time
		end                           rules.Decision
		wantFailures, wantDisruptions []string
	}{
		"first failure":               {nil, nil, failure, []string{"new"}, nil},
		"failure after another":       {attempts("old"), nil, failure, []string{"new", "old"}, nil},
		"failure after a disruption":  {nil, attempts("old"), failure, []string{"new"}, []string{"old"}},
		"first disruption":            {nil, nil, disruption, nil, []string{"new"}},
		"disruption after another":    {nil, attempts("old"), disruption, nil, []string{"new", "old"}},
		"disruption after a failure":  {attempts("old"), nil, disruption, []string{"old"}, []string{"new"}},
		"fifth disruption":            {nil, attempts("a", "b", "c", "d"), disruption, nil, []string{"a", "b", "c", "d", "new"}},
		"fifth failure, many failed":  {attempts("a", "b", "c", "d"), nil, failure, []string{"a", "b", "c", "d", "new"}, nil},
		"the same failure once again": {attempts("new"), nil, failure, []string{"new"}, nil},
	} {
		t.Run(title, func(t *testing.T) {
			status := &v1alpha1.EphemeralRunnerStatus{Failures: test.failures, Disruptions: test.disruptions}
			later := noon.Add(time.Minute)
			rules.Record(status, "new", test.end, later)
			failures, disruptions := sorted(status.Failures), sorted(status.Disruptions)
			if !slices.Equal(failures, test.wantFailures) || !slices.Equal(disruptions, test.wantDisruptions) {
				t.Errorf("failures %v, disruptions %v, want %v, %v", failures, disruptions, test.wantFailures,
					test.wantDisruptions)
			}
			if at, found := rules.Recorded(status, "new"); !found || !at.Time.Equal(later) {
				t.Errorf("recorded %t, at %s, want %s", found, at, later)
			}
		})
	}
}

// The status has the latest disruptions only, each under the UID of its pod, and the key of no other attempt.
func TestNotedDisruptionsAreTheLatest(t *testing.T) {
	status := &v1alpha1.EphemeralRunnerStatus{Failures: attempts("lost-3")}
	for i := range 9 {
		rules.Record(status, fmt.Sprint("pod-", i), rules.Decision{Disruption: true},
			noon.Add(time.Duration(i)*time.Minute))
	}
	want := []string{"pod-4", "pod-5", "pod-6", "pod-7", "pod-8"}
	if kept := sorted(status.Disruptions); !slices.Equal(kept, want) || len(status.Failures) != 1 {
		t.Errorf("noted %v and %v, want %v and the failure", kept, status.Failures, want)
	}
	if last := rules.LastRecorded(status); !last.Equal(noon.Add(8 * time.Minute)) {
		t.Errorf("the last one is dated %s", last)
	}
}

// An attempt is found by its key, whichever way it ended.
func TestRecorded(t *testing.T) {
	status := &v1alpha1.EphemeralRunnerStatus{
		Failures:    map[string]metav1.Time{"failed": metav1.NewTime(noon)},
		Disruptions: map[string]metav1.Time{"evicted": metav1.NewTime(noon.Add(time.Hour))},
	}
	for pod, want := range map[types.UID]time.Time{"failed": noon, "evicted": noon.Add(time.Hour), "live": {}, "": {}} {
		at, found := rules.Recorded(status, string(pod))
		if found == want.IsZero() || !at.Time.Equal(want) || rules.FailureRecorded(status, pod) != found {
			t.Errorf("pod %q: found %t, %t, at %s, want %s", pod, found, rules.FailureRecorded(status, pod), at, want)
		}
	}
}

// An end that is recorded twice under one key would count once, so no attempt gets the key of another.
func TestNewKey(t *testing.T) {
	for _, test := range []struct {
		title                 string
		failures, disruptions map[string]metav1.Time
		pod                   types.UID
		want                  string
	}{
		{"number was taken by another manager", attempts("lost-2"), nil, "", "lost-3"},
		{"number was taken by a disruption", nil, attempts("lost-2"), "", "lost-3"},
		{"two numbers were taken", attempts("lost-3"), attempts("lost-4"), "", "lost-5"},
		{"no pod was ever seen", nil, nil, "", "lost-1"},
		{"no pod was seen a second time", attempts("lost-1"), nil, "", "lost-2"},
		{"after a failure and two disruptions", attempts("a"), attempts("b", "c"), "", "lost-4"},
		{"after two failures and a disruption", attempts("a", "b"), attempts("c"), "", "lost-4"},
		{"a pod was seen", attempts("a"), attempts("b"), "pod-uid", "pod-uid"},
	} {
		status := &v1alpha1.EphemeralRunnerStatus{Failures: test.failures, Disruptions: test.disruptions}
		if got := rules.NewKey(status, test.pod); got != test.want {
			t.Fatalf("%s: %s, want %s", test.title, got, test.want)
		}
	}
}
