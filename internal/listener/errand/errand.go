// Package errand has the part that all work of a listener with somebody else shares: one attempt at a time, pauses that
// grow while attempts fail, and the cause of the failure. It starts nothing and reads no clock: the loop reports what
// it begins, the result, and the time.
package errand

import (
	"math/rand/v2"
	"time"

	"github.com/harrier-ci/harrier/internal/listener/failure"
)

// Errand is one piece of work that is attempted until it succeeds, and perhaps again after that. Make it with New.
type Errand struct {
	// UnderWay is set from Begin to End.
	UnderWay bool
	// The next attempt may begin at NotBefore, zero if nothing keeps it waiting.
	NotBefore time.Time
	// Failure is the failure of the last attempt, nil if it succeeded.
	Failure *failure.Failure

	// first and longest bound the pauses.
	first, longest time.Duration
	// failures counts failures in a row.
	failures int
	// random returns a part of a pause.
	random func(most time.Duration) time.Duration
}

// longestSpread bounds the time by which the next attempt begins later than asked. 200 listeners of one GitHub App are
// limited at the same moment and told the same end: within 30 s they come back 7 a second.
const longestSpread = 30 * time.Second

// New returns an errand whose pause after the first failure is at most first, and at most longest after many.
func New(first, longest time.Duration) Errand {
	random := func(most time.Duration) time.Duration { return rand.N(most + 1) } //nolint:gosec // needs no secrecy
	return Errand{first: first, longest: longest, random: random}
}

// Begin remembers that an attempt has begun.
func (e *Errand) Begin() { e.UnderWay = true }

// End remembers that the attempt has ended. One of the methods below is called with its result.
func (e *Errand) End() { e.UnderWay = false }

// Succeed remembers that nothing is known to be wrong. It leaves NotBefore as it is.
func (e *Errand) Succeed() {
	e.Failure = nil
	e.ResetPauses()
}

// Fail remembers that an attempt has failed: the next one waits for a pause, and for what the answer asked for. It
// returns err with what happens next, or with what to do about it.
func (e *Errand) Fail(err error, now time.Time) error {
	explained := e.Remember(err, now)
	e.Pause(now)
	if at := e.AllowedAt(err, now); at.After(e.NotBefore) {
		e.NotBefore = at
	}
	return explained
}

// AllowedAt returns the time at which GitHub, or a gateway in front of it, allows the next attempt by what it answered,
// now if it named no time. The moment is up to half a minute later than asked for, but at most twice as late: other
// listeners were told the same.
func (e *Errand) AllowedAt(err error, now time.Time) time.Time {
	asked := failure.AskedBackoff(err, now)
	return now.Add(asked + e.random(min(asked, longestSpread)))
}

// Remember remembers why an attempt failed, without a pause. It returns the same as Fail.
func (e *Errand) Remember(err error, now time.Time) error {
	reason, explained := failure.Explain(err)
	e.RememberAs(reason, explained, now)
	return explained
}

// RememberAs is Remember for an error that did not come from GitHub.
func (e *Errand) RememberAs(reason string, err error, now time.Time) {
	e.Failure = e.Failure.Next(reason, err, now)
}

// Pause counts a failure and makes the next attempt wait: first·2ⁿ after n earlier failures, at most longest, and of
// that a random part between half and all, so that listeners that lost the same server do not return at the same time.
func (e *Errand) Pause(now time.Time) {
	const doublings = 20 // keeps the shift from overflowing: 1 ms becomes 17 min, more than any longest pause
	pause := min(e.first<<min(e.failures, doublings), e.longest)
	e.failures++
	e.NotBefore = now.Add(pause/2 + e.random(pause/2))
}

// ResetPauses makes the next pause a first one again.
func (e *Errand) ResetPauses() { e.failures = 0 }
