package fakegithub

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// maxLog limits the requests that the log remembers: some minutes of 1,000 sets at rest, a few MB at most.
const maxLog = 16384

// Counter counts the calls of one endpoint.
type Counter struct {
	Endpoint string `json:"endpoint"`
	Method   string `json:"method"`
	Count    int    `json:"count"`
	// ByStatus counts the answers; 0 stands for a connection dropped unanswered.
	ByStatus map[int]int `json:"byStatus"`
}

// LogEntry is one request. Query strings are left out: they can hold session ids.
type LogEntry struct {
	Time     time.Time `json:"time"`
	Endpoint string    `json:"endpoint"`
	Method   string    `json:"method"`
	Path     string    `json:"path"`
	Status   int       `json:"status"`
	Duration Duration  `json:"duration"`
}

type counterKey struct{ method, endpoint string }

// traffic has a lock of its own so that counting never waits for the state.
type traffic struct {
	mu     sync.Mutex
	counts map[counterKey]*Counter
	ring   []LogEntry
	next   int
}

// note counts and logs a request; those of the control API would only bury the rest.
func (t *traffic) note(entry LogEntry) {
	if strings.HasPrefix(entry.Endpoint, controlEndpoints) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	key := counterKey{entry.Method, entry.Endpoint}
	c, ok := t.counts[key]
	if !ok {
		c = &Counter{Endpoint: entry.Endpoint, Method: entry.Method, ByStatus: map[int]int{}}
		t.counts[key] = c
	}
	c.Count++
	c.ByStatus[entry.Status]++
	if len(t.ring) < maxLog {
		t.ring = append(t.ring, entry)
		return
	}
	t.ring[t.next] = entry
	t.next = (t.next + 1) % maxLog
}

// Counters returns the number of calls of each endpoint, sorted by name.
func (s *Server) Counters() []Counter {
	t := &s.traffic
	t.mu.Lock()
	defer t.mu.Unlock()
	counters := []Counter{}
	for _, c := range t.counts {
		copied := *c
		copied.ByStatus = map[int]int{}
		for status, n := range c.ByStatus {
			copied.ByStatus[status] = n
		}
		counters = append(counters, copied)
	}
	slices.SortFunc(counters, func(a, b Counter) int {
		return strings.Compare(a.Endpoint+" "+a.Method, b.Endpoint+" "+b.Method)
	})
	return counters
}

// Calls returns the number of calls of an endpoint, whatever it answered.
func (s *Server) Calls(endpoint string) int {
	calls := 0
	for _, c := range s.Counters() {
		if c.Endpoint == endpoint {
			calls += c.Count
		}
	}
	return calls
}

// Requests returns the last requests, oldest first.
func (s *Server) Requests() []LogEntry {
	t := &s.traffic
	t.mu.Lock()
	defer t.mu.Unlock()
	return append(slices.Clone(t.ring[t.next:]), t.ring[:t.next]...)
}
