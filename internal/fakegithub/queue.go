package fakegithub

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
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
