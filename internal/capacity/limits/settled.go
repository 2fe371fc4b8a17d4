package limits

import "time"

// settlesIn is how long what is told must not have been so before something else is told: each turn is an Event, and
// makes new check runs. A set at its maximum has a job less for moments.
const settlesIn = time.Minute

// Settled is what is told to limit a set: what seems to be so at a moment, without what passes. The first that comes
// when nothing is told is told at once. When that has not been so for a minute, what seems to be so then takes its
// place.
type Settled struct {
	told    string
	turnsAt time.Time
}

// SettledOn returns what was told before, such as by the manager before this one.
func SettledOn(told string) *Settled { return &Settled{told: told} }

// Told returns the reason that is told, "" if nothing is.
func (s *Settled) Told() string { return s.told }

// Note takes in the reason that seems to hold now, "" if none does. It returns what is told from now on, and when to
// look again because that may change by itself; zero means never.
func (s *Settled) Note(seen string, now time.Time) (told string, again time.Time) {
	switch {
	case seen == s.told:
		s.turnsAt = time.Time{}
	case s.told == "" || (!s.turnsAt.IsZero() && !now.Before(s.turnsAt)):
		s.told, s.turnsAt = seen, time.Time{}
	case s.turnsAt.IsZero():
		s.turnsAt = now.Add(settlesIn)
	}
	return s.told, s.turnsAt
}
