package feedback

import (
	"fmt"
	"sync"
	"time"
)

// GitHub lets an App make 80 requests a minute, and 500 an hour, that create content. A fifth is left for reruns, and for what the manager
// wrote before it was restarted.
const (
	writesPerMinute = 64
	writesPerHour   = 400
)

// Budget limits what is written for the scale sets of one App. It is safe for concurrent use. The zero value has spent nothing.
type Budget struct {
	mu sync.Mutex
	// spent has when each account wrote in the last hour, oldest first.
	spent map[string][]time.Time
}

// SpentError says that an account has written as much as it may.
type SpentError struct {
	Account string
	// Until is when it may write again.
	Until time.Time
}

// Error names the account.
func (e *SpentError) Error() string {
	return fmt.Sprintf("%s has written %d check runs in a minute, or %d in an hour: writing again at %s",
		e.Account, writesPerMinute, writesPerHour, e.Until.UTC().Format(time.RFC3339))
}

// Spend notes a write that is about to be made. It fails with *SpentError if that would be too many.
func (b *Budget) Spend(account string, now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	spent := b.spent[account]
	for len(spent) > 0 && !now.Before(spent[0].Add(time.Hour)) {
		spent = spent[1:]
	}
	for _, limit := range []struct {
		writes int
		period time.Duration
	}{{writesPerMinute, time.Minute}, {writesPerHour, time.Hour}} {
		if len(spent) < limit.writes {
			continue
		}
		if until := spent[len(spent)-limit.writes].Add(limit.period); now.Before(until) {
			return &SpentError{account, until}
		}
	}
	if b.spent == nil {
		b.spent = map[string][]time.Time{}
	}
	b.spent[account] = append(spent, now)
	return nil
}
