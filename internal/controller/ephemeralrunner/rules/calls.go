package rules

import "time"

const (
	// FirstRetryBackoff is the pause after the first failed call. It doubles with every further failure, up to
	// LongestRetryBackoff. By then the client itself has repeated the call for 30 s. LongestAwayBackoff replaces it
	// while the API server is away: its return must be noticed within seconds, because a job waits.
	FirstRetryBackoff   = time.Second
	LongestRetryBackoff = time.Minute
	LongestAwayBackoff  = 10 * time.Second
	// BusyRetryBackoff follows a refusal of GitHub to remove a runner because it has a job.
	BusyRetryBackoff = 30 * time.Second
)

// Failure says why a call did not do what it should. It is an error.
//
//nolint:errname // the rules decide on it; that it is an error only carries it out of the pool
type Failure struct {
	Kind            Kind
	Reason, Message string
	// AllowedAt is the time from which GitHub allows the next request, zero if it did not say.
	AllowedAt time.Time
}

func (f *Failure) Error() string { return f.Message }

// Kind says what follows from a failure.
type Kind int

const (
	// Temporary: try again later.
	Temporary Kind = iota
	// Away: the same, because the API server is away.
	Away
	// Invalid: the pod or Secret can't be created as the template has it.
	Invalid
	// NameTaken: a runner of another scale set, or somebody else's pod or Secret, has the name.
	NameTaken
	// Closed: the namespace or the runner is being deleted, so nothing can be created for it any more.
	Closed
	// Busy: GitHub says that the runner has a job.
	Busy
	// NotFound: the answer was that there is no such registration, but it may not have come from GitHub itself.
	NotFound
)

// Progress says how far a call about a runner is that runs outside of passes: its launch, or the removal of its
// registration.
type Progress struct {
	Known, Running bool
	Failure        *Failure  // nil if it succeeded or has not ended
	FinishedAt     time.Time // when it ended
	RetryAt        time.Time // when it may be repeated after a failure
}

// Busy reports whether GitHub refused because the runner has a job.
func (p Progress) Busy() bool { return p.Failure != nil && p.Failure.Kind == Busy }

// Succeeded reports whether the call has ended without a failure.
func (p Progress) Succeeded() bool { return p.Known && !p.Running && p.Failure == nil }

// AskAgain reports whether to make the call now, and if not, when: zero if it is under way or has succeeded.
func (p Progress) AskAgain(now time.Time) (ask bool, at time.Time) {
	switch {
	case p.Running || p.Succeeded():
		return false, time.Time{}
	case now.Before(p.RetryAt):
		return false, p.RetryAt
	default:
		return true, time.Time{}
	}
}
