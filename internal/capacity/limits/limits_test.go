package limits_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/limits"
)

const yes, no = metav1.ConditionTrue, metav1.ConditionFalse

type shownLimit struct {
	kind   v1alpha1.LimitKind
	reason string
	change func(*limits.Seen)
}

// shown has what a set may show, from the limit that counts least to the one that counts most.
var shown = []shownLimit{
	{limits.None, "", func(s *limits.Seen) {
		s.Max, s.Announced, s.Assigned = new(20), new(12), 11
		set(s, v1alpha1.ConditionCapacityLimited, yes, v1alpha1.ReasonCapacityUnproven) // and nobody needs more
		set(s, v1alpha1.ConditionVolumeClaimsReady, yes, "ClaimsReady")
	}},
	{limits.Maximum, v1alpha1.ReasonMaxRunnersReached,
		func(s *limits.Seen) { s.Max, s.Asked = new(11), new(11) }},
	{limits.Ceiling, v1alpha1.ReasonMaxRunnersReached, func(s *limits.Seen) { s.Asked = new(12) }},
	{limits.Announced, v1alpha1.ReasonCapacityUnproven,
		func(s *limits.Seen) { s.Announced = new(10) }},
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
		func(s *limits.Seen) { s.Max, s.Asked = new(0), new(0) }},
	{limits.NoJobs, v1alpha1.ReasonDrained, func(s *limits.Seen) { s.Drained = true }},
}

func set(s *limits.Seen, condition string, status metav1.ConditionStatus, reason string) {
	for i := range s.Conditions {
		if c := &s.Conditions[i]; c.Type == condition {
			c.Status, c.Reason, c.Message = status, reason, "about "+reason
			return
		}
	}
	added := metav1.Condition{Type: condition, Status: status, Reason: reason, Message: "about " + reason}
	s.Conditions = append(s.Conditions, added)
}

func is(condition string, status metav1.ConditionStatus, reason string) func(*limits.Seen) {
	return func(s *limits.Seen) { set(s, condition, status, reason) }
}

// Whatever else holds, the limit is the one without which nothing is gained.
func TestTheForemostLimitCounts(t *testing.T) {
	var s limits.Seen
	for _, one := range shown {
		one.change(&s)
		if got := limits.Of(s); got.Kind != one.kind || got.Reason != one.reason {
			t.Errorf("%+v, want kind %q, %s", got, one.kind, one.reason)
		}
	}
	for i, kind := range limits.Order {
		if at := slices.IndexFunc(shown, func(one shownLimit) bool { return one.kind == kind }); at < 0 {
			t.Errorf("no row has kind %s", kind)
		} else if next := min(i+1, len(limits.Order)-1); slices.IndexFunc(shown,
			func(one shownLimit) bool { return one.kind == limits.Order[next] }) > at {
			t.Errorf("kind %s is not at its place in the order", kind)
		}
	}
}

func TestALimitHasTheWordsOfItsCondition(t *testing.T) {
	var s limits.Seen
	set(&s, v1alpha1.ConditionQuotaExceeded, yes, v1alpha1.ReasonPodsForbidden)
	if got := limits.Of(s).Message; got != "about "+v1alpha1.ReasonPodsForbidden {
		t.Errorf("%q", got)
	}
	set(&s, v1alpha1.ConditionQuotaExceeded, no, "PodsAdmitted")
	if got := limits.Of(s); got != (limits.Limit{}) {
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
