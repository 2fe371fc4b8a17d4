package limits

import "time"

// settleGrace passes before another reason takes the place of one that no longer holds: each change is an Event, and
// makes new check runs. A set at its maximum has a job less for moments.
const settleGrace = time.Minute

// Settled chooses the reason for a set's limit that is told, and leaves out reasons that pass. If none is told, the
// first that comes is told immediately. When that has not held for a minute, the reason that seems to hold then takes
// its place.
type Settled struct {
	told    string
	turnsAt time.Time
}

// SettledOn begins with the reason that was told before, such as by the manager before this one.
func SettledOn(told string) *Settled { return &Settled{told: told} }

// Told returns the reason that is told, "" if nothing is.
func (s *Settled) Told() string { return s.told }

// Note takes in the reason that seems to hold now, "" if none does. It returns the reason that is told from now on, and
// the time to look again because that may change by itself; zero means never.
func (s *Settled) Note(seen string, now time.Time) (told string, again time.Time) {
	switch {
	case seen == s.told:
		s.turnsAt = time.Time{}
	case s.told == "" || (!s.turnsAt.IsZero() && !now.Before(s.turnsAt)):
		s.told, s.turnsAt = seen, time.Time{}
	case s.turnsAt.IsZero():
		s.turnsAt = now.Add(settleGrace)
	}
	return s.told, s.turnsAt
}
