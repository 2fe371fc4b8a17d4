package volumeclaims_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

func TestARunnerGetsTheWarmestFreeBundle(t *testing.T) {
	s := newScene(t, newSet("docker", "go"))
	for _, suffix := range []string{"22222", "bbbbb", "ccccc"} {
		s.claim("docker", suffix)
		s.claim("go", suffix)
	}
	s.runner("one", "bbbbb")
	s.plan(0)
	s.after(time.Minute)
	s.Runners = nil
	s.runner("two", "22222")
	s.plan(0)
	s.after(time.Minute)
	s.Runners = nil
	d := s.plan(4)
	docker, cache := names(d, "docker"), names(d, "go")
	if want := []string{"linux-docker-22222", "linux-docker-bbbbb",
		"linux-docker-ccccc"}; !slices.Equal(docker[:3], want) {
		t.Errorf("leased %v, want %v: those used last come first", docker, want)
	}
	for i := range docker {
		if suffix, _ := strings.CutPrefix(docker[i], "linux-docker-"); cache[i] != "linux-go-"+suffix {
			t.Errorf("%s and %s are not of one bundle", docker[i], cache[i])
		}
	}
	if len(docker) != 4 || d.Waiting != 0 || slices.Contains(docker[:3], docker[3]) {
		t.Errorf("leased %v, %d wait; the fourth runner wants a new bundle", docker, d.Waiting)
	}
}

// busy are the ways in which a bundle is not free.
func TestABundleThatIsNotFreeIsNotLeased(t *testing.T) {
	for name, take := range map[string]func(*scene){
		"a runner names it":                       func(s *scene) { s.runner("r", "22222") },
		"a runner that is being deleted names it": func(s *scene) { s.runner("r", "22222").Deleting = true },
		"a runner of which one claim is of it":    func(s *scene) { s.runner("r", "22222").Claims = map[string]string{"docker": "linux-docker-22222"} },
		"a pod mounts it":                         func(s *scene) { s.Mounted = sets.New("linux-docker-22222") },
		"a runner may exist that was promised it": func(s *scene) {
			s.memory.Promise("r", s.plan(1).Leases[0], s.Now)
			s.Expected = []string{"r"}
		},
		"it is being deleted": func(s *scene) {
			s.pvcs["linux-docker-22222"].DeletionTimestamp = &s.pvcs["linux-docker-22222"].CreationTimestamp
		},
		"its volume is gone":       func(s *scene) { s.pvcs["linux-docker-22222"].Status.Phase = "Lost" },
		"it is of another address": func(s *scene) { s.Set.Spec.GitHubConfigUrl = "https://github.com/other" },
		"it is of another group":   func(s *scene) { s.Set.Spec.RunnerGroup = "secret" },
		"a claim is copied from it": func(s *scene) {
			s.Set.Spec.VolumeClaimPool.SeedFrom = &v1alpha1.VolumeClaimSeed{PersistentVolumeClaim: "linux-docker-22222"}
			s.claim("docker", "bbbbb").Status.Phase = "Pending"
			s.runner("r", "bbbbb")
		},
		"it is the seed": func(s *scene) {
			s.Set.Spec.VolumeClaimPool.SeedFrom = &v1alpha1.VolumeClaimSeed{PersistentVolumeClaim: "linux-docker-22222"}
		},
		"its deletion was asked for": func(s *scene) {
			s.Set.Spec.VolumeClaimPool.MaxAge = duration(time.Second)
			s.after(time.Second)
			if d := s.plan(0); len(d.Deletions) != 1 {
				s.Fatalf("deletions %v", d.Deletions)
			}
			s.Set.Spec.VolumeClaimPool.MaxAge = nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, newSet("docker"))
			s.claim("docker", "22222")
			take(s)
			if d := s.plan(1); len(d.Leases) != 1 || d.Leases[0].Claims["docker"] == "linux-docker-22222" {
				t.Errorf("leases %v", d.Leases)
			}
		})
	}
}

func TestABundleIsFreeAgainWhenItsRunnerCanNotRunAnyMore(t *testing.T) {
	s := newScene(t, newSet("docker"))
	s.claim("docker", "22222")
	s.runner("failed", "22222").Done = true // kept for inspection
	if d := s.plan(1); d.Leases[0].Claims["docker"] != "linux-docker-22222" {
		t.Errorf("leases %v", d.Leases)
	}
}

func TestWhatHappensIfNoClaimIsLeft(t *testing.T) {
	for name, test := range map[string]struct {
		set     func(*v1alpha1.VolumeClaimPool)
		world   func(*scene)
		leases  []map[string]string
		waiting int
		wait    volumeclaims.Wait
	}{
		"they wait":     {waiting: 2, wait: volumeclaims.WaitForFreeClaim},
		"they need not": {set: func(p *v1alpha1.VolumeClaimPool) { p.WhenExhausted = v1alpha1.EphemeralVolume }, leases: []map[string]string{{"docker": ""}, {"docker": ""}}},
		"one that failed lately is better than none": {
			world: func(s *scene) {
				s.Runners = nil
				s.pvcs["linux-docker-22222"].Annotations[v1alpha1.AnnotationVolumeClaimFailures] = "x@" +
					s.Now.Format(time.RFC3339)
			},
			leases: []map[string]string{{"docker": "linux-docker-22222"}}, waiting: 1,
			wait: volumeclaims.WaitForFreeClaim,
		},
		"the API server refuses new claims": {
			set:     func(p *v1alpha1.VolumeClaimPool) { p.Max = nil },
			world:   func(s *scene) { s.runner("waits", "bbbbb").Failure.Kind = volumeclaims.Refused },
			waiting: 2, wait: volumeclaims.WaitForNewClaim,
		},
		"nobody has asked the API server": {world: func(s *scene) { s.Listed = false }, waiting: 2, wait: volumeclaims.WaitForList},
		"the API server has a runner that the cache doesn't show": {
			world: func(s *scene) { s.Expected = []string{"unseen"} }, waiting: 2, wait: volumeclaims.WaitForList,
		},
		"there are no templates": {world: func(s *scene) { s.Set.Spec.VolumeClaimTemplates = nil }, leases: []map[string]string{nil, nil}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, newSet("docker"))
			s.Set.Spec.VolumeClaimPool.Max = new(1)
			s.claim("docker", "22222")
			s.runner("busy", "22222")
			if test.set != nil {
				test.set(s.Set.Spec.VolumeClaimPool)
			}
			if test.world != nil {
				test.world(s)
			}
			d := s.plan(2)
			var leases []map[string]string
			for _, lease := range d.Leases {
				leases = append(leases, lease.Claims)
			}
			if diff := cmp.Diff(test.leases, leases); diff != "" || d.Waiting != test.waiting || d.Wait != test.wait {
				t.Errorf("%d wait for %q, leases (-want +got):\n%s", d.Waiting, d.Wait, diff)
			}
		})
	}
}

// A claim that was created and is not seen yet counts, also after its runner has gone.
func TestUnseenClaimsCount(t *testing.T) {
	s := newScene(t, newSet("docker"))
	s.Set.Spec.VolumeClaimPool.Max = new(1)
	s.memory.Promise("r", s.plan(1).Leases[0], s.Now)
	if d := s.plan(1); d.Waiting != 1 {
		t.Fatalf("leases %v beside one under way", d.Leases)
	}
	s.after(2 * time.Minute)
	overdue := s.memory.Overdue(s.Now)
	if len(overdue) != 1 {
		t.Fatalf("overdue %v", overdue)
	}
	s.memory.Settle(overdue, sets.New(overdue...), s.Now)
	if d := s.plan(1); d.Waiting != 1 {
		t.Errorf("leases %v beside one that exists", d.Leases)
	}
	s.after(2 * time.Minute)
	s.memory.Settle(s.memory.Overdue(s.Now), sets.New[string](), s.Now)
	if d := s.plan(1); len(d.Leases) != 1 {
		t.Errorf("%d wait though no claim exists", d.Waiting)
	}
}

// The first try may have succeeded, so that the second has to ask for the same.
func TestARepeatedCreationHasTheSameClaims(t *testing.T) {
	s := newScene(t, newSet("docker"))
	lease := s.plan(1).Leases[0]
	s.memory.Promise("r", lease, s.Now)
	s.Expected = []string{"r"}
	s.after(time.Hour)
	s.plan(0)
	again, found := s.memory.Promised("r")
	if !found || cmp.Diff(lease, again) != "" {
		t.Errorf("promised %v, then %v", lease, again)
	}
	s.Expected = nil
	s.plan(0)
	if _, found := s.memory.Promised("r"); found {
		t.Error("a promise outlives the runner")
	}
}

func TestANewTemplateAddsAClaimToEachBundleWithinTheLimit(t *testing.T) {
	s := newScene(t, newSet("docker", "go"))
	s.Set.Spec.VolumeClaimPool.Max = new(2)
	for _, suffix := range []string{"22222", "bbbbb", "ccccc"} { // one more than max, from before it was lowered
		s.claim("docker", suffix)
		s.runner("r-"+suffix, suffix).Claims = map[string]string{"docker": "linux-docker-" + suffix}
	}
	s.plan(0)
	s.Runners = nil
	d := s.plan(3)
	if len(d.Leases) != 2 || d.Waiting != 1 {
		t.Errorf("leases %v: at most two of template go may exist", d.Leases)
	}
}

func TestCopiesOfTheNewest(t *testing.T) {
	s := newScene(t, newSet("docker"))
	s.Set.Spec.VolumeClaimPool.SeedFrom = &v1alpha1.VolumeClaimSeed{Newest: true}
	s.claim("docker", "22222")
	s.claim("docker", "bbbbb")
	s.runner("r", "22222")
	s.plan(0)
	s.after(time.Second)
	s.Runners = nil

	if d := s.plan(2); d.Leases[0].Seed != "" || d.Leases[1].Seed != "" {
		t.Errorf("leases %v: nothing need be copied while there are enough", d.Leases)
	}
	d := s.plan(4)
	var seeds []string
	for _, lease := range d.Leases {
		seeds = append(seeds, lease.Seed)
	}
	if want := []string{"", "22222", "22222", "22222"}; !slices.Equal(seeds, want) ||
		d.Leases[0].Claims["docker"] != "linux-docker-bbbbb" {
		t.Errorf("leases %v, want bbbbb and three copies of 22222, which was used last", d.Leases)
	}

	// Until all copies are bound, their source is not free.
	s.memory.Promise("copy", d.Leases[1], s.Now)
	s.Expected = []string{"copy"}
	if slices.Contains(names(s.plan(9), "docker"), "linux-docker-22222") {
		t.Error("the source is leased while its copy is not created")
	}
	copied := s.claim("docker", strings.TrimPrefix(d.Leases[1].Claims["docker"], "linux-docker-"))
	copied.Status.Phase = "Pending"
	s.Expected = nil
	s.runner("copy", copied.Name[len("linux-docker-"):]).Seed = "22222"
	if slices.Contains(names(s.plan(9), "docker"), "linux-docker-22222") {
		t.Error("the source is leased while its copy is not bound")
	}
	copied.Status.Phase = "Bound"
	if !slices.Contains(names(s.plan(1), "docker"), "linux-docker-22222") {
		t.Error("the source stays unused though its copy is bound")
	}
}

// What an earlier process created last counts, though the cache doesn't show it and its runner has gone.
func TestInheritedClaimsCount(t *testing.T) {
	s := newScene(t, newSet("docker"))
	s.Set.Spec.VolumeClaimPool.Max = new(1)
	claim, _ := volumeclaims.ClaimOf(s.Set, s.claim("docker", "22222"))
	clear(s.pvcs)
	s.memory.Inherit([]volumeclaims.Claim{claim}, s.Now)
	if d := s.plan(1); d.Waiting != 1 || d.Wait != volumeclaims.WaitForFreeClaim {
		t.Errorf("leases %v beside one that exists", d.Leases)
	}
}

func BenchmarkPlanOfAThousandRunners(b *testing.B) {
	set := newSet("docker")
	memory := volumeclaims.NewMemory(set.Name)
	world := volumeclaims.World{Set: set, Now: start, Listed: true, Suffix: volumeclaims.RandomSuffix,
		Mounted: sets.New[string]()}
	world.Claims = nil
	for _, lease := range memory.Observe(&world).Plan(1000).Leases {
		world.Runners = append(world.Runners,
			volumeclaims.Runner{Name: lease.Claims["docker"], Claims: lease.Claims, CreatedAt: start})
	}
	for b.Loop() {
		memory.Observe(&world).Plan(1)
	}
}
