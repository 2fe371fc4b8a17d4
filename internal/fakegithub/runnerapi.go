package fakegithub

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/harrier-ci/harrier/internal/fakegithub/state"
)

// runnerCall is the body of every call of the simulated runner.
type runnerCall struct {
	RunnerID int `json:"runnerId"`
	// Instance is chosen by the process; it stands for the session of a real runner.
	Instance string `json:"instance"`
	ClientID string `json:"clientId,omitempty"`
	Version  string `json:"version,omitempty"`
	// KnowsJob says that the runner has its job and waits for the end of it.
	KnowsJob bool `json:"knowsJob,omitempty"`
}

// runnerEvent is the answer to waiting.
type runnerEvent struct {
	Event     state.EventKind `json:"event"`
	RequestID int64           `json:"requestId,omitempty"`
	Name      string          `json:"name,omitempty"`
	Result    string          `json:"result,omitempty"`
}

func (s *Server) runnerConnect(r *request) reply {
	var call runnerCall
	err := json.Unmarshal(r.body, &call)
	if err == nil && call.Instance == "" {
		err = &state.Error{Kind: state.Invalid, Message: "instance must not be empty"}
	}
	if err == nil {
		s.do(func(now time.Time) {
			_, err = s.state.Connect(now, call.RunnerID, call.ClientID, call.Instance, call.Version)
		})
	}
	if err != nil {
		return errorReply(err)
	}
	return emptyReply(http.StatusNoContent)
}

// runnerWait holds the call until something happens to the runner. Holding it is
// also how the runner shows that it is alive: a job ends only while it does.
func (s *Server) runnerWait(r *request) reply {
	call, runner, err := s.connected(r)
	if err != nil {
		return errorReply(err)
	}
	s.do(func(now time.Time) { s.state.StartWait(now, runner) })
	defer s.do(func(now time.Time) { s.state.EndWait(now, runner) })
	timer := s.opts.Clock.NewTimer(s.opts.PollLength)
	defer timer.Stop()
	for {
		event := s.look(runner, call.KnowsJob)
		if event.Event != state.NoEvent {
			return jsonReply(http.StatusOK, event)
		}
		select {
		case <-runner.Wake():
		case <-timer.C():
			return jsonReply(http.StatusOK, event)
		case <-s.done:
			return jsonReply(http.StatusOK, event)
		case <-r.Context().Done():
			return reply{}
		}
	}
}

func (s *Server) look(runner *state.Runner, knowsJob bool) (event runnerEvent) {
	s.do(func(time.Time) {
		seen := s.state.Look(runner, knowsJob)
		event.Event = seen.Kind
		if seen.Job != nil {
			event.RequestID, event.Name, event.Result = seen.Job.RequestID, seen.Job.Spec.Name, seen.Job.Result
		}
	})
	return event
}

func (s *Server) runnerLeave(r *request) reply {
	_, runner, err := s.connected(r)
	if err != nil {
		return errorReply(err)
	}
	s.do(func(now time.Time) { s.state.Leave(now, runner) })
	return emptyReply(http.StatusNoContent)
}

func (s *Server) connected(r *request) (call runnerCall, runner *state.Runner, err error) {
	if err = json.Unmarshal(r.body, &call); err != nil {
		return call, nil, err
	}
	s.do(func(time.Time) { runner, err = s.state.RunnerByInstance(call.RunnerID, call.Instance) })
	return call, runner, err
}
