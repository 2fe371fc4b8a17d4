package fakegithub

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"

	"github.com/harrier-ci/harrier/internal/fakegithub/state"
)

// Action is something done to the fake from outside; which fields count depends
// on its name.
type Action struct {
	// Action is one of expire-admin-tokens, expire-queue-tokens, evict-sessions,
	// delete-scale-set, remove-runner, forget-runner, count-phantoms, revoke-pat, restore-pat, move-service,
	// deprecate-runners, undeprecate-runners, add-runner-group, end-jobs, set-permissions.
	Action     string `json:"action"`
	ScaleSetID int    `json:"scaleSetId,omitempty"` // evict-sessions (0 for all), delete-scale-set, count-phantoms
	RunnerID   int    `json:"runnerId,omitempty"`   // remove-runner, forget-runner
	Count      int    `json:"count,omitempty"`      // count-phantoms
	Token      string `json:"token,omitempty"`      // revoke-pat, restore-pat
	Version    string `json:"version,omitempty"`    // deprecate-runners; empty for all
	Name       string `json:"name,omitempty"`       // add-runner-group
	// Permissions are those of set-permissions; none is everything.
	Permissions map[string]string `json:"permissions,omitempty"`
}

// controls are the endpoints of the control API.
func controls() []endpoint {
	named := func(name string) string { return controlEndpoints + name }
	return []endpoint{
		{named("healthz"), "GET /_control/healthz", func(*Server, *request) reply { return emptyReply(http.StatusOK) }},
		{named("queue-jobs"), "POST /_control/jobs", controlQueueJobs},
		{named("list-jobs"), "GET /_control/jobs", controlListJobs},
		{named("cancel-job"), "DELETE /_control/jobs/{id}", controlCancelJob},
		{named("check-runs"), "GET /_control/check-runs",
			func(s *Server, _ *request) reply { return listReply(s.CheckRuns()) }},
		{named("state"), "GET /_control/state",
			func(s *Server, _ *request) reply { return jsonReply(http.StatusOK, s.Snapshot()) }},
		{named("counters"), "GET /_control/counters", func(s *Server, _ *request) reply { return listReply(s.Counters()) }},
		{named("requests"), "GET /_control/requests", func(s *Server, _ *request) reply { return listReply(s.Requests()) }},
		{named("list-faults"), "GET /_control/faults", func(s *Server, _ *request) reply { return listReply(s.Faults()) }},
		{named("add-fault"), "POST /_control/faults", controlAddFault},
		{named("remove-faults"), "DELETE /_control/faults", func(s *Server, _ *request) reply {
			return jsonReply(http.StatusOK, countAnswer{s.RemoveFault("")})
		}},
		{named("remove-fault"), "DELETE /_control/faults/{id}", controlRemoveFault},
		{named("act"), "POST /_control/actions", controlAct},
	}
}

type idsAnswer struct {
	RequestIDs []int64 `json:"requestIds"`
}

type countAnswer struct {
	Count int `json:"count"`
}

type idAnswer struct {
	ID string `json:"id"`
}

type controlError struct {
	Error string `json:"error"`
}

func controlRefusal(status int, err error) reply {
	return jsonReply(status, controlError{err.Error()})
}

// decodeStrictly refuses unknown keys and anything after the value, so that a
// misspelt field is not silently ignored.
func decodeStrictly(body []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("read request: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("read request: there is something after the JSON value")
	}
	return nil
}

func controlQueueJobs(s *Server, r *request) reply {
	var q JobRequest
	err := decodeStrictly(r.body, &q)
	if err != nil {
		return controlRefusal(http.StatusBadRequest, err)
	}
	ids, err := s.QueueJobs(q)
	if err != nil {
		return controlRefusal(http.StatusBadRequest, err)
	}
	return jsonReply(http.StatusOK, idsAnswer{ids})
}

func controlListJobs(s *Server, r *request) reply {
	in := JobState(r.URL.Query().Get("state"))
	known := []JobState{"", state.Queued, state.Acquired, state.Assigned, state.Running, state.Completed}
	if !slices.Contains(known, in) {
		return controlRefusal(http.StatusBadRequest, fmt.Errorf("state %q is unknown; use one of %q", in, known[1:]))
	}
	return listReply(s.Jobs(in))
}

func controlCancelJob(s *Server, r *request) reply {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		return controlRefusal(http.StatusBadRequest, err)
	}
	if err := s.CancelJob(id); err != nil {
		return controlRefusal(http.StatusNotFound, err)
	}
	return emptyReply(http.StatusNoContent)
}

func controlAddFault(s *Server, r *request) reply {
	var f Fault
	err := decodeStrictly(r.body, &f)
	if err != nil {
		return controlRefusal(http.StatusBadRequest, err)
	}
	id, err := s.AddFault(f)
	if err != nil {
		return controlRefusal(http.StatusBadRequest, err)
	}
	return jsonReply(http.StatusOK, idAnswer{id})
}

func controlRemoveFault(s *Server, r *request) reply {
	if s.RemoveFault(r.PathValue("id")) == 0 {
		return controlRefusal(http.StatusNotFound, fmt.Errorf("no fault has the id %q", r.PathValue("id")))
	}
	return emptyReply(http.StatusNoContent)
}

func controlAct(s *Server, r *request) reply {
	var a Action
	if err := decodeStrictly(r.body, &a); err != nil {
		return controlRefusal(http.StatusBadRequest, err)
	}
	act, ok := actions[a.Action]
	if !ok {
		return controlRefusal(http.StatusBadRequest, fmt.Errorf("action %q is unknown", a.Action))
	}
	if err := act(s, a); err != nil {
		return controlRefusal(http.StatusBadRequest, err)
	}
	return emptyReply(http.StatusNoContent)
}

var actions = map[string]func(*Server, Action) error{
	"expire-admin-tokens": func(s *Server, _ Action) error { s.ExpireAdminTokens(); return nil },
	"expire-queue-tokens": func(s *Server, _ Action) error { s.ExpireQueueTokens(); return nil },
	"evict-sessions":      func(s *Server, a Action) error { s.EvictSessions(a.ScaleSetID); return nil },
	"delete-scale-set":    func(s *Server, a Action) error { return s.DeleteScaleSet(a.ScaleSetID) },
	"remove-runner":       func(s *Server, a Action) error { return s.RemoveRunner(a.RunnerID) },
	"forget-runner":       func(s *Server, a Action) error { return s.ForgetRunner(a.RunnerID) },
	"count-phantoms":      func(s *Server, a Action) error { return s.countPhantoms(a.ScaleSetID, a.Count) },
	"move-service":        func(s *Server, _ Action) error { s.MoveService(); return nil },
	"revoke-pat":          func(s *Server, a Action) error { return s.setPAT(a.Token, true) },
	"restore-pat":         func(s *Server, a Action) error { return s.setPAT(a.Token, false) },
	"deprecate-runners":   func(s *Server, a Action) error { return s.setDeprecated(a.Version, true) },
	"undeprecate-runners": func(s *Server, a Action) error { return s.setDeprecated(a.Version, false) },
	"add-runner-group":    func(s *Server, a Action) error { return s.addGroup(a.Name) },
	"end-jobs":            func(s *Server, _ Action) error { s.EndJobs(); return nil },
	"set-permissions":     func(s *Server, a Action) error { s.SetPermissions(a.Permissions); return nil },
}

func (s *Server) countPhantoms(scaleSetID, jobs int) error {
	if jobs < 0 {
		return errors.New("count must not be negative")
	}
	return s.CountPhantoms(scaleSetID, jobs)
}

func (s *Server) setPAT(token string, revoked bool) error {
	if token == "" {
		return errors.New("token must say which PAT is meant")
	}
	s.RevokePAT(token, revoked)
	return nil
}

func (s *Server) setDeprecated(version string, deprecated bool) error {
	setDefault(&version, "*")
	s.DeprecateRunnerVersion(version, deprecated)
	return nil
}

func (s *Server) addGroup(name string) error {
	if name == "" {
		return errors.New("name must not be empty")
	}
	s.AddRunnerGroup(name)
	return nil
}
