package fakegithub

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Duration is a time.Duration that JSON writes as "1m30s".
type Duration time.Duration

// MarshalJSON writes the duration as a string.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalJSON reads a string such as "1m30s"; negative ones are refused.
func (d *Duration) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("a duration is a string such as \"1m30s\": %w", err)
	}
	parsed, err := time.ParseDuration(text)
	if err != nil {
		return err
	}
	if parsed < 0 {
		return fmt.Errorf("duration %s is negative", text)
	}
	*d = Duration(parsed)
	return nil
}

// A fault drops the connection before the call is carried out, or after it, so that only the answer is lost.
const (
	DropBefore = "before"
	DropAfter  = "after"
)

// Fault is a rule by which calls go wrong. Of several rules that fit, the oldest
// applies.
type Fault struct {
	// ID is given by AddFault.
	ID string `json:"id,omitempty"`
	// Endpoint is a pattern as of path.Match over endpoint names, such as
	// "get-message", "*-session" or "*". Private endpoints ("simulated-runner/…")
	// are hit only when named with their slash.
	Endpoint string `json:"endpoint"`
	// Status, unless 0, is answered instead of carrying the call out, with Body,
	// ContentType (default application/json) and Headers.
	Status      int               `json:"status,omitempty"`
	Body        string            `json:"body,omitempty"`
	ContentType string            `json:"contentType,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	// Delay holds the call first. Hang never answers: the connection ends when
	// the client gives up or the fault is removed.
	Delay Duration `json:"delay,omitempty"`
	Hang  bool     `json:"hang,omitempty"`
	// Drop closes the connection: DropBefore or DropAfter.
	Drop string `json:"drop,omitempty"`
	// Truncate sends half of the body; BOM puts a byte order mark before it.
	Truncate bool `json:"truncate,omitempty"`
	BOM      bool `json:"bom,omitempty"`
	// Blanks is the number of blanks after the body, by which an answer is long and still says the same.
	Blanks int `json:"blanks,omitempty"`
	// Probability is the share of fitting calls hit; 0 means all.
	Probability float64 `json:"probability,omitempty"`
	// The fault is used up after it has hit Count calls; 0 means no limit.
	Count int `json:"count,omitempty"`
	// Skip lets that many fitting calls through first.
	Skip int `json:"skip,omitempty"`
	// From and Until limit the time; zero means no limit.
	From  time.Time `json:"from,omitzero"`
	Until time.Time `json:"until,omitzero"`

	lifted chan struct{} // closed when the fault is removed
}

// validate refuses what would silently do nothing, so that a test does not pass
// because its fault never struck.
func (f *Fault) validate() error {
	if _, err := path.Match(f.Endpoint, ""); err != nil || f.Endpoint == "" {
		return fmt.Errorf("endpoint %q is not a pattern", f.Endpoint)
	}
	if !slices.Contains([]string{"", DropBefore, DropAfter}, f.Drop) {
		return fmt.Errorf("drop %q is neither %q nor %q", f.Drop, DropBefore, DropAfter)
	}
	return f.validateNumbers()
}

func (f *Fault) validateNumbers() error {
	if f.Status != 0 && (f.Status < 200 || f.Status > 599) {
		return fmt.Errorf("status %d is not between 200 and 599", f.Status)
	}
	if f.Probability < 0 || f.Probability > 1 {
		return fmt.Errorf("probability %v is not between 0 and 1", f.Probability)
	}
	if min(f.Count, f.Skip, f.Blanks, int(f.Delay)) < 0 {
		return errors.New("count, skip, blanks and delay must not be negative")
	}
	return nil
}

func (f *Fault) answer() reply {
	if f.Status == 0 {
		return reply{}
	}
	rep := reply{status: f.Status, body: []byte(f.Body), contentType: f.ContentType, header: f.Headers}
	setDefault(&rep.contentType, "application/json; charset=utf-8")
	return rep
}

// faults are the rules in force.
type faults struct {
	mu     sync.Mutex
	random *rand.Rand
	lastID int
	rules  []*Fault
}

func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 2)) }

// match returns a copy of the rule that hits this call, or nil.
func (fs *faults) match(endpoint string, now time.Time) *Fault {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for i, f := range fs.rules {
		if !f.fits(endpoint, now) || (f.Probability > 0 && fs.random.Float64() >= f.Probability) {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		hit := *f
		if f.Count > 0 {
			if f.Count--; f.Count == 0 {
				fs.rules = slices.Delete(fs.rules, i, i+1)
			}
		}
		return &hit
	}
	return nil
}

func (f *Fault) fits(endpoint string, now time.Time) bool {
	if now.Before(f.From) || (!f.Until.IsZero() && !now.Before(f.Until)) {
		return false
	}
	matched, _ := path.Match(f.Endpoint, endpoint)
	return matched
}

// AddFault puts a rule in force and returns its id. It fails when the rule makes
// no sense.
func (s *Server) AddFault(f Fault) (string, error) {
	if err := f.validate(); err != nil {
		return "", fmt.Errorf("add fault: %w", err)
	}
	fs := &s.faults
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.lastID++
	f.ID, f.lifted = strconv.Itoa(fs.lastID), make(chan struct{})
	fs.rules = append(fs.rules, &f)
	return f.ID, nil
}

// Faults returns the rules in force.
func (s *Server) Faults() []Fault {
	fs := &s.faults
	fs.mu.Lock()
	defer fs.mu.Unlock()
	rules := []Fault{}
	for _, f := range fs.rules {
		rules = append(rules, *f)
	}
	return rules
}

// RemoveFault lifts a rule, or all with an empty id; calls hanging in it end. It returns the number of rules that were
// lifted. A rule that is used up is lifted already, but calls hanging in it go on until their client gives up.
func (s *Server) RemoveFault(id string) int {
	fs := &s.faults
	fs.mu.Lock()
	defer fs.mu.Unlock()
	before := len(fs.rules)
	fs.rules = slices.DeleteFunc(fs.rules, func(f *Fault) bool {
		if id == "" || f.ID == id {
			close(f.lifted)
			return true
		}
		return false
	})
	return before - len(fs.rules)
}

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

// Resources of the REST API whose use GitHub limits, and the number of uses by a credential in an hour.
const (
	coreResource         = "core"
	coreLimit            = 5000
	registrationResource = "actions_runner_registration"
	registrationLimit    = 10000

	limitWindow = time.Hour
)

// allowance counts what a credential has used of a resource in the window that ends at reset.
type allowance struct {
	used  int
	reset time.Time
}

// spender is a credential with an allowance of a resource.
type spender struct{ credential, resource string }

// spend notes a request of a credential. It returns the headers that tell the client where it stands; allowed is false
// where the limit is used up.
func (t *tokens) spend(now time.Time, who spender, limit int) (header map[string]string, allowed bool) {
	maps.DeleteFunc(t.spent, func(_ spender, a allowance) bool { return !now.Before(a.reset) })
	a, known := t.spent[who]
	if !known {
		a.reset = now.Add(limitWindow)
	}
	allowed = a.used < limit
	if allowed {
		a.used++
	}
	t.spent[who] = a
	return map[string]string{
		"X-RateLimit-Limit":     strconv.Itoa(limit),
		"X-RateLimit-Used":      strconv.Itoa(a.used),
		"X-RateLimit-Remaining": strconv.Itoa(limit - a.used),
		"X-RateLimit-Reset":     strconv.FormatInt(a.reset.Unix(), 10),
		"X-RateLimit-Resource":  who.resource,
	}, allowed
}

// limited carries out a call of the REST API if the credential may make it, and adds to the answer what is left of the
// limit.
func (t *tokens) limited(now time.Time, who spender, limit int, carryOut func() reply) reply {
	header, allowed := t.spend(now, who, limit)
	rep := restError(http.StatusForbidden, "API rate limit exceeded. Please wait until it is reset.")
	if allowed {
		rep = carryOut()
	}
	maps.Copy(header, rep.header)
	rep.header = header
	return rep
}

// Secondary limits of requests that create content, as GitHub documents them.
const (
	contentsPerMinute = 80
	contentsPerHour   = 500
)

// mayCreate notes that an App, or a person's token, creates content, and tells whether the secondary limits allow it.
func (t *tokens) mayCreate(now time.Time, who string) bool {
	made := slices.DeleteFunc(t.created[who], func(at time.Time) bool { return now.Sub(at) >= time.Hour })
	lately := 0
	for _, at := range made {
		if now.Sub(at) < time.Minute {
			lately++
		}
	}
	allowed := len(made) < contentsPerHour && lately < contentsPerMinute
	if allowed {
		made = append(made, now)
	}
	t.created[who] = made
	return allowed
}
