// Package fakegithub is an in-memory GitHub for tests, demos and measurements:
// the REST calls by which a client registers, the Actions service with scale
// sets and JIT configs, the message queue, and a simulated runner that takes a
// JIT config and runs jobs. It is written from the description of the wire
// protocol alone and shares no code with the client it tests, so that a mistake
// on one side does not hide the same mistake on the other.
//
// What GitHub knows lives in package state, a pure state machine. This package
// adds the clock, one lock, HTTP and faults: any call can be delayed, refused,
// cut short, or lost after it was carried out. Everything under /_runner/ and
// /_control/ is private to this project.
//
// Product code never imports it.
package fakegithub

import (
	"bytes"
	"context"
	"crypto/rsa"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/internal/fakegithub/checks"
	"github.com/harrier-ci/harrier/internal/fakegithub/state"
)

// Server is a fake GitHub. Create it with New and end it with Close.
type Server struct {
	opts    Options
	handler http.Handler
	traffic traffic
	faults  faults
	done    chan struct{}
	rearm   chan struct{}
	close   sync.Once

	mu     sync.Mutex // guards what follows; never held while waiting
	state  *state.State
	checks checks.Runs
	tokens tokens
	random *rand.Rand
	armed  time.Time // when the timekeeper will look again
	http   *http.Server
}

// New starts a GitHub that knows nothing yet. It serves nothing by itself: use
// Start, or Handler in a server of your own.
func New(opts Options) *Server {
	opts.setDefaults()
	s := &Server{
		opts:   opts,
		done:   make(chan struct{}),
		rearm:  make(chan struct{}, 1),
		state:  state.New(opts.Rules, opts.RunnerGroups...),
		tokens: newTokens(&opts),
		random: newRandom(opts.Seed),
	}
	s.faults.random = newRandom(opts.Seed)
	s.traffic.counts = map[counterKey]*Counter{}
	s.handler = s.newHandler()
	go s.keepTime()
	return s
}

// Handler serves the whole fake: REST under /api/v3 or on a host that starts
// with "api.", the Actions service, the queue, /_runner/ and /_control/.
// Requests in absolute form are served too, so it can stand as an HTTP proxy.
func (s *Server) Handler() http.Handler { return s.handler }

// Start listens on addr ("127.0.0.1:0" for any free port) and returns the base
// URL. A config URL is the base URL plus "/org" or "/owner/repository".
func (s *Server) Start(addr string) (string, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return "", fmt.Errorf("listen on %s: %w", addr, err)
	}
	server := &http.Server{Handler: s.handler, ReadHeaderTimeout: 30 * time.Second}
	s.mu.Lock()
	s.http = server
	s.mu.Unlock()
	scheme := "http://"
	serving := listener
	if s.opts.TLS != nil {
		scheme, serving = "https://", tls.NewListener(listener, s.opts.TLS)
	}
	go func() { _ = server.Serve(serving) }()
	at := listener.Addr().(*net.TCPAddr)
	if at.IP.IsUnspecified() {
		at.IP = net.IPv4(127, 0, 0, 1)
	}
	return scheme + at.String(), nil
}

// Close ends every poll under way and stops listening. It may be called several times; with an httptest.Server, call it
// before that one's Close.
func (s *Server) Close() {
	s.close.Do(func() { close(s.done) })
	s.mu.Lock()
	server := s.http
	s.mu.Unlock()
	if server == nil {
		return
	}
	// Polls answer immediately now; whoever does not read the answer is cut off.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := server.Shutdown(ctx); errors.Is(err, context.DeadlineExceeded) {
		_ = server.Close()
	}
}

// do runs fn under the lock at the current time, after everything that has
// fallen due.
func (s *Server) do(fn func(now time.Time)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opts.Clock.Now()
	s.state.Advance(now)
	fn(now)
	if due, ok := s.state.NextDue(); ok && (s.armed.IsZero() || due.Before(s.armed)) {
		select {
		case s.rearm <- struct{}{}:
		default:
		}
	}
}

// keepTime lets things fall due while no request comes. One goroutine and one
// timer serve the whole fake.
func (s *Server) keepTime() {
	for {
		var fire <-chan time.Time
		stop := func() bool { return false }
		if due, wait, ok := s.arm(); ok {
			timer := s.opts.Clock.NewTimer(wait)
			fire, stop = timer.C(), timer.Stop
			// A fake clock may have moved between arm and NewTimer.
			if !s.opts.Clock.Now().Before(due) {
				stop()
				continue
			}
		}
		select {
		case <-fire:
		case <-s.rearm:
			stop()
		case <-s.done:
			stop()
			return
		}
	}
}

// arm catches up and returns the time at which there is something to do next, and the wait until then.
func (s *Server) arm() (due time.Time, wait time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opts.Clock.Now()
	s.state.Advance(now)
	due, ok = s.state.NextDue()
	s.armed = due
	return due, due.Sub(now), ok
}

// sleep waits on the server's clock; false when the caller or the server went
// away before.
func (s *Server) sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := s.opts.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-ctx.Done():
	case <-s.done:
	}
	return false
}

// The vocabulary of package state that users of a Server meet.
type (
	// Rules are the settings of what GitHub does; state.Config has the defaults.
	Rules = state.Config
	// Flow is the way in which jobs come to a scale set: Acquire or AutoAssign.
	Flow = state.Flow
	// Job is one job with its history.
	Job = state.JobView
	// JobState is the state of a job.
	JobState = state.JobState
	// Anomaly is something a correct controller never causes.
	Anomaly = state.Anomaly
	// AnomalyKind names it.
	AnomalyKind = state.AnomalyKind
	// Registration is one registration of a runner, which may have been removed.
	Registration = state.RegistrationView
	// Step is a step of a job that its runner adds by itself.
	Step = state.Step
	// CheckRun is a check run on a commit.
	CheckRun = checks.CheckRun
	// Snapshot is everything worth knowing at one moment.
	Snapshot = state.Snapshot
	// Statistics is the service's view of one scale set.
	Statistics = state.Statistics
)

// The two flows.
const (
	Acquire    = state.Acquire
	AutoAssign = state.AutoAssign
)

// App is a GitHub App that may authenticate.
type App struct {
	// ID and ClientID are both accepted as issuer; either may be empty.
	ID, ClientID string
	// Installations lists the installation ids the app has; empty accepts any.
	Installations []int64
	PublicKey     *rsa.PublicKey
}

// Options are the settings of a Server. The zero value is a hosted GitHub as
// of today with the real service's times, accepting any non-empty PAT.
type Options struct {
	Rules

	// PATs are the tokens accepted; nil accepts any that is not empty.
	PATs []string
	// PATExpires is the time at which they expire, as GitHub says; zero means never. They are accepted all the same.
	PATExpires time.Time
	// RegistrationLimit is the number of registration tokens for which a credential may ask in an hour; default 10,000.
	RegistrationLimit int
	// Apps are the apps accepted.
	Apps []App
	// Permissions are those of the Apps' installations in the REST API beside registering runners, such as actions:
	// write; nil means all.
	Permissions map[string]string
	// RunnerGroups are created beside the default group.
	RunnerGroups []string
	// AdminTokenLifetime is the life of an admin token; default 1 h.
	AdminTokenLifetime time.Duration
	// An empty long poll is held for PollLength; default 50 s.
	PollLength time.Duration
	// JITLatency and Latency delay generatejitconfig and every other call of the
	// REST API, the service and the queue.
	JITLatency, Latency time.Duration
	// Clock defaults to the real one.
	Clock clock.WithTicker
	// PublicURL is the address put into answers (service, queue); by default the
	// one the request was sent to.
	PublicURL string
	// RunnerURL is the address runners use; default PublicURL, else the address
	// the request was sent to. Needed when runners see the fake under another name.
	RunnerURL string
	// TLS, if set, makes Start serve https with it.
	TLS *tls.Config
	// Seed makes random durations and the probability of faults repeatable; default 1.
	Seed uint64
}

func (o *Options) setDefaults() {
	setDefault(&o.AdminTokenLifetime, time.Hour)
	setDefault(&o.PollLength, 50*time.Second)
	setDefault(&o.RegistrationLimit, registrationLimit)
	setDefault(&o.Seed, 1)
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Transport carries requests to the server without a network, for thousands of
// simulated runners in one process. A connection that the server would drop is
// an io.ErrUnexpectedEOF, whatever the host of the request.
func (s *Server) Transport() http.RoundTripper { return transport{s.handler} }

type transport struct{ handler http.Handler }

// RoundTrip serves the request in the caller's goroutine.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	in := r.Clone(r.Context())
	in.RequestURI = r.URL.RequestURI()
	if in.Host == "" {
		in.Host = r.URL.Host
	}
	if in.Body == nil {
		in.Body = http.NoBody
	}
	recorder := &recorder{header: http.Header{}}
	aborted := recorder.serve(t.handler, in)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if aborted && recorder.status == 0 {
		return nil, io.ErrUnexpectedEOF
	}
	body := io.Reader(&recorder.body)
	if aborted {
		body = io.MultiReader(body, cutShort{})
	}
	return &http.Response{
		StatusCode: recorder.status, Status: http.StatusText(recorder.status), Proto: "HTTP/1.1", ProtoMajor: 1,
		ProtoMinor: 1,
		Header:     recorder.header, Body: io.NopCloser(body), ContentLength: -1, Request: r,
	}, nil
}

type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (rec *recorder) Header() http.Header { return rec.header }

func (rec *recorder) WriteHeader(status int) {
	if rec.status == 0 {
		rec.status = status
	}
}

func (rec *recorder) Write(data []byte) (int, error) {
	rec.WriteHeader(http.StatusOK)
	return rec.body.Write(data)
}

// serve reports whether the handler gave up the connection, which it does by panicking.
func (rec *recorder) serve(handler http.Handler, r *http.Request) (aborted bool) {
	defer func() {
		if cause := recover(); cause != nil {
			if err, ok := cause.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				panic(cause)
			}
			aborted = true
		}
	}()
	handler.ServeHTTP(rec, r)
	return false
}

// cutShort is the rest of a body that never comes.
type cutShort struct{}

func (cutShort) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
