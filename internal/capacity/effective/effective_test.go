package effective_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/effective"
	"github.com/harrier-ci/harrier/internal/capacity/schedules"
)

// eight is the beginning of a window of an hour.
var eight = time.Date(2026, 11, 26, 8, 0, 0, 0, time.UTC)

func setOf(least, most *int, all ...v1alpha1.Schedule) *v1alpha1.AutoscalingRunnerSet {
	set := &v1alpha1.AutoscalingRunnerSet{}
	set.Spec.MinRunners, set.Spec.MaxRunners, set.Spec.Schedules = least, most, all
	return set
}

func window(name string, least, most *int) v1alpha1.Schedule {
	return v1alpha1.Schedule{Name: name, Schedule: "0 8 * * *", Duration: metav1.Duration{Duration: time.Hour},
		MinRunners: least, MaxRunners: most}
}

func TestAt(t *testing.T) {
	const none = v1alpha1.MaxRunnersUnlimited
	for name, test := range map[string]struct {
		set         *v1alpha1.AutoscalingRunnerSet
		ceiling     int
		least, most int
		cut         bool
	}{
		"nothing":                        {setOf(nil, nil), 0, 0, none, false},
		"nothing, with a limit":          {setOf(nil, nil), 50, 0, 50, false},
		"the spec's":                     {setOf(new(2), new(10)), 50, 2, 10, false},
		"cut":                            {setOf(new(60), new(70)), 50, 50, 50, true},
		"only the minimum is cut":        {setOf(new(60), nil), 50, 50, 50, true},
		"no maximum in an old object":    {setOf(new(-5), new(-1)), 0, 0, 0, false},
		"a minimum above the maximum":    {setOf(new(5), new(3)), 0, 3, 3, true},
		"a window":                       {setOf(new(2), new(10), window("w", new(20), new(200))), 0, 20, 200, false},
		"a window with one number":       {setOf(new(2), new(10), window("w", new(4), nil)), 0, 4, 10, false},
		"a window is cut last":           {setOf(new(2), new(10), window("w", new(20), new(200))), 15, 15, 15, true},
		"a window of a set without them": {setOf(nil, nil, window("w", nil, new(7))), 0, 0, 7, false},
	} {
		n := (&effective.Plan{}).At(test.set, test.ceiling, eight)
		if want := (schedules.Numbers{Min: test.least, Max: test.most}); n.Numbers != want || n.Cut() != test.cut {
			t.Errorf("%s: %+v", name, n)
		}
	}
}

// TestChanges: what is remembered never outlasts an edge, a change of the spec, or a clock that is put back.
func TestChanges(t *testing.T) {
	var plan effective.Plan
	set := setOf(new(2), new(10), window("w", new(4), nil))
	check := func(what string, now time.Time, least int) {
		t.Helper()
		if n := plan.At(set, 0, now); n.Min != least {
			t.Errorf("%s: %+v", what, n)
		}
	}
	check("before", eight.Add(-time.Second), 2)
	check("at the edge", eight, 4)
	check("after", eight.Add(time.Hour), 2)
	check("the clock is put back", eight.Add(time.Minute), 4)
	set.Spec.Schedules = []v1alpha1.Schedule{window("w", new(5), nil)} // a generation that nobody counts
	check("another number", eight.Add(time.Minute), 5)
	set.Spec.Schedules[0].TimeZone = "Europe/Berlin"
	check("another zone", eight.Add(time.Minute), 2)
	set.Spec.MinRunners = new(3)
	check("another number of the spec", eight.Add(time.Minute), 3)
	set.Spec.Schedules[0].TimeZone = "Nowhere"
	if n := plan.At(set, 0, eight); len(n.Refused) != 1 || n.Min != 3 {
		t.Errorf("a schedule that can't be followed: %+v", n)
	}
}
