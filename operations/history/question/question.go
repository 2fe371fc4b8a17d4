// Package question reads from an address what is asked of the ledger: the time, the filter, the property to add up by.
// The API and the page for people ask alike, so that each table of the page is at the same address of the API.
package question

import (
	"fmt"
	"maps"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/operations/history/ledger"
)

// Question has what an address asks for.
type Question struct {
	Filter ledger.Filter
	// By is empty if the address does not have it.
	By ledger.By
	// Every is how long the times are by which trends are told, empty if the address does not have it.
	Every string
	CSV   bool
	// Month is a moment in the month that is asked about, zero if the address has none.
	Month time.Time
}

// The parts of addresses that tables and pages take, besides each other's.
var (
	Time  = []string{"from", "to"}
	Place = []string{"cluster", "namespace", "set"}
	// OfKinds are for what has kinds of jobs, and OfJobs for what has single ones.
	OfKinds = []string{"repository", "workflow", "name"}
	OfJobs  = []string{"runnerUID", "runner", "jobID", "runID", "result", "lostCause", "node", "text", "lost", "running"}
	// OfRuns are for single jobs and for trends.
	OfRuns = []string{"branch", "event"}
	// Run is a run as somebody has it before him: its number, or the address of its page.
	Run    = []string{"run"}
	By     = []string{"by"}
	Every  = []string{"every"}
	Month  = []string{"month"}
	Pages  = []string{"limit", "after"}
	Format = []string{"format"}
)

// maxText bounds a name and a value: no text in the ledger has more than 512 bytes, and no cursor.
const maxText = 1024

// shown returns as much of a text as an answer repeats.
func shown(text string) string {
	const most = 64
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// Parse reads the query of an address, of which a table or page takes some parts. It refuses all others: a filter that is
// misspelt, or that does not apply, would choose everything.
func Parse(query url.Values, now time.Time, takes ...[]string) (Question, error) {
	var q Question
	readers := q.readers(now)
	for _, name := range slices.Sorted(maps.Keys(query)) {
		values := query[name]
		value := values[0]
		if len(name) > maxText || len(value) > maxText {
			return q, &ledger.FilterError{Field: shown(name), Value: shown(value),
				Want: fmt.Sprintf("at most %d bytes", maxText)}
		}
		if len(values) > 1 {
			return q, &ledger.FilterError{Field: name, Value: shown(strings.Join(values, ", ")), Want: "given a single time"}
		}
		read, known := readers[name]
		if !known {
			return q, &ledger.FilterError{Field: name, Value: shown(value), Want: "left out: there is no such filter"}
		}
		if !slices.ContainsFunc(takes, func(of []string) bool { return slices.Contains(of, name) }) {
			return q, &ledger.FilterError{Field: name, Value: shown(value), Want: "left out: it does not apply to what is asked"}
		}
		if wanted := read(value); wanted != "" {
			return q, &ledger.FilterError{Field: name, Value: shown(value), Want: wanted}
		}
	}
	return q, nil
}

// reader reads the value of a part of an address, and returns what it must be if it can't be that.
type reader func(value string) (wanted string)

// readers has all parts that an address may have.
func (q *Question) readers(now time.Time) map[string]reader {
	f := &q.Filter
	return map[string]reader{
		"cluster": text(&f.Cluster), "namespace": text(&f.Namespace), "set": text(&f.Set),
		"repository": text(&f.Repository), "workflow": text(&f.Workflow), "name": text(&f.Name),
		"runnerUID": text(&f.RunnerUID), "runner": text(&f.Runner), "jobID": text(&f.JobID), "event": text(&f.Event), "branch": text(&f.Branch), "every": text(&q.Every),
		"result": text(&f.Result), "lostCause": text(&f.LostCause), "node": text(&f.Node), "text": text(&f.Text),
		"after": text(&f.After), "by": text(&q.By),
		"month": func(value string) string {
			var err error
			if q.Month, err = time.Parse("2006-01", value); err != nil {
				return "a month such as 2026-03"
			}
			return ""
		},
		"from": moment(&f.From, now), "to": moment(&f.To, now),
		"runID": number(&f.RunID, math.MaxInt64), "run": run(&f.RunID), "limit": number(&f.Limit, ledger.MaxJobs),
		"lost": truth(&f.Lost), "running": truth(&f.Running),
		"format": func(value string) string {
			if q.CSV = value == "csv"; !q.CSV && value != "json" {
				return "json or csv"
			}
			return ""
		},
	}
}

func text[T ~string](into *T) reader {
	return func(value string) string {
		*into = T(value)
		return ""
	}
}

// moment reads a time, or a duration before now. Days are whole ones, in UTC: 7d is the beginning of the day 7 days
// ago, so that usage by days need not be read hour by hour.
func moment(into *time.Time, now time.Time) reader {
	return func(value string) string {
		if at, err := time.Parse(time.RFC3339, value); err == nil {
			*into = at
			return ""
		}
		ago, err := ParseDuration(value)
		if err != nil || ago < 0 {
			return "a time such as 2026-03-04T12:00:00Z, or how long ago, such as 24h or 30d"
		}
		*into = now.Add(-ago)
		if strings.HasSuffix(value, "d") {
			*into = into.Truncate(24 * time.Hour)
		}
		return ""
	}
}

func number[T int | int64](into *T, most T) reader {
	return func(value string) string {
		parsed, err := strconv.ParseInt(value, 10, 64)
		if err != nil || parsed < 1 || parsed > int64(most) {
			return fmt.Sprintf("a number from 1 to %d", most)
		}
		*into = T(parsed)
		return ""
	}
}

// runAddress matches the address of a run or of one of its jobs, on any GitHub.
var runAddress = regexp.MustCompile(`^https?://[^/]+/[^/]+/[^/]+/actions/runs/([0-9]+)([/?#].*)?$`)

// run reads the number of a run, or its address.
func run(into *int64) reader {
	of := number(into, math.MaxInt64)
	return func(value string) string {
		value = strings.TrimPrefix(strings.TrimSpace(value), "#")
		if found := runAddress.FindStringSubmatch(value); found != nil {
			value = found[1]
		}
		if of(value) != "" {
			return "the number of a workflow run, or the address of its page on GitHub"
		}
		return ""
	}
}

func truth(into *bool) reader {
	return func(value string) string {
		var err error
		if *into, err = strconv.ParseBool(value); err != nil {
			return "true or false"
		}
		return ""
	}
}

// ParseDuration reads a duration as Go writes it, or whole days: 90d.
func ParseDuration(text string) (time.Duration, error) {
	const maxDays = 36500 // 100 years: more would not fit a duration
	days, are := strings.CutSuffix(text, "d")
	if !are {
		return time.ParseDuration(text)
	}
	parsed, err := strconv.ParseInt(days, 10, 64)
	if err != nil || parsed < 1 || parsed > maxDays {
		return 0, fmt.Errorf("%q: days must be a number from 1 to %d", text, maxDays)
	}
	return time.Duration(parsed) * 24 * time.Hour, nil
}
