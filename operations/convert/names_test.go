package convert

import (
	"testing"
	"time"

	"github.com/harrier-ci/harrier/operations/convert/legacy"
)

// In the package: a command line takes 1,000 objects at most, and 30 ms to validate each.

// Each of many of one name gets its own, in a time that grows with their number and not with its cube.
func TestManyOfOneName(t *testing.T) {
	const many = 10_000
	chosen, began := names{map[string]bool{}, map[string]int{}}, time.Now()
	for i := range many {
		name := "a"
		if i%2 == 0 {
			name = "ä" // of which nothing is left
		}
		chosen.choose(&legacy.Object{Name: name, Kind: legacy.Deployment})
		if took := time.Since(began); took > time.Minute {
			t.Fatalf("%d names take %v", i, took)
		}
	}
	if len(chosen.taken) != many {
		t.Errorf("%d objects have %d names", many, len(chosen.taken))
	}
}
