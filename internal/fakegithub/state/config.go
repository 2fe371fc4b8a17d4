package state

import "time"

// Flow is the way in which jobs come to a scale set.
type Flow string

const (
	// AutoAssign is today's hosted service: JobAssigned comes immediately, as far as the advertised capacity allows.
	AutoAssign Flow = "auto-assign"
	// Acquire is GHES and the older hosted service: jobs are offered with
	// JobAvailable and the client asks for them.
	Acquire Flow = "acquire"
)

// Config holds the rules of one State. Durations of zero switch the behaviour
// off, unless the field says otherwise.
type Config struct {
	// Flow defaults to AutoAssign.
	Flow Flow
	// MultiLabel lets scale sets have more labels than their name.
	MultiLabel bool
	// FirstMessageID defaults to 100000000, where the hosted service starts.
	FirstMessageID int64
	// An abandoned session blocks its scale set for SessionLifetime; default 90 s: the real service still refuses after
	// 60 s and has let go at 91 s.
	SessionLifetime time.Duration
	// QueueTokenLifetime defaults to 50 min.
	QueueTokenLifetime time.Duration
	// PickupTimeout cancels an assigned job that no runner has started.
	PickupTimeout time.Duration
	// ReassignDelay is the pause before such a job is assigned again; it doubles
	// each time. Default 10 s.
	ReassignDelay time.Duration
	// OfferRepeat sends JobAvailable again for offers nobody has taken.
	OfferRepeat time.Duration
	// ZeroIsFinal bars a job for ever from every fitting scale set whose session announces a capacity of 0 when the job
	// is queued, and leaves statistics out of that session's messages, as was seen of the hosted service a single time.
	// A scale set without a session, or with one that has not polled yet, bars nothing.
	ZeroIsFinal bool
	// RerunsOnlyFailed leaves cancelled jobs out of "re-run failed jobs". Some report that GitHub does, others that it
	// runs them again.
	RerunsOnlyFailed bool
	// RunnerLinger keeps the record of a finished runner, still "running", for a while.
	RunnerLinger time.Duration
	// A runner that has been out of touch for RunnerLostAfter counts as offline and its job as failed; default 60 s. A
	// test that moves a fake clock by more in one step may catch a runner between two requests and should raise it.
	RunnerLostAfter time.Duration
	// RemoveUnknown404 answers 404 instead of success to removing an unknown runner.
	RemoveUnknown404 bool
	// HideVersions leaves the version out of the records of runners.
	HideVersions bool
}

func (c *Config) setDefaults() {
	if c.Flow == "" {
		c.Flow = AutoAssign
	}
	setDefault(&c.FirstMessageID, 100_000_000)
	setDefault(&c.SessionLifetime, 90*time.Second)
	setDefault(&c.QueueTokenLifetime, 50*time.Minute)
	setDefault(&c.ReassignDelay, 10*time.Second)
	setDefault(&c.RunnerLostAfter, time.Minute)
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
