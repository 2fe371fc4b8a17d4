package volumeclaims_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

// W1: with nodes that come when a pod waits, jobs find volumes that others have used, whatever a node takes and whether
// or not the autoscaler speaks; there are no more claims than runners at once, and none is deleted.
func TestCachesHitWhereNodesComeAndGo(t *testing.T) {
	for _, delay := range []time.Duration{step, 30 * time.Second, 90 * time.Second, 6 * time.Minute, 9 * time.Minute} {
		for _, runners := range []int{1, 10, 30} {
			for _, most := range []int{0, 5, 20} {
				for _, kind := range []string{"one zone", "three zones", "three zones, Events", "blind",
					"a system node elsewhere", "restarts", "three zones, restarts"} {
					plain := kind == "one zone"
					if (!plain && (runners == 30 || most == 20 || delay < 90*time.Second)) ||
						(plain && runners == 30 && delay != 90*time.Second) {
						continue // it makes no other difference
					}
					t.Run(fmt.Sprintf("%s, %d runners, max %d, %s", delay, runners, most, kind), func(t *testing.T) {
						t.Parallel()
						nodesComeAndGo(t, delay, runners, most, kind)
					})
				}
			}
		}
	}
}

func nodesComeAndGo(t *testing.T, delay time.Duration, runners, most int, kind string) {
	world := simulated{zones: []string{"a"}, delay: delay, blind: kind == "blind"}
	if strings.HasPrefix(kind, "three zones") {
		world.zones, world.tells = []string{"a", "b", "c"}, kind == "three zones, Events"
	}
	s := simulate(t, world)
	if kind == "a system node elsewhere" {
		s.node("system", 0, true)
	}
	if most > 0 {
		s.set.Spec.VolumeClaimPool.Max = &most
	}
	const waves = 3
	for range waves {
		for range runners { // they come one after the other
			s.jobs(1)
			s.run(step)
		}
		s.run(40 * time.Minute)
		if strings.HasSuffix(kind, "restarts") {
			s.memory = volumeclaims.NewMemory("linux")
		}
	}
	r := s.result
	misses := r.jobs - r.hits
	if want := waves * runners; r.jobs != want {
		t.Errorf("%d of %d jobs started", r.jobs, want)
	}
	if misses > r.most || len(s.volumes) > r.most || r.deleted > 0 {
		t.Errorf("%d hits of %d jobs, %d swaps, %d claims for %d runners at a time, %d deleted", r.hits, r.jobs, r.swaps,
			len(s.volumes), r.most, r.deleted)
	}
	t.Logf("%+v, %d claims", r, len(s.volumes))
}

// lostZone returns a simulation with used claims in zone a, and others, which were used last, in zone b, which has no
// nodes.
func lostZone(t *testing.T, inA, inB, room int) *simulation {
	s := simulate(t, simulated{zones: []string{"a", "b"}})
	n := s.node("a", room, true)
	for range inA {
		s.cache("a", n.name)
	}
	s.now = s.now.Add(time.Minute)
	for range inB {
		s.cache("b", "node-lost")
	}
	return s
}

// W2: ten runners on claims of a lost zone are placed in the first minute; so are thirty without another claim.
func TestRunnersLeaveALostZoneAtOnce(t *testing.T) {
	for name, test := range map[string]struct{ good, runners, most int }{
		"ten good ones are free":             {10, 10, 20},
		"none is free":                       {0, 30, 60},
		"none is free, and no limit":         {0, 30, 0},
		"none is free, but the set is there": {1, 30, 60},
	} {
		t.Run(name, func(t *testing.T) {
			s := lostZone(t, test.good, test.runners, 60)
			if test.most > 0 {
				s.set.Spec.VolumeClaimPool.Max = &test.most
			}
			within := time.Minute
			if test.good == 0 {
				within = patience + time.Minute // nothing shows that the set's pods could run in zone a
			}
			s.jobs(test.runners)
			s.run(within)
			if r := s.result; r.jobs != test.runners || r.swaps > test.runners || r.deleted > 0 {
				t.Errorf("%d of %d jobs started within %s, %d swaps, %d deleted", r.jobs, test.runners, within, r.swaps,
					r.deleted)
			}
		})
	}
}

// W3: nine dead warm claims and a good one: one try for each dead place at most, and none where the place is known to be
// gone.
func TestDeadClaimsCostOneTry(t *testing.T) {
	for _, local := range []bool{false, true} {
		for _, jobs := range []int{1, 2, 10} {
			t.Run(fmt.Sprintf("local %t, %d jobs", local, jobs), func(t *testing.T) {
				s := simulate(t, simulated{zones: []string{"a", "b"}, local: local})
				s.set.Spec.VolumeClaimPool.Max = new(10)
				n := s.node("a", 20, true)
				s.cache("a", n.name)
				s.now = s.now.Add(time.Minute)
				for i := range 9 {
					s.cache("b", fmt.Sprint("lost-", i))
				}
				s.jobs(jobs)
				s.run(2 * time.Minute)
				if r := s.result; (jobs == 1 || local) && (r.jobs != jobs || r.swaps > jobs) {
					t.Errorf("%d of %d jobs started in two minutes, %d swaps, %d deleted", r.jobs, jobs, r.swaps, r.deleted)
				}
				s.run(patience)
				if r := s.result; r.jobs != jobs || r.swaps > 10 || (r.deleted > 0) != (jobs == 10 || local) {
					t.Errorf("%d of %d jobs started, %d swaps, %d deleted", r.jobs, jobs, r.swaps, r.deleted)
				}
				tries := s.result.swaps
				s.jobs(1)
				s.run(time.Minute)
				if r := s.result; r.jobs != jobs+1 || r.swaps != tries {
					t.Errorf("the next job: %d started, %d more swaps", r.jobs-jobs, r.swaps-tries)
				}
			})
		}
	}
}

// W4: the cluster is full for a while and max is reached: nothing is deleted, and the caches hit afterwards.
func TestAFullClusterCostsNothing(t *testing.T) {
	for _, full := range []time.Duration{10 * time.Minute, time.Hour} {
		for _, zones := range [][]string{{"a"}, {"a", "b"}} {
			for _, blind := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %v, blind %t", full, zones, blind), func(t *testing.T) {
					s := simulate(t, simulated{zones: zones, blind: blind})
					s.set.Spec.VolumeClaimPool.Max = new(5)
					for i := range 5 {
						n := s.node(zones[i%len(zones)], 1, true)
						s.cache(n.zone, n.name)
						n.taken = 1
					}
					s.jobs(5)
					s.run(full)
					for _, n := range s.nodes {
						n.taken = 0
					}
					s.run(time.Minute)
					if r := s.result; r.deleted > 0 || r.jobs != 5 || r.hits != 5 || len(s.volumes) != 5 {
						t.Errorf("%+v, %d claims", r, len(s.volumes))
					}
				})
			}
		}
	}
}

// A cordoned node keeps its volumes: nothing is deleted, and its pods wait if it is the only one.
func TestACordonedNodeKeepsItsClaims(t *testing.T) {
	s := simulate(t, simulated{zones: []string{"a"}, local: true})
	s.set.Spec.VolumeClaimPool.Max = new(1)
	n := s.node("a", 1, true)
	s.cache("a", n.name)
	n.cordoned = true
	s.show(n)
	s.jobs(1)
	s.run(time.Hour)
	n.cordoned = false
	s.show(n)
	s.run(time.Minute)
	if r := s.result; r.jobs != 1 || r.hits != 1 || r.deleted > 0 {
		t.Errorf("%+v", r)
	}
}

// A zone that an autoscaler can't fill is left as soon as it says so.
func TestAnAutoscalerThatSaysNoIsBelieved(t *testing.T) {
	s := simulate(t, simulated{zones: []string{"a", "b"}, delay: 90 * time.Second, tells: true,
		broken: sets.New("b")})
	s.cache("b", "lost")
	s.node("a", 1, true)
	s.jobs(1)
	s.run(time.Minute)
	if r := s.result; r.jobs != 1 || r.deleted > 0 {
		t.Errorf("%+v", r)
	}
}

// W5: where an empty directory will do, storage that fails costs a minute, and no claim.
func TestFailingStorageCostsAMinuteWhereADirectoryWillDo(t *testing.T) {
	for name, test := range map[string]struct {
		world simulated
		warm  int
	}{
		"a quota":                   {simulated{refused: true}, 0},
		"a provisioner":             {simulated{unmade: true}, 0},
		"mounts":                    {simulated{unmounted: true}, 10},
		"mounts of a single claim":  {simulated{unmounted: true}, 1},
		"mounts, and no warm claim": {simulated{unmounted: true}, 0},
	} {
		for _, runners := range []int{1, 10, 30} {
			t.Run(fmt.Sprintf("%s, %d runners", name, runners), func(t *testing.T) {
				test.world.zones = []string{"a"}
				s := simulate(t, test.world)
				s.set.Spec.VolumeClaimPool.WhenExhausted = v1alpha1.EphemeralVolume
				n := s.node("a", 100, true)
				for range test.warm {
					s.cache("a", n.name)
				}
				for wave := range 6 {
					s.jobs(runners)
					s.run(2 * time.Minute)
					if r := s.result; r.jobs != runners*(wave+1) {
						t.Fatalf("wave %d: %+v", wave, r)
					}
					s.run(4 * time.Minute)
				}
				if r := s.result; r.deleted > 0 || r.longest > 90*time.Second {
					t.Errorf("%+v", r)
				}
				s.world.refused, s.world.unmade, s.world.unmounted = false, false, false
				for range 4 {
					s.run(10 * time.Minute)
					s.jobs(1)
				}
				s.run(time.Minute)
				if s.result.hits == 0 {
					t.Errorf("no cache hits after the storage works again: %+v", s.result)
				}
			})
		}
	}
}

// W6: an expired claim serves no further job, and its place below max goes to a new one at once.
func TestExpiredClaimsEndWithTheirJob(t *testing.T) {
	for _, runners := range []int{1, 30} {
		s := simulate(t, simulated{zones: []string{"a"}, job: 10 * time.Minute})
		s.set.Spec.VolumeClaimPool.MaxAge = duration(time.Hour)
		s.set.Spec.VolumeClaimPool.Max = &runners
		s.node("a", runners, true)
		for range 20 { // jobs wait all the time
			s.jobs(runners)
			s.run(10 * time.Minute)
			for _, v := range s.volumes {
				if age := s.now.Sub(v.pvc.CreationTimestamp.Time); age > time.Hour+11*time.Minute {
					t.Fatalf("%d runners: a claim serves after %s", runners, age)
				}
			}
		}
		if r := s.result; r.longest > 2*time.Hour || r.jobs < 18*runners {
			t.Errorf("%d runners: %+v", runners, r)
		}
	}
}

// Where there is no node outside of a full place nobody tries: no claim is left that no runner needs.
func TestAFullClusterWithoutMaxMakesNoClaims(t *testing.T) {
	for zone, want := range map[string]int{"a": 5, "b": 6} { // one tries zone b
		s := simulate(t, simulated{zones: []string{"a", zone}})
		n, other := s.node("a", 5, true), s.node(zone, 5, true)
		for range 5 {
			s.cache("a", n.name)
		}
		n.taken, other.taken = 5, 5
		s.jobs(5)
		s.run(3 * time.Hour)
		n.taken, other.taken = 0, 0
		s.run(time.Minute)
		if r := s.result; r.jobs != 5 || r.hits < 4 || len(s.volumes) > want || r.deleted > 0 {
			t.Errorf("%s: %+v, %d claims, want %d", zone, r, len(s.volumes), want)
		}
	}
}

// A zone stays full, and another one has room: one tries that after pendingTimeout, and the others follow.
func TestOthersFollowWhoeverFindsRoomElsewhere(t *testing.T) {
	s := simulate(t, simulated{zones: []string{"a", "b"}})
	n := s.node("a", 10, true)
	for range 10 {
		s.cache("a", n.name)
	}
	n.taken = 10
	s.node("b", 20, true)
	s.jobs(10)
	s.run(patience)
	if r := s.result; r.jobs > 0 || r.swaps > 0 {
		t.Errorf("before pendingTimeout: %+v", r)
	}
	s.run(5 * time.Minute) // one after the other, in two steps each
	if r := s.result; r.jobs != 10 || r.deleted > 0 {
		t.Errorf("after pendingTimeout: %+v", r)
	}
}

// Somebody else's pod has a claim, and Kubernetes lets no second one have it: its runner takes another claim of the same
// zone after pendingTimeout, because others have got nodes there. The claim stays.
func TestAClaimThatSomebodyElseUsesIsLeftAlone(t *testing.T) {
	for _, most := range []int{0, 3} {
		s := simulate(t, simulated{zones: []string{"a"}, job: time.Minute})
		if most > 0 {
			s.set.Spec.VolumeClaimPool.Max = &most
		}
		n := s.node("a", 10, true)
		for range 3 {
			s.cache("a", n.name)
		}
		n.cordoned = true
		s.jobs(1)
		s.run(step)
		n.cordoned = false
		for _, pod := range s.pods {
			s.volumes[pod.claim].taken = true
		}
		for range 20 {
			s.jobs(1)
			s.run(time.Minute)
		}
		if r := s.result; r.jobs < 20 || r.swaps < 1 || r.swaps > 2 || r.deleted > 0 {
			t.Errorf("max %d: %+v", most, r)
		}
	}
}

// Where an autoscaler makes nodes and says nothing, a used claim where there is a node is better than a wait for one that
// may not come; a new claim is not.
func TestAUsedClaimWhereANodeIsIsBetterThanAWait(t *testing.T) {
	for _, good := range []int{0, 12} {
		s := simulate(t, simulated{zones: []string{"a", "b"}, delay: 90 * time.Second, broken: sets.New("b")})
		s.jobs(1)
		s.run(3 * time.Minute) // a node is made for it
		n := s.node("a", 20, true)
		for range good {
			s.cache("a", n.name)
		}
		for range 12 {
			s.cache("b", "lost")
		}
		s.jobs(12)
		s.run(time.Minute)
		if r := s.result; good > 0 && (r.hits != 12 || r.swaps == 0 || r.swaps > 12) {
			t.Errorf("%+v", r)
		} else if good == 0 && r.swaps > 0 {
			t.Errorf("nobody waits: %+v", r)
		}
	}
}
