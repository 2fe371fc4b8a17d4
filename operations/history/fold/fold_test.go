package fold_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/harrier-ci/harrier/operations/history/fold"
)

// count is the simplest sums: a number of jobs.
type count struct{ jobs int64 }

func kinds(most int) *fold.Kinds[*count] {
	return fold.New(most, fold.Rules[*count]{
		New: func() *count { return &count{} }, Merge: func(into, from *count) { into.jobs += from.jobs },
		Weight: func(of *count) int64 { return of.jobs },
	})
}

// TestSumsStayExact draws names that repeat and names that don't, in every dimension, and compares the sums of what is
// kept with those of all jobs: in all, of each repository and of each workflow that is kept.
func TestSumsStayExact(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 1))
		most := 1 + random.IntN(60)
		folded := kinds(most)
		repositories, workflows, all := map[string]int64{}, map[string]int64{}, int64(0)
		spread := func() int { return 1 + int(random.ExpFloat64()*float64(1+random.IntN(100))) }
		names := [3]int{spread(), spread(), spread()}
		for range random.IntN(3000) {
			kind := fold.Kind{Repository: fmt.Sprint(random.IntN(names[0])), Workflow: fmt.Sprint(random.IntN(names[1])),
				Name: fmt.Sprint(random.IntN(names[2]))}
			if random.IntN(500) == 0 {
				kind.Workflow = fold.Others // who really calls it so
			}
			folded.Of(kind).jobs++
			all++
			repositories[kind.Repository]++
			workflows[kind.Repository+"/"+kind.Workflow]++
			if held := folded.Held(); held > 2*most {
				t.Fatalf("seed %d: %d kinds are held, and %d may be kept", seed, held, most)
			}
		}
		rows, keptAll := 0, int64(0)
		keptRepositories, keptWorkflows := map[string]int64{}, map[string]int64{}
		for kind, of := range folded.All() {
			rows++
			keptAll += of.jobs
			keptRepositories[kind.Repository] += of.jobs
			keptWorkflows[kind.Repository+"/"+kind.Workflow] += of.jobs
		}
		if rows > most || keptAll != all {
			t.Fatalf("seed %d: %d rows of %d have %d of %d jobs", seed, rows, most, keptAll, all)
		}
		if _, some := keptRepositories[fold.Others]; !some { // no repository was folded
			for name, jobs := range keptRepositories {
				if jobs != repositories[name] {
					t.Fatalf("seed %d: repository %s has %d of %d jobs", seed, name, jobs, repositories[name])
				}
			}
		}
		for name, jobs := range keptWorkflows {
			if jobs > workflows[name] && name[len(name)-1] != ')' {
				t.Fatalf("seed %d: workflow %s has %d of %d jobs", seed, name, jobs, workflows[name])
			}
		}
	}
}

// TestAFloodCostsNobodyElse has one author name everything differently, in one dimension after the other, before, while
// and after a neighbour's jobs run, in an order that is worst for the neighbour.
func TestAFloodCostsNobodyElse(t *testing.T) {
	const most, flood = 100, 4_000
	for dimension, name := range map[string]func(number int) fold.Kind{
		"names":        func(n int) fold.Kind { return fold.Kind{"evil/app", "evil/app/ci", fmt.Sprint("test ", n)} },
		"workflows":    func(n int) fold.Kind { return fold.Kind{"evil/app", fmt.Sprint("evil/app/", n), "test"} },
		"both":         func(n int) fold.Kind { return fold.Kind{"evil/app", fmt.Sprint("w", n%300), fmt.Sprint(n)} },
		"repositories": func(n int) fold.Kind { return fold.Kind{fmt.Sprint("evil/", n), "w", "test"} },
	} {
		t.Run(dimension, func(t *testing.T) {
			folded := kinds(most)
			good := func(number int) fold.Kind {
				return fold.Kind{"good/app", fmt.Sprint("good/app/", number%4), fmt.Sprint("job ", number%20)}
			}
			for number := range flood {
				folded.Of(name(number)).jobs += 10
				if number%(flood/200) == 0 {
					folded.Of(good(number / (flood / 200))).jobs += 100
				}
			}
			kept := map[fold.Kind]int64{}
			for kind, of := range folded.All() {
				kept[kind] = of.jobs
			}
			for number := range 20 {
				if got := kept[good(number)]; got != 1000 {
					t.Errorf("%v has %d of 1000 jobs", good(number), got)
				}
			}
		})
	}
}

// TestANeighbourInTheSameRepositoryKeepsItsNames: a workflow that names its jobs by commits beside one that does not.
func TestANeighbourInTheSameRepositoryKeepsItsNames(t *testing.T) {
	folded := kinds(50)
	for number := range 5000 {
		folded.Of(fold.Kind{"acme/app", "acme/app/generated", fmt.Sprint("test ", number)}).jobs += 5
		folded.Of(fold.Kind{"acme/app", "acme/app/ci", fmt.Sprint("job ", number%10)}).jobs++
		folded.Of(fold.Kind{"acme/app", "acme/app/generated", "build"}).jobs += 5
	}
	kept := map[fold.Kind]int64{}
	for kind, of := range folded.All() {
		kept[kind] = of.jobs
	}
	for number := range 10 {
		if got := kept[fold.Kind{"acme/app", "acme/app/ci", fmt.Sprint("job ", number)}]; got != 500 {
			t.Errorf("job %d ran 500 times, and counts %d", number, got)
		}
	}
	if got := kept[fold.Kind{"acme/app", "acme/app/generated", "build"}]; got != 25_000 {
		t.Errorf("what repeats counts %d of 25000", got)
	}
	if others := (fold.Kind{"acme/app", "acme/app/generated", fold.Others}); kept[others] < 20_000 || !others.Folded() {
		t.Errorf("the others count %d", kept[others])
	}
}
