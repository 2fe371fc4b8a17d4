package fakegithub

import (
	"encoding/json"
	"net/http"
	"strconv"
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
	// KnowsEnd says that it knows that the job's steps have ended.
	KnowsEnd bool `json:"knowsEnd,omitempty"`
	// HoldsEnd says, when it connects, that its job ends only after its last report.
	HoldsEnd bool `json:"holdsEnd,omitempty"`
	// Step is reported, and Last says that there is nothing more.
	Step *state.Step `json:"step,omitempty"`
	Last bool        `json:"last,omitempty"`
}

// runnerEvent is the answer to waiting.
type runnerEvent struct {
	Event     state.EventKind `json:"event"`
	RequestID int64           `json:"requestId,omitempty"`
	Name      string          `json:"name,omitempty"`
	Result    string          `json:"result,omitempty"`
	// Environment has what the job's workflow run says, as the runner tells it to every process of the job.
	Environment map[string]string `json:"environment,omitempty"`
}

func (s *Server) runnerConnect(r *request) reply {
	var call runnerCall
	err := json.Unmarshal(r.body, &call)
	if err == nil && call.Instance == "" {
		err = &state.Error{Kind: state.Invalid, Message: "instance must not be empty"}
	}
	if err == nil {
		s.do(func(now time.Time) {
			var runner *state.Runner
			runner, err = s.state.Connect(now, call.RunnerID, call.ClientID, call.Instance, call.Version)
			if err == nil && call.HoldsEnd {
				s.state.HoldEnd(runner)
			}
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
		event := s.look(runner, call)
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

func (s *Server) look(runner *state.Runner, call runnerCall) (event runnerEvent) {
	s.do(func(time.Time) {
		seen := s.state.Look(runner, call.KnowsJob, call.KnowsEnd)
		event.Event = seen.Kind
		if seen.Job != nil {
			event.RequestID, event.Name, event.Result = seen.Job.RequestID, seen.Job.Spec.Name, seen.Job.Result
		}
		if seen.Kind == state.JobEvent {
			event.Environment = environment(seen.Job)
		}
	})
	return event
}

// environment returns the variables that every process of a job has of its workflow run.
func environment(job *state.Job) map[string]string {
	spec := &job.Spec
	found := map[string]string{
		"GITHUB_ACTIONS": "true", "GITHUB_JOB": spec.Name, "GITHUB_EVENT_NAME": spec.Event,
		"GITHUB_WORKFLOW_REF": spec.WorkflowRef,
		"GITHUB_ACTOR":        state.Person, "GITHUB_TRIGGERING_ACTOR": spec.Actor,
		"GITHUB_RUN_ID": strconv.FormatInt(job.RunID, 10), "GITHUB_RUN_ATTEMPT": strconv.Itoa(job.RunAttempt),
	}
	if spec.Debug {
		found["RUNNER_DEBUG"] = "1"
	}
	return found
}

func (s *Server) runnerReport(r *request) reply {
	call, runner, err := s.connected(r)
	if err == nil && call.Step == nil {
		err = &state.Error{Kind: state.Invalid, Message: "step must not be empty"}
	}
	if err != nil {
		return errorReply(err)
	}
	s.do(func(now time.Time) { s.state.Report(now, runner, *call.Step, call.Last) })
	return emptyReply(http.StatusNoContent)
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
