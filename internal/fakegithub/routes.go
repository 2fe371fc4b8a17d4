package fakegithub

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/harrier-ci/harrier/internal/fakegithub/state"
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
		{"runner-downloads", "GET /rest/orgs/{owner}/actions/runners/downloads",
			restCall("organization_self_hosted_runners=read", listReleased)},
		{"runner-downloads", "GET /rest/repos/{owner}/{repo}/actions/runners/downloads",
			restCall("administration=read", listReleased)},
		{"runner-downloads", "GET /rest/enterprises/{owner}/actions/runners/downloads",
			restCall("enterprise_self_hosted_runners=read", listReleased)},
		{"runner-releases", "GET /rest/repos/actions/runner/releases", restCall("", listReleased)},
		{"get-run", "GET " + run, restCall("actions=read", getRun)},
		{"list-run-jobs", "GET " + run + "/jobs", restCall("actions=read", listRunJobs)},
		{"list-workflow-runs", "GET " + repository + "/actions/workflows/{workflow}/runs",
			restCall("actions=read", listWorkflowRuns)},
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

// reply is an answer not yet sent, so that a fault can still spoil it. Status 0
// means that nobody is there to read it.
type reply struct {
	status      int
	contentType string
	body        []byte
	header      map[string]string
}

const (
	serviceContentType = "application/json; charset=utf-8; api-version=6.0-preview.1"
	restContentType    = "application/json; charset=utf-8"
)

func jsonReply(status int, value any) reply {
	body, err := json.Marshal(value)
	if err != nil {
		// Only values of this package get here and all of them can be encoded.
		panic("fakegithub: encode answer: " + err.Error())
	}
	return reply{status: status, contentType: serviceContentType, body: body}
}

func emptyReply(status int) reply { return reply{status: status} }

// list wraps several values as the service does.
type list[T any] struct {
	Count int `json:"count"`
	Value []T `json:"value"`
}

func listReply[T any](values []T) reply {
	return jsonReply(http.StatusOK, list[T]{Count: len(values), Value: values})
}

// exception is an error of the Actions service.
type exception struct {
	status         int
	name, assembly string
}

var exceptions = map[state.Kind]exception{
	state.Invalid: {http.StatusBadRequest, "System.ArgumentException", "mscorlib"},
	state.Unauthorized: {http.StatusUnauthorized, "GitHub.Services.Common.VssUnauthorizedException",
		"GitHub.Services.Common"},
	state.ScaleSetNotFound: {http.StatusNotFound, "GitHub.Actions.Runtime.WebApi.RunnerScaleSetNotFoundException",
		"GitHub.Actions.Runtime.WebApi"},
	state.ScaleSetExists: {http.StatusBadRequest, "GitHub.Actions.Runtime.WebApi.RunnerScaleSetExistsException",
		"GitHub.Actions.Runtime.WebApi"},
	state.SessionConflict: {http.StatusConflict, "GitHub.Actions.Runtime.WebApi.RunnerScaleSetSessionConflictException",
		"GitHub.Actions.Runtime.WebApi"},
	state.SessionExpired: {http.StatusBadRequest,
		"GitHub.Actions.Runtime.WebApi.RunnerScaleSetSessionExpiredException", "GitHub.Actions.Runtime.WebApi"},
	state.SessionNotFound: {http.StatusNotFound, "RunnerAdminException", "GitHub.Actions.Runtime.WebApi"},
	state.RunnerExists: {http.StatusConflict, "GitHub.DistributedTask.WebApi.TaskAgentExistsException",
		"GitHub.DistributedTask.WebApi"},
	state.RunnerNotFound: {http.StatusNotFound, "GitHub.DistributedTask.WebApi.TaskAgentNotFoundException",
		"GitHub.DistributedTask.WebApi"},
	state.JobStillRunning: {http.StatusBadRequest, "GitHub.DistributedTask.WebApi.JobStillRunningException",
		"GitHub.DistributedTask.WebApi"},
	state.JobNotFound: {http.StatusNotFound, "GitHub.DistributedTask.WebApi.TaskAgentJobNotFoundException",
		"GitHub.DistributedTask.WebApi"},
	state.JITConfigUsed: {http.StatusConflict, "GitHub.DistributedTask.WebApi.TaskAgentSessionConflictException",
		"GitHub.DistributedTask.WebApi"},
	state.RunnerRemoved: {http.StatusGone, "GitHub.DistributedTask.WebApi.TaskAgentNotFoundException",
		"GitHub.DistributedTask.WebApi"},
	state.VersionDeprecated: {http.StatusUpgradeRequired, "GitHub.DistributedTask.WebApi.AccessDeniedException",
		"GitHub.DistributedTask.WebApi"},
}

// vssError is the body of an error of the Actions service.
type vssError struct {
	ID             string  `json:"$id"`
	InnerException *string `json:"innerException"`
	Message        string  `json:"message"`
	TypeName       string  `json:"typeName"`
	TypeKey        string  `json:"typeKey"`
	ErrorCode      int     `json:"errorCode"`
	EventID        int     `json:"eventId"`
}

func errorReply(err error) reply {
	refused, ok := errors.AsType[*state.Error](err)
	if !ok {
		refused = &state.Error{Kind: state.Invalid, Message: err.Error()}
	}
	e := exceptions[refused.Kind]
	return jsonReply(e.status, vssError{
		ID: "1", Message: refused.Message, TypeName: e.name + ", " + e.assembly, TypeKey: shortName(e.name), EventID: 3000,
	})
}

func shortName(typeName string) string {
	for i := len(typeName) - 1; i >= 0; i-- {
		if typeName[i] == '.' {
			return typeName[i+1:]
		}
	}
	return typeName
}

// restError is an error of the REST API.
func restError(status int, message string) reply {
	r := jsonReply(status, map[string]string{
		"message": message, "documentation_url": "https://docs.github.com/rest",
	})
	r.contentType = restContentType
	return r
}

// send writes the answer as the fault, if any, leaves it.
func (rep reply) send(w http.ResponseWriter, fault *Fault) {
	h := w.Header()
	h.Set("ActivityId", uuid.NewString())
	h.Set("X-GitHub-Request-Id", uuid.NewString())
	for name, value := range rep.header {
		h.Set(name, value)
	}
	if len(rep.body) == 0 {
		w.WriteHeader(rep.status)
		return
	}
	body := rep.body
	if fault != nil && fault.BOM {
		body = append([]byte("\xEF\xBB\xBF"), body...)
	}
	if fault != nil {
		body = append(body[:len(body):len(body)], bytes.Repeat([]byte(" "), fault.Blanks)...)
	}
	h.Set("Content-Type", rep.contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(rep.status)
	if fault != nil && fault.Truncate {
		_, _ = w.Write(body[:len(body)/2])
		_ = http.NewResponseController(w).Flush() // or the half would die with the connection
		// To the client, a connection that is closed after half of the announced length is an unexpected end.
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(body)
}
