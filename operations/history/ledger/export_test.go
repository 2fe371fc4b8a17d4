package ledger

import (
	"time"

	"github.com/harrier-ci/harrier/operations/history/ledger/addup"
)

// EndCallsAfter has calls of the database end sooner than they do by themselves.
func (l *Ledger) EndCallsAfter(timeout time.Duration) { l.timeout = timeout }

// MaxKinds is the limit of kinds of a scale set and period.
const MaxKinds = addup.MaxKinds
