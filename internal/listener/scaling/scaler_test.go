package scaling_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/listenertest"
	"github.com/harrier-ci/harrier/internal/listener/scaling"
)

var message, statistics, job = listenertest.Message, listenertest.Statistics, listenertest.Job

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func TestReplicasFollowAssignedJobs(t *testing.T) {
	for name, test := range map[string]struct {
		min, max, assigned, want int
	}{
		"nothing to do":                     {0, 10, 0, 0},
		"one runner per job":                {0, 10, 3, 3},
		"idle runners come on top":          {2, 10, 3, 5},
		"never more than the maximum":       {2, 10, 9, 10},
		"maximum 0 drains":                  {0, 0, 5, 0},
		"no limit":                          {1, 2147483647, 5, 6},
		"a service that can't count":        {1, 10, -4, 1},
		"minimum alone fills up to maximum": {4, 4, 0, 4},
	} {
		t.Run(name, func(t *testing.T) {
			s := scaling.New(test.min, test.max, 0)
			s.Observe(statistics(test.assigned), noon)
			if got := s.Desired.Replicas; got != test.want {
				t.Errorf("replicas = %d, want %d", got, test.want)
			}
		})
	}
}

func TestPatchIDContinuesBeyondWhatWasGivenAway(t *testing.T) {
	s := scaling.New(0, 10, 41)
	s.Observe(statistics(0), noon)
	if got := s.Desired.PatchID; got <= 41+scaling.ReservedPatchIDs {
		t.Errorf("first patchID = %d, want more than %d", got, 41+scaling.ReservedPatchIDs)
	}
}

func TestPatchIDGrowsWithStatisticsOnly(t *testing.T) {
	s := scaling.New(0, 10, 0)
	s.Observe(statistics(1), noon)
	first := s.Desired.PatchID
	s.Observe(statistics(1), noon)
	if s.Desired.PatchID != first+1 {
		t.Errorf("patchID = %d after the same statistics again, want %d", s.Desired.PatchID, first+1)
	}
	s.MaxRunners = 0
	s.Evaluate(noon)
	if s.Desired.PatchID != first+1 || s.Desired.Replicas != 0 {
		t.Errorf("a new limit gave %+v, want no replicas under the same patchID", s.Desired)
	}
	s.Observe(nil, noon)
	if s.Desired.PatchID != first+2 || s.Desired.AssignedJobs != 1 {
		t.Errorf("statistics without content gave %+v, want the last count under the next patchID", s.Desired)
	}
}

func TestStatisticsAreNotBelowWhatMessagesJustSaid(t *testing.T) {
	s := scaling.New(0, 10, 0)
	s.Remember(message(1, 0, "assign 1", "assign 2", "assign 3"), noon)
	s.Observe(statistics(1), noon)
	if got := s.Desired.AssignedJobs; got != 3 {
		t.Errorf("assigned = %d right after three assignments, want 3", got)
	}
	s.Remember(message(2, 0, "start 1 a", "complete 2 b"), noon.Add(time.Second))
	s.Observe(statistics(0), noon.Add(time.Second))
	if got := s.Desired.AssignedJobs; got != 1 {
		t.Errorf("assigned = %d after one started and one completed, want 1", got)
	}
	s.Observe(statistics(0), noon.Add(5*time.Second))
	if got := s.Desired.AssignedJobs; got != 1 {
		t.Errorf("assigned = %d five seconds after the assignment, want 1", got)
	}
	s.Observe(statistics(0), noon.Add(5*time.Second+1))
	if got := s.Desired.AssignedJobs; got != 0 {
		t.Errorf("assigned = %d after the memory's end, want what the statistics say", got)
	}
}

// If GitHub assigns jobs by itself, their request IDs are 0.
func TestJobsWithoutRequestIDsAreDistinguished(t *testing.T) {
	without := func(message *actions.Message) *actions.Message {
		for i := range message.JobsAssigned {
			message.JobsAssigned[i].RunnerRequestID = 0
		}
		for i := range message.JobsStarted {
			message.JobsStarted[i].RunnerRequestID = 0
		}
		return message
	}
	s := scaling.New(0, 10, 0)
	s.Remember(without(message(1, 0, "assign 1", "assign 2", "assign 3")), noon)
	s.Observe(statistics(0), noon)
	if got := s.Desired.Replicas; got != 3 {
		t.Errorf("replicas = %d after three assignments, want 3", got)
	}
	s.Remember(without(message(2, 0, "start 2 a")), noon)
	s.Observe(statistics(0), noon)
	if got := s.Desired.Replicas; got != 2 {
		t.Errorf("replicas = %d after one of them started, want 2", got)
	}
}

func TestNoNumberOfJobsMakesNegativeReplicas(t *testing.T) {
	for _, jobs := range []int{math.MaxInt, math.MinInt, -1} {
		s := scaling.New(2, 10, 0)
		s.Observe(statistics(jobs), noon)
		if got := s.Desired.Replicas; got < 2 || got > 10 {
			t.Errorf("replicas = %d for %d jobs", got, jobs)
		}
	}
}

// After a listener was killed, messages are redelivered whose jobs may have ended long ago.
func TestOldAssignmentsAreLeftToTheStatistics(t *testing.T) {
	for name, test := range map[string]struct {
		assigned time.Time
		want     int
	}{
		"not said":               {time.Time{}, 2},
		"a moment ago":           {noon.Add(-3 * time.Second), 2},
		"by a clock ahead":       {noon.Add(time.Hour), 2},
		"within what clocks err": {noon.Add(-time.Minute + 1), 2},
		"a minute ago":           {noon.Add(-time.Minute), 1},
		"days ago":               {noon.Add(-48 * time.Hour), 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := scaling.New(0, 10, 0)
			s.Observe(statistics(0), noon)
			s.Acquire(2, []int64{1, 3}, noon)
			redelivered := message(1, 0, "assign 1", "assign 2")
			redelivered.JobsAssigned[0].ScaleSetAssignTime = test.assigned
			s.Remember(redelivered, noon)
			s.Observe(statistics(0), noon)
			if got := s.Desired.Replicas; got != test.want {
				t.Errorf("replicas = %d, want %d", got, test.want)
			}
			if room := s.Room(10); room != 10-test.want-1 || !s.Has(3) {
				t.Errorf("room for %d jobs beside those and job 3, acquired and not assigned (%t)", room, s.Has(3))
			}
		})
	}
}

// Messages may come in any order: an assignment that comes after the job's start is old, but not after a cancellation,
// because GitHub cancels a job that no runner takes in time and assigns it again.
func TestAssignmentsOfJobsThatHaveStartedDoNotCount(t *testing.T) {
	const later = time.Second
	for name, test := range map[string]struct {
		before []string
		result string
		pause  time.Duration
		want   int
	}{
		"never seen before":       {nil, "", later, 1},
		"another started":         {[]string{"start 2 b"}, "", later, 1},
		"started":                 {[]string{"start 1 a"}, "", later, 0},
		"completed":               {[]string{"complete 1 a"}, "succeeded", later, 0},
		"failed":                  {[]string{"start 1 a", "complete 1 a"}, "failed", later, 0},
		"canceled":                {[]string{"complete 1"}, "canceled", later, 1},
		"started and canceled":    {[]string{"start 1 a", "complete 1 a"}, "canceled", later, 1},
		"started a while ago":     {[]string{"start 1 a"}, "", time.Minute + time.Second, 1},
		"started without any ids": {[]string{"start 0 a"}, "", later, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := scaling.New(0, 10, 0)
			before, assigned := message(1, 0, test.before...), message(2, 0, "assign 1")
			for i := range before.JobsCompleted {
				before.JobsCompleted[i].Result = test.result
			}
			if name == "started without any ids" {
				before.JobsStarted[0].JobID = ""
				assigned.JobsAssigned[0].JobMessageBase = actions.JobMessageBase{}
			}
			s.Remember(before, noon)
			s.Observe(statistics(0), noon.Add(test.pause))
			s.Remember(assigned, noon.Add(test.pause))
			s.Observe(statistics(0), noon.Add(test.pause))
			if got := s.Desired.AssignedJobs; got != test.want {
				t.Errorf("assigned = %d, want %d", got, test.want)
			}
		})
	}
}

// Only jobs that no runner had say something about runners that stay without one; reports say what became of the others.
func TestJobsThatAreCancelledBeforeTheyHaveARunnerAreCounted(t *testing.T) {
	s := scaling.New(0, 10, 0)
	canceled := message(1, 0, "complete 1", "complete 2", "complete 3 a", "complete 4")
	for i, result := range []string{"canceled", "canceled", "canceled", "succeeded"} {
		canceled.JobsCompleted[i].Result = result
	}
	s.Remember(canceled, noon)
	s.Observe(statistics(0), noon)
	if got := s.Desired.CanceledJobs; got != 2 {
		t.Errorf("%d jobs were cancelled before they had a runner, want 2", got)
	}
}

// At 100 bytes each, 10,000 jobs take 1 MB.
func TestStartedJobsTakeBoundedMemory(t *testing.T) {
	const most, seen = 10_000, 20_000
	s := scaling.New(0, 10, 0)
	for id := range int64(seen) {
		s.Remember(message(id, 0, fmt.Sprintf("start %d a", id+1)), noon)
	}
	remembered := func() (count int) {
		for id := range int64(seen) {
			if s.Has(id + 1) {
				count++
			}
		}
		return count
	}
	if got := remembered(); got != most {
		t.Errorf("%d started jobs are remembered, want %d", got, most)
	}
	s.Observe(statistics(0), noon.Add(time.Minute+1))
	if got := remembered(); got != 0 {
		t.Errorf("%d started jobs are remembered after a minute", got)
	}
}

func TestAcquiredJobsCountUntilStatisticsCome(t *testing.T) {
	s := scaling.New(0, 10, 0)
	s.Observe(statistics(2), noon)
	s.Acquire(3, []int64{1, 2, 3}, noon)
	if got := s.Desired.Replicas; got != 5 {
		t.Errorf("replicas = %d after acquiring 3 on top of 2, want 5", got)
	}
	s.Observe(statistics(4), noon)
	if got := s.Desired.Replicas; got != 4 {
		t.Errorf("replicas = %d, want the 4 that new statistics say", got)
	}
}

func TestRoomForOffers(t *testing.T) {
	for name, test := range map[string]struct {
		statistics actions.Statistics
		acquired   []int64
		assigned   []string
		doubted    int
		want       int
	}{
		"all free":                           {want: 10},
		"assigned jobs take room":            {statistics: actions.Statistics{TotalAssignedJobs: 4}, want: 6},
		"acquired jobs take room":            {acquired: []int64{1, 2}, want: 8},
		"assigned ones are acquired no more": {acquired: []int64{1, 2}, assigned: []string{"assign 1"}, want: 8},
		"acquired by a process before this": {
			statistics: actions.Statistics{TotalAssignedJobs: 2, TotalAcquiredJobs: 5},
			want:       5,
		},
		"acquired counted with assigned ones": {
			statistics: actions.Statistics{TotalAssignedJobs: 5, TotalAcquiredJobs: 5},
			want:       5,
		},
		"full": {statistics: actions.Statistics{TotalAssignedJobs: 12}, want: -2},
		"doubted jobs take none": {
			statistics: actions.Statistics{TotalAssignedJobs: 12, TotalAcquiredJobs: 12},
			doubted:    9,
			want:       7,
		},
		"more doubted than there are": {statistics: actions.Statistics{TotalAssignedJobs: 3}, doubted: 9, want: 10},
		"doubted, but just assigned": {
			statistics: actions.Statistics{TotalAssignedJobs: 1},
			doubted:    1,
			assigned:   []string{"assign 1"},
			want:       9,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := scaling.New(0, 10, 0)
			s.Doubted = test.doubted
			s.Observe(&test.statistics, noon)
			s.Acquire(len(test.acquired), test.acquired, noon)
			s.Remember(message(1, 0, test.assigned...), noon)
			if got := s.Room(10); got != test.want {
				t.Errorf("room = %d, want %d", got, test.want)
			}
		})
	}
}

func TestAcquiredJobsThatNobodyAssignsFreeTheirRoom(t *testing.T) {
	s := scaling.New(0, 10, 0)
	s.Observe(statistics(0), noon)
	s.Acquire(2, []int64{1, 2}, noon)
	s.Observe(statistics(0), noon.Add(scaling.AcquisitionTimeout+time.Second))
	if got := s.Room(10); got != 10 {
		t.Errorf("room = %d, want 10", got)
	}
}

// A message about a job's start or end may come without a message about its assignment.
func TestAcquiredJobsThatStartOrEndFreeTheirRoom(t *testing.T) {
	for _, entry := range []string{"start 1 a", "complete 1 a"} {
		s, now := scaling.New(0, 10, 0), time.Now()
		s.Observe(statistics(0), now)
		s.Acquire(1, []int64{1}, now)
		s.Remember(message(1, 0, entry), now)
		if got := s.Room(10); got != 10 {
			t.Errorf("%s: room for %d jobs, want 10", entry, got)
		}
	}
}

// In every order of events, replicas stay within the limits and cover the jobs that statistics show, and the patchID
// never decreases.
func TestScalerProperties(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		minRunners := random.IntN(5)
		s := scaling.New(minRunners, minRunners+random.IntN(20), random.IntN(1000))
		now, last := noon, s.Desired.PatchID
		for range 50 {
			now = now.Add(time.Duration(random.IntN(4000)) * time.Millisecond)
			act(s, random, now)
			if s.Desired.Replicas < 0 || s.Desired.Replicas > s.MaxRunners {
				t.Fatalf("replicas %d are not within 0 and %d", s.Desired.Replicas, s.MaxRunners)
			}
			if s.Known() && s.Desired.Replicas < min(s.MinRunners+s.Statistics.TotalAssignedJobs, s.MaxRunners) {
				t.Fatalf("replicas %d are too few for %d jobs and limits %d, %d",
					s.Desired.Replicas, s.Statistics.TotalAssignedJobs, s.MinRunners, s.MaxRunners)
			}
			if s.Desired.PatchID < last {
				t.Fatalf("patchID went back from %d to %d", last, s.Desired.PatchID)
			}
			last = s.Desired.PatchID
		}
	}
}

func act(s *scaling.Scaler, random *rand.Rand, now time.Time) {
	request := int64(random.IntN(30))
	switch random.IntN(5) {
	case 0:
		s.Observe(statistics(random.IntN(30)), now)
	case 1:
		s.Remember(&actions.Message{JobsAssigned: []actions.JobAssigned{{JobMessageBase: job(request)}}}, now)
		s.Observe(statistics(random.IntN(30)), now)
	case 2:
		s.Remember(&actions.Message{JobsStarted: []actions.JobStarted{{JobMessageBase: job(request)}}}, now)
		s.Evaluate(now)
	case 3:
		s.Acquire(2, []int64{request, request + 1}, now)
	case 4:
		s.MinRunners = random.IntN(5)
		s.MaxRunners = s.MinRunners + random.IntN(20)
		s.Evaluate(now)
	}
}

// Polls may bring the start of a job before the call that acquired it has been answered.
func TestAnAcquisitionThatIsAnsweredLateCountsNoJobTwice(t *testing.T) {
	for _, entries := range [][]string{{"assign 1", "start 1 a"}, {"start 1 a"}, {"assign 1", "complete 1 a"}} {
		s := scaling.New(0, 10, 0)
		s.Observe(statistics(0), noon)
		s.Remember(message(1, 0, entries...), noon)
		s.Observe(statistics(1), noon)
		s.Acquire(1, []int64{1}, noon.Add(time.Second))
		if got := s.Room(10); got != 9 || s.Desired.Replicas != 1 {
			t.Errorf("%q: room for %d jobs, %d replicas; want 9 and 1", entries, got, s.Desired.Replicas)
		}
	}
}

// A list that lags behind may still have a job that has started.
func TestAJobThatHasStartedIsNoUnknownOffer(t *testing.T) {
	s := scaling.New(0, 10, 0)
	s.Remember(message(1, 0, "assign 1", "start 1 a"), noon)
	if !s.Has(1) {
		t.Error("the job would be acquired again")
	}
}
