package fakegithub

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/harrier-ci/harrier/internal/fakegithub/state"
)

// messageAnswer is a message as the queue delivers it; Body is JSON in a string.
type messageAnswer struct {
	MessageID   int64             `json:"messageId"`
	MessageType string            `json:"messageType"`
	Body        string            `json:"body"`
	Statistics  *state.Statistics `json:"statistics"`
}

// pollArguments reads what a client says with a long poll.
func pollArguments(r *request) (lastID int64, capacity int, err error) {
	if text := r.URL.Query().Get("lastMessageId"); text != "" {
		if lastID, err = strconv.ParseInt(text, 10, 64); err != nil {
			return 0, 0, fmt.Errorf("lastMessageId: %w", err)
		}
	}
	// Clients before the header existed get whatever is there.
	capacity = math.MaxInt32
	if text := r.Header.Get("X-ScaleSetMaxCapacity"); text != "" {
		capacity, err = strconv.Atoi(text)
		if err == nil && capacity < 0 {
			err = strconv.ErrRange
		}
		if err != nil {
			return 0, 0, fmt.Errorf("X-ScaleSetMaxCapacity: %w", err)
		}
	}
	return lastID, capacity, nil
}

// getMessage is the long poll: a message immediately if there is one, else held for the poll length, then 202.
func (s *Server) getMessage(r *request) reply {
	lastID, capacity, err := pollArguments(r)
	if err != nil {
		return errorReply(err)
	}
	token := bearer(r.Header.Get("Authorization"), "Bearer")
	var poll *state.Poll
	s.do(func(now time.Time) {
		poll, err = s.state.StartPoll(now, r.URL.Query().Get("sessionId"), token, lastID, capacity)
	})
	if err != nil {
		return errorReply(err)
	}
	defer s.do(func(now time.Time) { s.state.EndPoll(now, poll) })
	timer := s.opts.Clock.NewTimer(s.opts.PollLength)
	defer timer.Stop()
	for {
		if rep, ok := s.collect(poll); ok {
			return rep
		}
		select {
		case <-poll.Wake:
		case <-timer.C():
			return emptyReply(http.StatusAccepted)
		case <-s.done:
			return emptyReply(http.StatusAccepted)
		case <-r.Context().Done():
			return reply{}
		}
	}
}

// collect answers a poll if there is something to answer. Statistics are taken at
// this moment, also for a message that was made long ago.
func (s *Server) collect(poll *state.Poll) (rep reply, ok bool) {
	s.do(func(time.Time) {
		message, err := s.state.Collect(poll)
		if err != nil {
			rep, ok = errorReply(err), true
			return
		}
		if message == nil {
			return
		}
		body, err := json.Marshal(message.Entries)
		if err != nil {
			rep, ok = errorReply(err), true
			return
		}
		rep, ok = jsonReply(http.StatusOK, messageAnswer{
			MessageID: message.ID, MessageType: "RunnerScaleSetJobMessages", Body: string(body),
			Statistics: s.state.MessageStatistics(poll.Session.Set),
		}), true
	})
	return rep, ok
}

func (s *Server) deleteMessage(r *request) reply {
	id, err := strconv.ParseInt(r.PathValue("message"), 10, 64)
	if err != nil {
		return errorReply(err)
	}
	s.do(func(now time.Time) {
		token := bearer(r.Header.Get("Authorization"), "Bearer")
		err = s.state.DeleteMessage(now, r.URL.Query().Get("sessionId"), token, id)
	})
	if err != nil {
		return errorReply(err)
	}
	return emptyReply(http.StatusNoContent)
}

// acquireJobs is a call of the Actions service that takes the queue token.
func (s *Server) acquireJobs(r *request) reply {
	var ids []int64
	if err := json.Unmarshal(r.body, &ids); err != nil {
		return errorReply(err)
	}
	var acquired []int64
	var err error
	s.do(func(now time.Time) {
		acquired, err = s.state.AcquireJobs(now, pathID(r), bearer(r.Header.Get("Authorization"), "Bearer"), ids)
	})
	if err != nil {
		return errorReply(err)
	}
	return listReply(acquired)
}

func acquirableJobs(s *Server, _ time.Time, scope *state.Scope, r *request) reply {
	set, err := s.state.ScaleSet(scope, pathID(r))
	if err != nil {
		return errorReply(err)
	}
	offers := s.state.AcquirableJobs(set)
	if len(offers) == 0 {
		return emptyReply(http.StatusNoContent)
	}
	return listReply(offers)
}

// sessionAnswer is a session as the service writes it, the same for create and
// refresh: the client replaces everything it had.
type sessionAnswer struct {
	SessionID   string           `json:"sessionId"`
	OwnerName   string           `json:"ownerName"`
	ScaleSet    scaleSetAnswer   `json:"runnerScaleSet"`
	QueueURL    string           `json:"messageQueueUrl"`
	AccessToken string           `json:"messageQueueAccessToken"`
	Statistics  state.Statistics `json:"statistics"`
}

// sessionReply answers a session or the refusal. The queue URL has a query string
// because the hosted one has, and clients must keep it.
func (s *Server) sessionReply(r *request, session *state.Session, err error) reply {
	if err != nil {
		return errorReply(err)
	}
	set := s.describeScaleSet(r, session.Set)
	return jsonReply(http.StatusOK, sessionAnswer{
		SessionID: session.ID, OwnerName: session.OwnerName, ScaleSet: set, AccessToken: session.Token,
		QueueURL:   s.publicURL(r) + "/scalesets/message?sessionId=" + url.QueryEscape(session.ID),
		Statistics: set.Statistics,
	})
}

func createSession(s *Server, now time.Time, scope *state.Scope, r *request) reply {
	var body struct {
		OwnerName string `json:"ownerName"`
	}
	if err := json.Unmarshal(r.body, &body); err != nil {
		return errorReply(err)
	}
	session, err := s.state.CreateSession(now, scope, pathID(r), body.OwnerName)
	return s.sessionReply(r, session, err)
}

func refreshSession(s *Server, now time.Time, scope *state.Scope, r *request) reply {
	session, err := s.state.RefreshSession(now, scope, pathID(r), r.PathValue("session"))
	return s.sessionReply(r, session, err)
}

func deleteSession(s *Server, _ time.Time, scope *state.Scope, r *request) reply {
	if err := s.state.DeleteSession(scope, pathID(r), r.PathValue("session")); err != nil {
		return errorReply(err)
	}
	return emptyReply(http.StatusNoContent)
}

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
