// Package period has the arithmetic of the times in which the ledger adds jobs up: how long they are, and which of them
// make up a time that somebody asks about. It knows nothing of jobs and of the database.
package period

import (
	"slices"
	"time"
)

// What spans are made of, in seconds.
const (
	Hour int64 = 60 * 60
	Day  int64 = 24 * Hour
	week int64 = 7 * Day
)

// Latest is the last second that fits any database and clock: in the year 3058. A later time was not read from a clock.
const Latest = 1 << 35

// Spans are those of periods, in seconds, in UTC. A job counts in the periods in which it finished. An hour is added up
// from its jobs, and a longer period from those of the span before. Weeks begin on Thursdays, as 1970 did. With them a
// question about 90 days reads 8 rows of each kind of job on average, and 13 at most, in place of 90.
var Spans = []int64{Hour, Day, week, 4 * week}

// OfSets is the span of the periods in which all jobs of a scale set are added up together.
func OfSets(span int64) int64 { return -span }

// OfWorkflows is the span of the periods in which all jobs of each workflow of a scale set are added up together.
func OfWorkflows(span int64) int64 { return -span - 1 }

// OfKinds is the span of the periods in which each kind of jobs is added up.
func OfKinds(span int64) int64 { return span }

// Part is a time that is read from periods of one span: of those that begin at From or later, and before To.
type Part struct{ Span, From, To int64 }

// Cover returns the periods that make up a time, of these spans. Its ends are widened to whole hours.
func Cover(from, to time.Time, spans []int64) (parts []Part) {
	last, next := int64(Latest), int64(0)
	if !to.IsZero() {
		last = to.Unix() + (Hour-to.Unix()%Hour)%Hour
	}
	if !from.IsZero() {
		next = max(0, from.Unix()-from.Unix()%Hour)
	}
	read := func(span, until int64) {
		if until = min(until, last-last%span); until > next {
			parts = append(parts, Part{span, next, until})
			next = until
		}
	}
	for i, longer := range spans[1:] { // to where the first longer period begins
		read(spans[i], next+(longer-next%longer)%longer)
	}
	for _, span := range slices.Backward(spans) {
		read(span, last)
	}
	return parts
}
