package scaling_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/scaling"
	"github.com/harrier-ci/harrier/internal/feedback"
)

// The pauses double from 5 s to 5 minutes and stay there, however often runners fail.
func TestFailuresAreReplacedWithGrowingPauses(t *testing.T) {
	s := newScenario(1)
	seconds := []int{5, 10, 20, 40, 80, 160, 300}
	for round := range 500 {
		want := time.Duration(seconds[min(round, len(seconds)-1)]) * time.Second
		s.add(1, failedOne)
		p := s.pass()
		if p.create != 0 || p.RequeueAt.Sub(s.now) != want {
			t.Fatalf("round %d: create %d, again in %s, want 0 in %s", round+1, p.create, p.RequeueAt.Sub(s.now), want)
		}
		if p = s.later(want).pass(); p.create != 1 {
			t.Fatalf("round %d: create %d after the pause, want 1", round+1, p.create)
		}
	}
}

// A hundred runners that fail together are one round; after it one runner at a time is tried.
func TestDegradedSetTriesOneAtATime(t *testing.T) {
	s := newScenario(100)
	s.add(100, failedOne)
	s.pass()
	if p := s.later(firstBackoff).pass(); p.create != 1 {
		t.Fatalf("create %d, want one try", p.create)
	}
	s.add(1, starting)
	if p := s.pass(); p.create != 0 {
		t.Errorf("create %d while the try is under way", p.create)
	}
	s.runners[len(s.runners)-1].HadJob = true
	if p := s.pass(); p.create != 99 {
		t.Errorf("create %d after a runner took a job, want the other 99", p.create)
	}
}

func TestDegradedCarriesThePodsReasonAndHeals(t *testing.T) {
	s := newScenario(3)
	s.add(3, failedOne)
	p := s.pass()
	got := meta.FindStatusCondition(s.status(p).Conditions, v1alpha1.ConditionDegraded)
	if got.Status != "True" || got.Reason != "ErrImagePull" {
		t.Errorf("condition %+v", got)
	}
	changed := s.seen()
	changed.Template = "another template"
	s.Remember(changed)
	if s.degraded(s.plan()) {
		t.Error("degraded after the template changed")
	}
}

func TestOutdatedSetStopsButForAProbe(t *testing.T) {
	s := newScenario(10)
	for _, pause := range []time.Duration{5, 10, 20, 30, 30} {
		s.add(1, outdated)
		if p := s.pass(); p.create != 0 || p.RequeueAt.Sub(s.now) != pause*time.Minute {
			t.Fatalf("create %d, again in %s, want a probe in %d minutes", p.create, p.RequeueAt.Sub(s.now), pause)
		}
		if p := s.later(pause * time.Minute).pass(); p.create != 1 {
			t.Fatalf("create %d after %d minutes, want one probe", p.create, pause)
		}
	}
}

func TestHistoryIsLimited(t *testing.T) {
	s := newScenario(0)
	s.add(5, failedOne)
	if p := s.pass(); len(p.With(scaling.Delete)) != 2 {
		t.Errorf("delete %v of 5 failed runners, want the 2 oldest", names(p.With(scaling.Delete)))
	}
	if p := s.later(maxFailedHistoryAge).pass(); len(p.With(scaling.Delete)) != 5 {
		t.Errorf("delete %v after an hour, want all", names(p.With(scaling.Delete)))
	}
}

func TestHistoryEndsWhenALaterRunnerWorks(t *testing.T) {
	s := newScenario(1)
	s.add(1, failedOne)
	s.pass()
	s.later(time.Minute)
	s.add(1, busyOne)
	if p := s.pass(); len(p.With(scaling.Delete)) != 1 {
		t.Errorf("delete %v, want the failed runner", names(p.With(scaling.Delete)))
	}
}

func TestOutdatedEvidenceSurvivesEveryLimit(t *testing.T) {
	s := newScenario(0)
	s.spec.FailedHistoryLimit = new(0)
	s.add(2, outdated)
	if p := s.later(24 * time.Hour).pass(); len(p.With(scaling.Delete)) != 1 {
		t.Errorf("delete %v, want all but the newest", names(p.With(scaling.Delete)))
	}
}

func TestCapacityWhileDegraded(t *testing.T) {
	s := newScenario(100)
	s.add(3, failedOne)
	s.add(2, busyOne)
	s.add(3, failedOne)
	s.runners[3].CreatedAt = start.Add(-time.Minute)
	if diff := cmp.Diff(new(3), s.status(s.pass()).Capacity); diff != "" {
		t.Errorf("capacity (-want +got), want the two that run and one:\n%s", diff)
	}
}

// Kubelets that refuse every pod, and pods that somebody keeps, are told by their reason, and cost pauses. They don't
// make a set Degraded, and don't reduce what it takes.
func TestFailuresThatAreNotTheTemplatesFault(t *testing.T) {
	for reason, degraded := range map[string]bool{
		"OutOfcpu": false, "OutOfnvidia.com/gpu": false, "UnexpectedAdmissionError": false, "NodeAffinity": false,
		v1alpha1.ReasonPodTerminating: false, v1alpha1.ReasonPodLost: false,
		"Error": true, "ErrImagePull": true, "OOMKilled": true, "Evicted": true, v1alpha1.ReasonPendingTimeout: true,
	} {
		s := newScenario(10)
		s.add(2*degradedThreshold, roster.Runner{Phase: v1alpha1.EphemeralRunnerPhaseFailed, Reason: reason,
			Message: "why"})
		p := s.pass()
		if p.create != 0 || p.RequeueAt.Sub(s.now) != firstBackoff {
			t.Errorf("%s: create %d, again in %s, want none before a pause of %s", reason, p.create,
				p.RequeueAt.Sub(s.now),
				firstBackoff)
		}
		status := s.status(p)
		if got := meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionDegraded); got != degraded ||
			(status.Capacity != nil) != degraded {
			t.Errorf("%s: Degraded %t, capacity %v, want %t", reason, got, status.Capacity, degraded)
		}
		pending := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionRunnersPending)
		if !degraded && (pending == nil || pending.Status != "True" || !strings.Contains(pending.Message, "why") ||
			!strings.Contains(pending.Message, "no fault of their template")) {
			t.Errorf("%s: condition %+v, want the reason and whose fault it is", reason, pending)
		}
		want := 10
		if degraded {
			want = 1
		}
		if p = s.later(firstBackoff).pass(); p.create != want {
			t.Errorf("%s: create %d after the pause, want %d", reason, p.create, want)
		}
	}
}

// What is told about runners that were given up ends when another one is up, or the template changes; nobody need take
// a job.
func TestGivenUpRunnersAreToldUntilOneIsUp(t *testing.T) {
	refused := roster.Runner{Phase: v1alpha1.EphemeralRunnerPhaseFailed, Reason: "OutOfpods", Message: "full"}
	told := func(s *scenario) bool {
		return meta.IsStatusConditionTrue(s.status(s.pass()).Conditions, v1alpha1.ConditionRunnersPending)
	}
	s := newScenario(2)
	s.add(1, refused)
	if !told(s) {
		t.Error("nothing is told")
	}
	if s.publish(0); told(s) {
		t.Error("it is told although no runner is wanted")
	}
	s.publish(2).later(time.Minute).add(1, starting)
	if !told(s) {
		t.Error("a runner that only starts hides what is told")
	}
	s.runners[1].Phase = v1alpha1.EphemeralRunnerPhaseRunning
	if told(s) {
		t.Error("it is told although a runner is up")
	}
}

// In any history of failed runners the set is Degraded from the third on that failed by a fault of its template, and
// its pauses grow whoever's fault it was. The oracle is a list of reasons, with the verdict that an operator would
// give.
func TestAnyHistoryOfFailuresIsDegradedByTheTemplatesOnly(t *testing.T) {
	verdicts := []struct {
		reason   string
		template bool
	}{
		{"OutOfcpu", false}, {"OutOfmemory", false}, {"UnexpectedAdmissionError", false}, {"TopologyAffinityError", false}, {"PodLost", false},
		{"Error", true}, {"StartError", true}, {"OOMKilled", true}, {"InitContainerFailed", true},
	}
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 3))
		s := newScenario(1)
		count := 0
		for i := range 12 {
			v := verdicts[random.IntN(len(verdicts))]
			if v.template {
				count++
			}
			s.add(1, roster.Runner{Phase: v1alpha1.EphemeralRunnerPhaseFailed, Reason: v.reason})
			p := s.pass()
			want := min(5*time.Second<<i, 5*time.Minute)
			if p.create != 0 || p.RequeueAt.Sub(s.now) != want {
				t.Fatalf("seed %d: create %d, again in %s after %d failures, want %s", seed, p.create,
					p.RequeueAt.Sub(s.now), i+1,
					want)
			}
			if got := s.degraded(p); got != (count >= degradedThreshold) {
				t.Fatalf("seed %d: degraded %t after %d faults of the template", seed, got, count)
			}
			s.later(want)
		}
	}
}

// Anybody with rights in the namespace may write a cause: a runner that has ended well doesn't stay for ever because of
// it.
func TestCauseOfARunnerThatEndedWell(t *testing.T) {
	s := newScenario(0)
	r := s.add(1, with(succeeded, func(r *roster.Runner) { r.LostJob = &feedback.Lost{Cause: "Evicted"} }))
	s.pass()
	s.later(maxFailedHistoryAge).publish(0).pass()
	if p := s.later(time.Second).pass(); p.decided(r) != scaling.Delete {
		t.Errorf("decided %v after an hour, want its deletion", p.decided(r))
	}
}
