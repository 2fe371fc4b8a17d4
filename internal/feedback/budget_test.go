package feedback_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/github/rest"
	"github.com/harrier-ci/harrier/internal/feedback"
)

// As many runs as may wait, all of which go on, are looked at in an hour as often as the App's other calls allow; the
// oldest first.
func TestLooksAtRunsHaveABudget(t *testing.T) {
	const waiting = 100 // as many as of one set may wait
	for _, sets := range []int{1, 3} {
		budget, github := &feedback.Budget{}, newRun(epoch, other("in_progress", ""))
		reads := &countedReads{run: github}
		due := make([][waiting]time.Time, sets)
		for now := epoch; now.Before(epoch.Add(time.Hour)); now = now.Add(time.Second) {
			github.now = now
			for set := range due {
				for i := range due[set] {
					if now.Before(due[set][i]) {
						continue
					}
					_, err := (&feedback.Policy{Overtakes: true}).Visit(t.Context(), rest.New(reads), budget,
						&feedback.Question{Run: feedback.Run{"acme/app", 7}})
					due[set][i] = now.Add(feedback.NextLook(now.Sub(epoch), waiting))
					if spent, isSpent := errors.AsType[*feedback.SpentError](err); isSpent {
						due[set][i] = spent.Until
					} else if err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		if reads.count > 1000 || reads.count < 500 {
			t.Errorf("%d sets: %d reads in an hour", sets, reads.count)
		}
		if first := feedback.NextLook(0, 1); first != 30*time.Second {
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

// A visit that ends between the run and its jobs has seen nothing, and the next one reads the jobs: nobody takes them for
// jobs that were never there.
func TestAVisitWithoutTheJobsIsNone(t *testing.T) {
	github := newRun(epoch, other("completed", "failure"))
	question := &feedback.Question{Run: feedback.Run{"acme/app", 7}}
	reads := &unreadJobs{run: github, err: errors.New("no answer")}
	visit := func() (*feedback.Sighting, error) {
		return (&feedback.Policy{Overtakes: true}).Visit(t.Context(), rest.New(reads), &feedback.Budget{}, question)
	}
	seen, err := visit()
	if seen != nil || !errors.Is(err, reads.err) {
		t.Errorf("seen %+v, %v", seen, err)
	}
	question.Before, reads.err = seen, nil
	if seen, err = visit(); err != nil || len(seen.Jobs) != 1 {
		t.Errorf("then %+v, %v, want the job", seen, err)
	}
}

// unreadJobs doesn't say which jobs a run has while err is set.
type unreadJobs struct {
	*run
	err error
}

func (r *unreadJobs) CallREST(ctx context.Context, call actions.RESTRequest, result any) error {
	if call.Endpoint == actions.EndpointListRunJobs && r.err != nil {
		return r.err
	}
	return r.run.CallREST(ctx, call, result)
}

// The docs promise 64 writes a minute and 400 an hour, of the 80 and 500 that GitHub allows.
func TestABudgetHoldsInEveryMinuteAndHour(t *testing.T) {
	var budget feedback.Budget
	var made []time.Time
	now := epoch
	for range 3 * 3600 {
		if err := budget.Spend(actions.Account{Name: "App 1", Key: "1"}, now); err == nil {
			made = append(made, now)
		} else if spent, ok := errors.AsType[*feedback.SpentError](err); !ok || !spent.Until.After(now) ||
			spent.Until.After(now.Add(time.Hour)) {
			t.Fatalf("at %s: %v", now, err)
		}
		now = now.Add(time.Second / 2)
	}
	for i := range made {
		minute, hour := 0, 0
		for k := i; k < len(made) && made[k].Before(made[i].Add(time.Hour)); k++ {
			hour++
			if made[k].Before(made[i].Add(time.Minute)) {
				minute++
			}
		}
		if minute > 64 || hour > 400 {
			t.Fatalf("%d writes in a minute, %d in an hour", minute, hour)
		}
	}
	if len(made) < 2*400-64 {
		t.Errorf("%d writes in an hour and a half", len(made))
	}
	if budget.Spend(actions.Account{Name: "App 2", Key: "2", Owner: "b"}, now) != nil {
		t.Error("another App has to wait, too")
	}
}

// The id of an App is public: whoever names it, without a key that GitHub accepts, spends nothing of it. And of whoever
// makes up credentials, each has no budget of its own.
func TestOnlyWhoHasTheCredentialSpendsItsBudget(t *testing.T) {
	var budget feedback.Budget
	spend := func(account actions.Account, calls int) (made int) {
		for range calls {
			if budget.SpendRead(account, epoch) == nil {
				made++
			}
		}
		return made
	}
	victim := actions.Account{Name: "App 1", Key: "a's key", Owner: "a", Proven: true}
	if made := spend(actions.Account{Name: "App 1", Key: "b's key", Owner: "b"}, 2000); made != 1000 {
		t.Errorf("b made %d reads, want the 1000 of one budget", made)
	}
	if made := spend(actions.Account{Name: "App 1", Key: "b's next key", Owner: "b"}, 10); made != 0 {
		t.Errorf("b made %d more reads with another key", made)
	}
	if made := spend(victim, 1000); made != 1000 {
		t.Errorf("a made %d reads, want all of its budget", made)
	}
	if made := spend(actions.Account{Name: "App 2", Key: "a's other key", Owner: "a", Proven: true}, 10); made != 10 {
		t.Errorf("a made %d reads with another App that GitHub has accepted", made)
	}
	if made := spend(victim, 1); made != 0 {
		t.Error("the budget has no end")
	}
}
