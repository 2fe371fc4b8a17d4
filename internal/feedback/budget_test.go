package feedback

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/github/rest"
)

// As many runs as may wait, all of which go on, are looked at in an hour as often as the App's other calls allow; the
// oldest first.
func TestLooksAtRunsHaveABudget(t *testing.T) {
	for _, sets := range []int{1, 3} {
		budget, github := &Budget{}, newRun(epoch, other("in_progress", ""))
		reads := &countedReads{run: github}
		due := make([][mostUndecided]time.Time, sets)
		for now := epoch; now.Before(epoch.Add(time.Hour)); now = now.Add(time.Second) {
			github.now = now
			for set := range due {
				for i := range due[set] {
					if now.Before(due[set][i]) {
						continue
					}
					_, err := Visit(t.Context(), rest.New(reads), budget, Run{"acme/app", 7}, nil)
					due[set][i] = now.Add(NextLook(now.Sub(epoch), mostUndecided))
					if spent, isSpent := errors.AsType[*SpentError](err); isSpent {
						due[set][i] = spent.Until
					} else if err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		if reads.count > readsPerHour || reads.count < readsPerHour/2 {
			t.Errorf("%d sets: %d reads in an hour", sets, reads.count)
		}
		if first := NextLook(0, 1); first != firstLook {
			t.Errorf("a run that is alone is looked at after %s", first)
		}
	}
}

type countedReads struct {
	*run
	count int
}

func (r *countedReads) CallREST(ctx context.Context, call actions.RESTRequest, result any) error {
	r.count++
	return r.run.CallREST(ctx, call, result)
}
