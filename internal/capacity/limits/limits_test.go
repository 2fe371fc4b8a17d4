package limits_test

import (
	"math/rand/v2"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/limits"
)

const yes, no = metav1.ConditionTrue, metav1.ConditionFalse

// shown has what a set may show, from the limit that counts least to the one that counts most.
var shown = []struct {
	kind   limits.Kind
	reason string
	change func(*v1alpha1.AutoscalingRunnerSet)
}{
	{limits.None, "", func(s *v1alpha1.AutoscalingRunnerSet) {
		s.Status.EffectiveMaxRunners, s.Status.AdvertisedCapacity, s.Status.AssignedJobs = new(20), new(12), 11
		set(s, v1alpha1.ConditionCapacityLimited, yes, v1alpha1.ReasonCapacityUnproven) // and nobody needs more
		set(s, v1alpha1.ConditionVolumeClaimsReady, yes, "ClaimsReady")
	}},
	{limits.Maximum, v1alpha1.ReasonMaxRunnersReached,
		func(s *v1alpha1.AutoscalingRunnerSet) { s.Status.EffectiveMaxRunners = new(11) }},
	{limits.Announced, v1alpha1.ReasonCapacityUnproven,
		func(s *v1alpha1.AutoscalingRunnerSet) { s.Status.AdvertisedCapacity = new(10) }},
	{limits.Pace, v1alpha1.ReasonStartsLimited, is(v1alpha1.ConditionStartsLimited, yes, v1alpha1.ReasonStartsLimited)},
	{limits.Failures, v1alpha1.ReasonRunnersNotCreated,
		is(v1alpha1.ConditionDegraded, yes, v1alpha1.ReasonRunnersNotCreated)},
	{limits.Starts, v1alpha1.ReasonRateLimited, is(v1alpha1.ConditionRunnersPending, yes, v1alpha1.ReasonRateLimited)},
	{limits.Claims, v1alpha1.ReasonVolumeClaimsExhausted,
		is(v1alpha1.ConditionVolumeClaimsReady, no, v1alpha1.ReasonVolumeClaimsExhausted)},
	{limits.Quota, v1alpha1.ReasonQuotaExceeded, is(v1alpha1.ConditionQuotaExceeded, yes, v1alpha1.ReasonPodsForbidden)},
	{limits.Nodes, "SchedulingGated", is(v1alpha1.ConditionRunnersPending, yes, "SchedulingGated")},
	{limits.Outdated, "RunnerVersionRefused", is(v1alpha1.ConditionRunnerOutdated, yes, "RunnerVersionRefused")},
	{limits.NoJobs, v1alpha1.ReasonMaxRunnersZero,
		func(s *v1alpha1.AutoscalingRunnerSet) { s.Status.EffectiveMaxRunners = new(0) }},
	{limits.NoJobs, v1alpha1.ReasonDrained, func(s *v1alpha1.AutoscalingRunnerSet) {
		s.Annotations = map[string]string{v1alpha1.AnnotationDrained: v1alpha1.DrainedValue}
	}},
}

func set(s *v1alpha1.AutoscalingRunnerSet, condition string, status metav1.ConditionStatus, reason string) {
	for i := range s.Status.Conditions {
		if c := &s.Status.Conditions[i]; c.Type == condition {
			c.Status, c.Reason, c.Message = status, reason, "about "+reason
			return
		}
	}
	added := metav1.Condition{Type: condition, Status: status, Reason: reason, Message: "about " + reason}
	s.Status.Conditions = append(s.Status.Conditions, added)
}

func is(condition string, status metav1.ConditionStatus, reason string) func(*v1alpha1.AutoscalingRunnerSet) {
	return func(s *v1alpha1.AutoscalingRunnerSet) { set(s, condition, status, reason) }
}

// Whatever else holds, the limit is the one without which nothing is gained.
func TestTheForemostLimitCounts(t *testing.T) {
	var s v1alpha1.AutoscalingRunnerSet
	for _, one := range shown {
		one.change(&s)
		if got := limits.OfSet(&s); got.Kind != one.kind || got.Reason != one.reason {
			t.Errorf("%+v, want kind %d, %s", got, one.kind, one.reason)
		}
	}
	for kind := limits.NoJobs; kind <= limits.Maximum; kind++ {
		if limits.Order[kind-1] != kind {
			t.Errorf("kind %d is not at its place in the order", kind)
		}
	}
}

func TestALimitHasTheWordsOfItsCondition(t *testing.T) {
	var s v1alpha1.AutoscalingRunnerSet
	set(&s, v1alpha1.ConditionQuotaExceeded, yes, v1alpha1.ReasonPodsForbidden)
	if got := limits.OfSet(&s).Message; got != "about "+v1alpha1.ReasonPodsForbidden {
		t.Errorf("%q", got)
	}
	set(&s, v1alpha1.ConditionQuotaExceeded, no, "PodsAdmitted")
	if got := limits.OfSet(&s); got != (limits.Limit{}) {
		t.Errorf("%+v, want none", got)
	}
}

// The first limit is told immediately; what passes within a minute is not; what lasts is, whatever else comes and goes
// meanwhile.
func TestALimitSettles(t *testing.T) {
	now := time.Unix(1e9, 0)
	settled := limits.SettledOn("")
	note := func(after time.Duration, seen, want string) {
		t.Helper()
		now = now.Add(after)
		told, again := settled.Note(seen, now)
		if told != want || again.IsZero() != (seen == told) || (!again.IsZero() && !again.After(now)) {
			t.Errorf("%s after %s: told %q, want %q; again at %v", seen, after, told, want, again)
		}
	}
	note(0, "Full", "Full")
	for range 100 { // a job less for moments
		note(59*time.Second, "", "Full")
		note(time.Second, "Full", "Full")
	}
	note(time.Second, "", "Full")
	note(time.Minute, "", "")
	note(time.Second, "Quota", "Quota")
	note(time.Second, "Nodes", "Quota")
	note(30*time.Second, "Full", "Quota")
	note(30*time.Second, "Full", "Full")
	if told, again := limits.SettledOn("Full").Note("Full", now); told != "Full" || !again.IsZero() {
		t.Errorf("a new manager tells %q", told)
	}
}

// However limits come and go, there is at most one change a minute, but for the first after nothing, and what holds is
// told in the end.
func TestALimitDoesNotFlap(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		reasons := []string{"", "Full", "Quota", "Nodes"}
		settled, now := limits.SettledOn(""), time.Unix(1e9, 0)
		var told string
		var ended time.Time // when a reason was told last that is no more
		for range 500 {
			now = now.Add(time.Duration(random.IntN(40)) * time.Second)
			next, _ := settled.Note(reasons[random.IntN(len(reasons))], now)
			if next != told && told != "" {
				if now.Sub(ended) < time.Minute {
					t.Fatalf("seed %d: %q and then %q within %s", seed, told, next, now.Sub(ended))
				}
				ended = now
			}
			told = next
		}
		settled.Note("Quota", now)
		if told, _ := settled.Note("Quota", now.Add(time.Minute)); told != "Quota" {
			t.Fatalf("seed %d: told %q in the end", seed, told)
		}
	}
}
