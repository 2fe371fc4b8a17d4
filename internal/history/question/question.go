// Package question reads from an address what is asked of the ledger: the time, the filter, what to add up by. The API
// and the page for people ask alike, so that each table of the page is at the same address of the API.
package question

import (
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/internal/history/ledger"
)

// Question is what an address asks for.
type Question struct {
	Filter ledger.Filter
	By     ledger.By
	CSV    bool
}

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

// Parse reads the query of an address. It refuses what it does not know: a misspelt filter would choose everything.
func Parse(query url.Values, now time.Time) (q Question, err error) {
	f := &q.Filter
	q.By = ledger.ByRepository
	texts := map[string]*string{
		"cluster": &f.Cluster, "namespace": &f.Namespace, "set": &f.Set, "repository": &f.Repository, "workflow": &f.Workflow,
		"name": &f.Name, "runnerUID": &f.RunnerUID, "runner": &f.Runner, "jobID": &f.JobID, "event": &f.Event,
		"result": &f.Result, "lostCause": &f.LostCause, "node": &f.Node, "text": &f.Text, "after": &f.After,
		"by": (*string)(&q.By),
	}
	for name, values := range query {
		value := values[0]
		if len(name) > maxText || len(value) > maxText {
			return q, &ledger.FilterError{Field: shown(name), Value: shown(value),
				Want: fmt.Sprintf("at most %d bytes", maxText)}
		}
		if len(values) > 1 {
			return q, &ledger.FilterError{Field: name, Value: shown(strings.Join(values, ", ")), Want: "given a single time"}
		}
		if text, known := texts[name]; known {
			*text = value
			continue
		}
		switch name {
		case "from":
			f.From, err = moment(name, value, now)
		case "to":
			f.To, err = moment(name, value, now)
		case "runID":
			f.RunID, err = number(name, value, math.MaxInt64)
		case "limit":
			var limit int64
			limit, err = number(name, value, ledger.MaxJobs)
			f.Limit = int(limit)
		case "lost":
			f.Lost, err = truth(name, value)
		case "running":
			f.Running, err = truth(name, value)
		case "format":
			if q.CSV = value == "csv"; !q.CSV && value != "json" {
				err = &ledger.FilterError{Field: name, Value: value, Want: "json or csv"}
			}
		default:
			err = &ledger.FilterError{Field: name, Value: value, Want: "left out: there is no such filter"}
		}
		if err != nil {
			return q, err
		}
	}
	return q, nil
}

// moment reads a time, or how long ago it was.
func moment(name, value string, now time.Time) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, value); err == nil {
		return at, nil
	}
	if ago, err := ParseDuration(value); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	return time.Time{}, &ledger.FilterError{Field: name, Value: value,
		Want: "a time such as 2026-03-04T12:00:00Z, or how long ago, such as 24h or 30d"}
}

// maxDays is 100 years: more would not fit a duration.
const maxDays = 36500

// ParseDuration reads a duration as Go writes it, or whole days: 90d.
func ParseDuration(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		number, err := number("duration", days, maxDays)
		return time.Duration(number) * 24 * time.Hour, err
	}
	return time.ParseDuration(text)
}

func number(name, value string, most int64) (int64, error) {
	parsed, err := strconv.ParseInt(value, 10, 64)
	if err != nil || parsed < 1 || parsed > most {
		return 0, &ledger.FilterError{Field: name, Value: value, Want: "a number from 1 to " + strconv.FormatInt(most, 10)}
	}
	return parsed, nil
}

func truth(name, value string) (bool, error) {
	is, err := strconv.ParseBool(value)
	if err != nil {
		return false, &ledger.FilterError{Field: name, Value: value, Want: "true or false"}
	}
	return is, nil
}
