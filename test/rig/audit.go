package rig

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/internal/testkube"
)

// Requests are the requests of the product to the API server.
type Requests struct {
	// Manager and Listener count by verb and resource, such as "create pods" or "patch ephemeralrunners/status".
	Manager, Listener map[string]int
	// Created counts objects created, by resource.
	Created map[string]int
	// Refused lists requests whose last answer was 403, which means that the charts grant too little. The API server
	// enforces a new Role with a delay, so a request that was refused at first and granted when repeated does not
	// count.
	Refused []string
	// Unserved counts requests that the API server has answered with 429 or 5xx, because it or etcd was too busy. They
	// are repeated, and are counted each time above.
	Unserved int
}

// Requests counts what manager and listeners have requested from the API server since the rig began, without watches
// and leader election.
func (r *Rig) Requests() Requests {
	r.t.Helper()
	events, err := r.Cluster.AuditEvents(testkube.AuditFilter{Since: r.Started, After: r.audited})
	if err != nil {
		r.t.Fatal(err)
	}
	counted := Requests{Manager: map[string]int{}, Listener: map[string]int{}, Created: map[string]int{}}
	refused := refusals{}
	for _, event := range events {
		if counts := r.countsFor(event, counted); counts != nil {
			counted.add(event, counts)
			refused.note(event)
		}
	}
	counted.Refused = refused.requests()
	return counted
}

// refusals record for each request whether its last answer was 403.
type refusals map[string]bool

func (r refusals) note(event testkube.AuditEvent) {
	// Without parameters, because permissions don't depend on them and a repetition may have others.
	path, _, _ := strings.Cut(event.RequestURI, "?")
	r[fmt.Sprintf("%s: %s %s", event.User.Username, event.Verb, path)] = event.Response.Code == http.StatusForbidden
}

func (r refusals) requests() (refused []string) {
	for _, request := range slices.Sorted(maps.Keys(r)) {
		if r[request] {
			refused = append(refused, request)
		}
	}
	return refused
}

// countsFor returns the counter of the program that made the request, nil if the request is not the product's or is not
// counted.
func (r *Rig) countsFor(event testkube.AuditEvent, counted Requests) map[string]int {
	prefix := testkube.ServiceAccountUser(r.SystemNamespace, "")
	account, ours := strings.CutPrefix(event.User.Username, prefix)
	switch {
	case !ours || event.Verb == "watch" || event.Object.Resource == "leases":
		return nil
	case account == ControllerAccount:
		return counted.Manager
	default:
		return counted.Listener
	}
}

func (c *Requests) add(event testkube.AuditEvent, counts map[string]int) {
	what := event.Verb + " " + event.Object.Resource
	if event.Object.Subresource != "" {
		what += "/" + event.Object.Subresource
	}
	counts[what]++
	if code := event.Response.Code; code == http.StatusTooManyRequests || code >= http.StatusInternalServerError {
		c.Unserved++
	}
	if event.Verb == "create" && event.Response.Code == http.StatusCreated && !event.DryRun() {
		c.Created[event.Object.Resource]++
	}
}

// Total returns the number of requests of both programs.
func (c Requests) Total() int {
	total := 0
	for _, counts := range []map[string]int{c.Manager, c.Listener} {
		for _, count := range counts {
			total += count
		}
	}
	return total
}

// Minus returns the requests since an earlier count. Refused stays as it is.
func (c Requests) Minus(earlier Requests) Requests {
	return Requests{
		Manager: minus(c.Manager, earlier.Manager), Listener: minus(c.Listener, earlier.Listener),
		Created: minus(c.Created, earlier.Created), Refused: c.Refused, Unserved: c.Unserved - earlier.Unserved,
	}
}

func minus(counts, earlier map[string]int) map[string]int {
	more := map[string]int{}
	for what, count := range counts {
		if count > earlier[what] {
			more[what] = count - earlier[what]
		}
	}
	return more
}

// String returns a line per kind of request.
func (c Requests) String() string {
	var text strings.Builder
	for program, counts := range map[string]map[string]int{"manager": c.Manager, "listener": c.Listener} {
		for _, what := range slices.Sorted(maps.Keys(counts)) {
			fmt.Fprintf(&text, "%s %5d %s\n", program, counts[what], what)
		}
	}
	return text.String()
}

// LastCreation returns the time at which the manager requested the creation of the count-th object of a resource in the
// runners' namespace since the rig began. The test fails if there are fewer.
func (r *Rig) LastCreation(resource string, count int) time.Time {
	r.t.Helper()
	events, err := r.Cluster.AuditEvents(testkube.AuditFilter{
		Since: r.Started, After: r.audited, Namespace: r.RunnerNamespace,
		User: testkube.ServiceAccountUser(r.SystemNamespace, ControllerAccount),
	})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, event := range events {
		if event.Verb != "create" || event.Object.Resource != resource || event.Response.Code != http.StatusCreated ||
			event.DryRun() {
			continue
		}
		if count--; count == 0 {
			return event.Received
		}
	}
	r.t.Fatalf("the manager has created too few %s: %d are missing", resource, count)
	return time.Time{}
}
