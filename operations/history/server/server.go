// Package server answers questions about the ledger over HTTP: JSON and CSV of every table below /api/v1/, with the
// time and the filter in the address, and the pages for people at all other addresses. It only reads. Whoever may reach
// loopback of its pod may read all of it; probes and metrics, which have no rows, are a server of their own.
//
//	host ─▶ (user and what he may see) ─▶ question ─▶ table or page
package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/operations/history/access"
	"github.com/harrier-ci/harrier/operations/history/ledger"
	"github.com/harrier-ci/harrier/operations/history/prices"
	"github.com/harrier-ci/harrier/operations/history/question"
)

const (
	// maxHeaders bounds a request: none has a body.
	maxHeaders = 16 << 10
	// At most maxRequests questions are answered at a time; further ones are told to come back. Each may hold MaxSamples
	// in memory.
	maxRequests = 8
	// queryTimeout bounds a question, slowClientTimeout the time in which its answer must arrive.
	queryTimeout      = 20 * time.Second
	slowClientTimeout = 60 * time.Second
	idleTimeout       = 2 * time.Minute
)

// Options have what the answers are made of.
type Options struct {
	Ledger   access.Reader
	Prices   ledger.Prices
	Budgets  []prices.Budget
	Clock    clock.PassiveClock
	Log      logr.Logger
	Registry *prometheus.Registry
	// Sets returns how scale sets of the ledger's own cluster look at this moment; nil if nobody knows.
	Sets func() []ledger.Sample
	// Pages are for people, at all addresses that are not the API's. There are none if it is nil.
	Pages http.Handler
	// Hosts are names by which browsers may ask, besides those of loopback.
	Hosts []string
}

// New returns a server without an address, for questions or for probes.
func New(handler http.Handler) *http.Server {
	return &http.Server{
		Handler: withoutBody(handler), MaxHeaderBytes: maxHeaders, ReadHeaderTimeout: queryTimeout,
		ReadTimeout: queryTimeout, WriteTimeout: queryTimeout + slowClientTimeout, IdleTimeout: idleTimeout,
	}
}

// withoutBody refuses requests that bring something to read: no question does.
func withoutBody(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 { // -1 is a length that isn't known
			w.Header().Set("Connection", "close")
			fail(w, http.StatusRequestEntityTooLarge, "questions have no body")
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// Handler returns the handler of all questions.
func Handler(options Options) http.Handler {
	s := &server{Options: options, slots: make(chan struct{}, maxRequests)}
	s.answers = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "gha_history_request_duration_seconds", Help: "How long questions to the ledger took to answer.",
		Buckets: []float64{.01, .05, .1, .5, 1, 5, 20},
	}, []string{"table"})
	options.Registry.MustRegister(s.answers)
	mux := http.NewServeMux()
	for name, table := range tables {
		mux.HandleFunc("GET /api/v1/"+name, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, name, table) })
	}
	mux.HandleFunc("GET /api/v1/jobs/{runnerUID}",
		func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, "job", oneJob) })
	if options.Pages != nil {
		mux.Handle("/", options.Pages)
	}
	return named(options.Hosts, mux)
}

type server struct {
	Options
	slots   chan struct{}
	answers *prometheus.HistogramVec
}

// serve answers with a table, or with the error that prevents it.
func (s *server) serve(w http.ResponseWriter, r *http.Request, name string, asks table) {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	default:
		w.Header().Set("Retry-After", "1")
		fail(w, http.StatusServiceUnavailable, "too many questions at a time; ask again in a second")
		return
	}
	began := s.Clock.Now()
	ctx, cancel := context.WithTimeout(r.Context(), queryTimeout)
	defer cancel()
	takes := asks.takes
	if access.UserOf(ctx) != "" { // who may not see all namespaces has to name one, whatever he asks
		takes = append([][]string{{"namespace"}}, takes...)
	}
	asked, err := question.Parse(r.URL.Query(), began, takes...)
	var answer any
	if err == nil {
		asked.Filter.RunnerUID = cmp.Or(r.PathValue("runnerUID"), asked.Filter.RunnerUID)
		answer, err = asks.read(ctx, s, asked)
	}
	s.answers.WithLabelValues(name).Observe(s.Clock.Since(began).Seconds())
	var wrong *ledger.FilterError
	var refused *access.RefusedError
	switch {
	case errors.As(err, &refused):
		fail(w, refused.Status, err.Error())
	case err == nil:
		write(w, answer, asked.CSV)
	case errors.As(err, &wrong):
		fail(w, http.StatusBadRequest, err.Error())
	case errors.Is(err, ledger.ErrNoJob):
		fail(w, http.StatusNotFound, err.Error())
	case r.Context().Err() != nil: // nobody listens any more
	case ctx.Err() != nil:
		fail(w, http.StatusServiceUnavailable, "the database took longer than "+queryTimeout.String()+
			"; ask for less time, or choose a set or repository")
	default:
		s.Log.Error(err, "A question to the ledger can't be answered", "table", name)
		fail(w, http.StatusServiceUnavailable, "the database does not answer; the log of the ledger says why")
	}
}

// fail writes an error as JSON, as all answers are.
func fail(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": message})
}
