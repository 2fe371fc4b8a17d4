package feedback

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
)

// GitHub lets an App make 80 requests a minute, and 500 an hour, that create content, and 5,000 an hour of any kind,
// which registrations of runners need, too. Check runs leave a fifth of the writes for reruns, and these leave a
// twentieth for what the manager wrote before it was restarted; of the others, looks at workflow runs and check runs may
// take a fifth.
const (
	writesPerMinute = 64
	writesPerHour   = 400
	rerunsPerMinute = 76
	rerunsPerHour   = 475
	readsPerHour    = 1000
	// Links to logs are nobody's need: they have what is left of the first half of the reads.
	linksPerHour = readsPerHour / 2
)

// RunsPerHour is the number of workflow runs about whose lost jobs can be decided in an hour: six answers are read of
// each, from its first look to what the attempt that was asked for has.
const RunsPerHour = readsPerHour / 6

// Budget limits what is written and read with one credential. Until GitHub has accepted that, it also counts for the
// namespace whose it is: otherwise one would have a budget for each credential that it makes up. It is safe for
// concurrent use. The zero value has spent nothing.
type Budget struct {
	mu            sync.Mutex
	writes, reads spending
}

// payer is an account, or a namespace that has shown no account.
type payer struct {
	namespace bool
	name, key string
}

// spending has the times at which each payer made calls in the last hour, oldest first.
type spending map[payer][]time.Time

// limit allows a payer a number of calls in a period.
type limit struct {
	calls  int
	period time.Duration
}

// SpentError reports that an account has written or read as much as it may.
type SpentError struct {
	Account string
	// It may do so again at Until.
	Until time.Time
}

// Error names the account.
func (e *SpentError) Error() string {
	return fmt.Sprintf("%s may write %d check runs a minute and %d an hour, with reruns %d and %d, and read %d answers about "+
		"workflow runs and check runs an hour, %d of them for links to logs: going on at %s", e.Account, writesPerMinute, writesPerHour,
		rerunsPerMinute, rerunsPerHour, readsPerHour, linksPerHour, e.Until.UTC().Format(time.RFC3339))
}

// Spend notes that a check run is about to be written. It fails with *SpentError if that would be too many.
func (b *Budget) Spend(account actions.Account, now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return spend(&b.writes, account, now, limit{writesPerMinute, time.Minute}, limit{writesPerHour, time.Hour})
}

// SpendRerun is Spend for a request to run jobs again, which has what check runs leave.
func (b *Budget) SpendRerun(account actions.Account, now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return spend(&b.writes, account, now, limit{rerunsPerMinute, time.Minute}, limit{rerunsPerHour, time.Hour})
}

// SpendRead is Spend for a call that reads a workflow run or a check run.
func (b *Budget) SpendRead(account actions.Account, now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return spend(&b.reads, account, now, limit{readsPerHour, time.Hour})
}

// SpendLink is SpendRead for a call that finds out where logs are, which leaves half of the reads to others.
func (b *Budget) SpendLink(account actions.Account, now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return spend(&b.reads, account, now, limit{linksPerHour, time.Hour})
}

func spend(of *spending, account actions.Account, now time.Time, limits ...limit) error {
	if *of == nil {
		*of = spending{}
	}
	payers := []payer{{name: account.Name, key: account.Key}}
	if !account.Proven {
		payers = append(payers, payer{namespace: true, name: account.Owner})
	}
	for _, pays := range payers {
		spent := lastHour((*of)[pays], now)
		for _, most := range limits {
			if len(spent) < most.calls {
				continue
			}
			if until := spent[len(spent)-most.calls].Add(most.period); now.Before(until) {
				return &SpentError{account.Name, until}
			}
		}
	}
	// Credentials go with their sets, and what they have spent goes an hour later.
	maps.DeleteFunc(*of, func(_ payer, spent []time.Time) bool { return len(lastHour(spent, now)) == 0 })
	for _, pays := range payers {
		(*of)[pays] = append(lastHour((*of)[pays], now), now)
	}
	return nil
}

// lastHour returns the times that count.
func lastHour(spent []time.Time, now time.Time) []time.Time {
	for len(spent) > 0 && !now.Before(spent[0].Add(time.Hour)) {
		spent = spent[1:]
	}
	return spent
}
