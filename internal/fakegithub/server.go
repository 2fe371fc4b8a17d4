package fakegithub

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

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
