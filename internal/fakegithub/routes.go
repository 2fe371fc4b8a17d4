package fakegithub

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// maxBody is the largest request body read; the biggest legitimate ones are a
// few KB.
const maxBody = 1 << 20

// request is one call with its body already read.
type request struct {
	*http.Request
	body []byte
}

// endpoint is one call of the fake. Faults and counters go by its name; names
// with a slash are private ones that a fault for "*" does not hit.
type endpoint struct {
	name, pattern string
	handle        func(*Server, *request) reply
}

// Prefixes of the names of endpoints that GitHub does not have.
const (
	runnerEndpoints  = "simulated-runner/"
	controlEndpoints = "control/"
)

// endpoints lists every call GitHub has, and those of the simulated runner. The patterns have the form that canonical
// gives to an address.
func endpoints() []endpoint {
	const (
		sets     = "/services/{service}/_apis/runtime/runnerscalesets"
		set      = sets + "/{id}"
		sessions = set + "/sessions"
		groups   = "/services/{service}/_apis/runtime/runnergroups"
		agents   = "/services/{service}/_apis/distributedtask/pools/0/agents"

		repository = "/rest/repos/{owner}/{repo}"
		run        = repository + "/actions/runs/{run}"
	)
	return []endpoint{
		{"access-token", "POST /rest/app/installations/{installation}/access_tokens", (*Server).createAccessToken},
		{"registration-token", "POST /rest/{kind}/{owner}/actions/runners/registration-token",
			(*Server).createRegistrationToken},
		{"registration-token", "POST /rest/{kind}/{owner}/{repo}/actions/runners/registration-token",
			(*Server).createRegistrationToken},
		{"list-runners", "GET /rest/{kind}/{owner}/actions/runners", (*Server).listRunners},
		{"list-runners", "GET /rest/{kind}/{owner}/{repo}/actions/runners", (*Server).listRunners},
		{"get-run", "GET " + run, restCall("actions=read", getRun)},
		{"list-run-jobs", "GET " + run + "/jobs", restCall("actions=read", listRunJobs)},
		{"rerun-job", "POST " + repository + "/actions/jobs/{job}/rerun", restCall("actions=write", rerun)},
		{"rerun-failed-jobs", "POST " + run + "/rerun-failed-jobs", restCall("actions=write", rerun)},
		{"list-check-runs", "GET " + repository + "/commits/{sha}/check-runs", restCall("checks=read", listCheckRuns)},
		{"create-check-run", "POST " + repository + "/check-runs", restCall("checks=write", createCheckRun)},
		{"update-check-run", "PATCH " + repository + "/check-runs/{check}", restCall("checks=write", updateCheckRun)},
		{"runner-registration", "POST /rest/actions/runner-registration", (*Server).registerClient},
		{"find-scale-sets", "GET " + sets, admin(findScaleSets)},
		{"get-scale-set", "GET " + set, admin(getScaleSet)},
		{"create-scale-set", "POST " + sets, admin(createScaleSet)},
		{"update-scale-set", "PATCH " + set, admin(updateScaleSet)},
		{"delete-scale-set", "DELETE " + set, admin(deleteScaleSet)},
		{"find-runner-groups", "GET " + groups + "/{$}", admin(findRunnerGroups)},
		{"find-runner-groups", "GET " + groups, admin(findRunnerGroups)},
		{"create-session", "POST " + sessions, admin(createSession)},
		{"refresh-session", "PATCH " + sessions + "/{session}", admin(refreshSession)},
		{"delete-session", "DELETE " + sessions + "/{session}", admin(deleteSession)},
		{"acquire-jobs", "POST " + set + "/acquirejobs", (*Server).acquireJobs},
		{"acquirable-jobs", "GET " + set + "/acquirablejobs", admin(acquirableJobs)},
		{"generate-jit-config", "POST " + set + "/generatejitconfig", admin(generateJITConfig)},
		{"get-runner", "GET " + agents + "/{id}", admin(getRunner)},
		{"find-runners", "GET " + agents, admin(findRunners)},
		{"remove-runner", "DELETE " + agents + "/{id}", admin(removeRunner)},
		{"get-message", "GET /scalesets/message", (*Server).getMessage},
		{"delete-message", "DELETE /scalesets/message/{message}", (*Server).deleteMessage},
		{runnerEndpoints + "connect", "POST /_runner/connect", (*Server).runnerConnect},
		{runnerEndpoints + "wait", "POST /_runner/wait", (*Server).runnerWait},
		{runnerEndpoints + "report", "POST /_runner/report", (*Server).runnerReport},
		{runnerEndpoints + "leave", "POST /_runner/leave", (*Server).runnerLeave},
	}
}

// newHandler sends every request through canonical and serve, unknown ones too,
// so that a client's wrong address shows up in counters and log.
func (s *Server) newHandler() http.Handler {
	mux := http.NewServeMux()
	for _, ep := range append(endpoints(), controls()...) {
		mux.HandleFunc(ep.pattern, func(w http.ResponseWriter, r *http.Request) { s.serve(ep, w, r) })
	}
	unknown := endpoint{name: "unknown", handle: func(_ *Server, r *request) reply {
		return restError(http.StatusNotFound, "Not Found")
	}}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { s.serve(unknown, w, r) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mux.ServeHTTP(w, canonical(r))
	})
}

var slashes = regexp.MustCompile(`/{2,}`)

// canonical brings both REST bases to one prefix and collapses the double
// slashes that old clients send; the mux would redirect those.
func canonical(r *http.Request) *http.Request {
	r = r.Clone(r.Context())
	path := slashes.ReplaceAllString(r.URL.Path, "/")
	hosted := strings.HasPrefix(r.Host, "api.")
	if rest, ok := strings.CutPrefix(path, "/api/v3/"); ok && !hosted {
		path = "/rest/" + rest
	} else if hosted {
		path = "/rest" + path
	} else if strings.HasPrefix(path, "/rest/") {
		path = "/unknown" // the internal prefix is nobody's address
	}
	r.URL.Path, r.URL.RawPath = path, ""
	return r
}

// serve carries a call through faults, delays and its handler, and notes it.
func (s *Server) serve(ep endpoint, w http.ResponseWriter, r *http.Request) {
	begin := s.opts.Clock.Now()
	// Before the answer goes out: whoever has it finds the call counted.
	note := func(status int) {
		s.traffic.note(LogEntry{
			Time: begin, Endpoint: ep.name, Method: r.Method, Path: r.URL.Path,
			Status: status, Duration: Duration(s.opts.Clock.Since(begin)),
		})
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		note(http.StatusBadRequest)
		restError(http.StatusBadRequest, "Problems reading the request body").send(w, nil)
		return
	}
	fault := s.faults.match(ep.name, begin)
	rep, ok := s.prevented(r, ep, fault)
	if !ok {
		rep = ep.handle(s, &request{Request: r, body: body})
	}
	if rep.status == 0 || (fault != nil && fault.Drop == DropAfter) {
		note(0)
		panic(http.ErrAbortHandler)
	}
	note(rep.status)
	// The fake's own clock, by which clients can tell when its tokens expire.
	w.Header().Set("Date", s.opts.Clock.Now().UTC().Format(http.TimeFormat))
	rep.send(w, fault)
}

// prevented applies what happens before the call is carried out. ok tells that
// it must not be carried out and rep is the answer.
func (s *Server) prevented(r *http.Request, ep endpoint, fault *Fault) (rep reply, ok bool) {
	delay := s.latency(ep.name)
	if fault != nil {
		delay += time.Duration(fault.Delay)
	}
	if !s.sleep(r.Context(), delay) {
		return reply{}, true
	}
	if fault == nil {
		return reply{}, false
	}
	if fault.Hang {
		select {
		case <-r.Context().Done():
		case <-fault.lifted:
		case <-s.done:
		}
		return reply{}, true
	}
	return fault.answer(), fault.Status != 0 || fault.Drop == DropBefore
}

// latency is the configured delay of an endpoint; private ones have none, as they
// stand for things that don't cross the client's network.
func (s *Server) latency(name string) time.Duration {
	switch {
	case strings.Contains(name, "/"):
		return 0
	case name == "generate-jit-config":
		return s.opts.JITLatency
	}
	return s.opts.Latency
}
