// Package ledger asks the ledger of jobs, `manager history`, over its API: at an address that the user names, or in the
// pod of the manager's release, by a port that is forwarded to it. Nothing that it answers is trusted: it is bounded in
// size and time, and who shows it cleans it.
//
//	find (a pod, or an address) ─▶ ask (one table, a time and a filter) ─▶ rows
package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// longestAnswer is more than the ledger takes: it gives up after 20 s.
	longestAnswer = 30 * time.Second
	// largestAnswer is more than a table has: at most 1,000 rows, of some kilobytes each if all names are as long as
	// they may be.
	largestAnswer = 16 << 20
	// An answer that is no table is read up to largestRefusal.
	largestRefusal = 64 << 10
)

// Ledger is one that can be asked.
type Ledger struct {
	// Where names its address or its pod, for messages.
	Where  string
	client *http.Client
	base   *url.URL
	// forwarded is what kubectl port-forward takes for its pod, empty if it is at an address.
	forwarded string
}

// Jobs returns the jobs that a filter chooses, the youngest first, and whether there are more than the ledger returns
// at a time.
func (l *Ledger) Jobs(ctx context.Context, filter url.Values) (jobs []Job, more bool, err error) {
	page := struct {
		Jobs []Job
		Next string
	}{}
	err = l.ask(ctx, "jobs", filter, &page)
	return page.Jobs, page.Next != "", err
}

// Usage returns the usage of jobs that have finished, the largest cost or run time first.
func (l *Ledger) Usage(ctx context.Context, filter url.Values) (Part[Usage], error) {
	return page[Usage](ctx, l, "usage", filter)
}

// Waits returns the waits of jobs for each phase and in all, those first whose whole wait is longest, of a page those with
// most jobs.
func (l *Ledger) Waits(ctx context.Context, filter url.Values) (Part[Wait], error) {
	return page[Wait](ctx, l, "waits", filter)
}

// Sizes returns the requests of jobs and what they use of them, the largest saving first, of a page the dearest.
func (l *Ledger) Sizes(ctx context.Context, filter url.Values) (Part[Size], error) {
	return page[Size](ctx, l, "sizes", filter)
}

// Budgets returns what is spent of budgets in a month.
func (l *Ledger) Budgets(ctx context.Context, filter url.Values) (spending []Spending, err error) {
	err = l.ask(ctx, "budgets", filter, &spending)
	return spending, err
}

// Trends returns how jobs ended, ran and waited over time: of each group a row for the whole time first.
func (l *Ledger) Trends(ctx context.Context, filter url.Values) (Part[Trend], error) {
	return page[Trend](ctx, l, "trends", filter)
}

// Changes returns what got worse in the last week.
func (l *Ledger) Changes(ctx context.Context, filter url.Values) (Part[Change], error) {
	return page[Change](ctx, l, "changes", filter)
}

// Gaps returns the times in which no ledger looked.
func (l *Ledger) Gaps(ctx context.Context, filter url.Values) (gaps []Gap, err error) {
	err = l.ask(ctx, "gaps", filter, &gaps)
	return gaps, err
}

// page reads a table that comes in pages.
func page[T any](ctx context.Context, l *Ledger, table string, filter url.Values) (page Part[T], err error) {
	header, err := l.read(ctx, table, filter, &page.Rows)
	page.Next = header.Get("X-Next")
	page.Total, _ = strconv.ParseInt(header.Get("X-Total"), 10, 64) // an older ledger doesn't tell it
	return page, err
}

// ask reads a table. Its error names the cause, the next step and whose step it is.
func (l *Ledger) ask(ctx context.Context, table string, filter url.Values, into any) error {
	_, err := l.read(ctx, table, filter, into)
	return err
}

// read is ask, with the headers of the answer.
func (l *Ledger) read(ctx context.Context, table string, filter url.Values, into any) (http.Header, error) {
	ctx, stop := context.WithTimeout(ctx, longestAnswer)
	defer stop()
	address := l.base.JoinPath("api/v1", table)
	address.RawQuery = filter.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("ask the ledger at %s: %w", l.Where, err)
	}
	request.Header.Set("Accept", "application/json")
	answer, err := l.client.Do(request)
	if unreached, is := errors.AsType[*unreachedError](err); is {
		return nil, l.unreached(unreached.cause)
	}
	if err != nil {
		return nil, fmt.Errorf("ask the ledger at %s: %w; %s", l.Where, err, l.reach())
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, l.refusal(answer)
	}
	sent := answer.Header.Get("Content-Type")
	if kind, _, err := mime.ParseMediaType(sent); err != nil || kind != "application/json" {
		return nil, fmt.Errorf("what answers at %s is no ledger of jobs: it sends %q; %s", l.Where, sent, l.reach())
	}
	body := &io.LimitedReader{R: answer.Body, N: largestAnswer + 1}
	switch err := json.NewDecoder(body).Decode(into); {
	case body.N == 0:
		return nil, fmt.Errorf("the ledger at %s answers with more than %d MiB; ask for less time, or choose a "+
			"repository or scale set", l.Where, largestAnswer>>20)
	case err != nil:
		return nil, fmt.Errorf("read the answer of the ledger at %s: %w", l.Where, err)
	}
	return answer.Header, nil
}

// reach is the next step if there is no answer.
func (l *Ledger) reach() string {
	if l.forwarded != "" {
		return fmt.Sprintf("another way is kubectl port-forward %s %s with --history-url http://localhost:%[2]s", l.forwarded,
			port)
	}
	return "check --history-url: it is the address of the page, such as http://localhost:8090 with kubectl port-forward"
}

// askForRole is the next step of whoever may not ask.
const askForRole = "ask the cluster's administrator for the Role harrier-history in docs/kubectl-harrier.md"

// refusal returns the meaning of an answer without a table: the ledger's own words, or those of what stands before it.
func (l *Ledger) refusal(answer *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(answer.Body, largestRefusal))
	if err != nil {
		return fmt.Errorf("read the answer of the ledger at %s: %w", l.Where, err)
	}
	var said struct{ Error string }
	if json.Unmarshal(body, &said) == nil && said.Error != "" {
		return fmt.Errorf("the ledger at %s answers: %s", l.Where, said.Error)
	}
	switch code := answer.StatusCode; {
	case code == http.StatusNotFound:
		return fmt.Errorf("there is no %s at %s: a ledger that is older than this plugin may lack it; %s",
			answer.Request.URL.Path, l.Where, l.reach())
	case code == http.StatusUnauthorized:
		return fmt.Errorf("something before the ledger at %s asks who comes; put a name and a password into the "+
			"address, or use kubectl port-forward", l.Where)
	case code >= 300 && code < 400:
		return fmt.Errorf("something before the ledger at %s sends on to %s, which may be a login; name the address "+
			"itself, or use kubectl port-forward", l.Where, answer.Header.Get("Location"))
	}
	return fmt.Errorf("the ledger at %s answers with %s; %s", l.Where, answer.Status, l.reach())
}

// unreached returns what it means that no port could be forwarded.
func (l *Ledger) unreached(err error) error {
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		return fmt.Errorf("forward a port to %s: %w; %s", l.Where, err, askForRole)
	}
	return fmt.Errorf("forward a port to %s: %w; the cluster's administrator finds out whether the pod is ready, and "+
		"whether the API server reaches its node; %s", l.Where, err, l.reach())
}
