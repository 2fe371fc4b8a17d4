package actions

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/harrier-ci/harrier/github/actions/credential"
	"github.com/harrier-ci/harrier/github/actions/exchange"
	"github.com/harrier-ci/harrier/github/actions/failure"
	"github.com/harrier-ci/harrier/github/actions/service"
)

const (
	// heldAtLeast distinguishes a token that expired during a poll from one that was refused at its beginning. It is a
	// guess: a refusal takes milliseconds, but may take longer than this over a slow network.
	heldAtLeast = time.Second
	// mostRefusedLate refusals in a row, without a success, are an error even if each looks like an expiry. If the
	// tokens are only short-lived, that costs a new session, which is cheap.
	mostRefusedLate = 3
)

// Session is an open message session, which gives access to the message queue of a scale set. A scale set has at most
// one session. Methods may be called concurrently, and a poll in flight does not delay the other calls.
type Session struct {
	client     *Client
	scaleSetID int
	state      *service.Shared[sessionState]
	// refusedLate counts the polls since the last success whose renewed token was refused after heldAtLeast. It is
	// atomic because callers may poll concurrently; such polls only reach mostRefusedLate sooner.
	refusedLate atomic.Int32
}

// sessionState is a session as one answer from GitHub describes it. It is replaced as a whole and never changed.
type sessionState struct {
	ID         string      `json:"sessionId"`
	QueueURL   string      `json:"messageQueueUrl"`
	QueueToken string      `json:"messageQueueAccessToken"`
	Statistics *Statistics `json:"statistics"`

	queue *url.URL
}

// CreateSession opens the session of a scale set. GitHub shows owner, such as the name of the host, to those that find
// the scale set's session taken. It fails with ErrSessionConflict while another session is open, which may be the
// caller's own if the answer to a first attempt was lost; with ErrScaleSetNotFound; and with *UnexpectedResponseError
// if the answer lacks the queue's address or token.
func (c *Client) CreateSession(ctx context.Context, scaleSetID int, owner string) (*Session, error) {
	session := &Session{client: c, scaleSetID: scaleSetID}
	state, err := session.stateCall(ctx, service.Request{
		Endpoint: failure.EndpointCreateSession, Method: http.MethodPost, ScaleSetID: scaleSetID,
		Path: scaleSetPath(scaleSetID) + "/sessions",
		Body: struct {
			OwnerName string `json:"ownerName"`
		}{owner},
	}, &sessionState{})
	if err != nil {
		return nil, err
	}
	session.state = &service.Shared[sessionState]{Fetch: session.refresh, Limit: c.service.Deadlines.Call}
	session.state.Set(state)
	return session, nil
}

// sessionIDPattern matches UUIDs. Callers may read an ID from where people can write, and one like ".." would delete
// something else.
var sessionIDPattern = regexp.MustCompile(`^[0-9A-Za-z-]+$`)

// DeleteSession closes a session, which another process may have opened. It succeeds if the session or the scale set
// does not exist (any longer), or if sessionID can't be the ID of a session.
func (c *Client) DeleteSession(ctx context.Context, scaleSetID int, sessionID string) error {
	if !sessionIDPattern.MatchString(sessionID) {
		return nil
	}
	err := c.service.Call(ctx, service.Request{
		Endpoint: failure.EndpointDeleteSession, Method: http.MethodDelete, ScaleSetID: scaleSetID,
		Path: sessionPath(scaleSetID, sessionID),
	}, nil)
	return failure.Ignore(failure.ErrSessionNotFound, failure.Ignore(failure.ErrScaleSetNotFound, err))
}

// ID returns the session's ID, a UUID.
func (s *Session) ID() string { return s.state.Get().ID }

// Statistics returns the statistics that came with the session or with the last renewal of its token; nil if there were
// none.
func (s *Session) Statistics() *Statistics { return s.state.Get().Statistics }

// Close deletes the session on GitHub as DeleteSession does. It needs a context that has not ended.
func (s *Session) Close(ctx context.Context) error {
	return s.client.DeleteSession(ctx, s.scaleSetID, s.ID())
}

func sessionPath(scaleSetID int, sessionID string) string {
	return scaleSetPath(scaleSetID) + "/sessions/" + url.PathEscape(sessionID)
}

// refresh renews the queue token. The answer replaces the whole session, queue URL included.
func (s *Session) refresh(ctx context.Context, stale *sessionState) (*sessionState, error) {
	state, err := s.stateCall(ctx, service.Request{
		Endpoint: failure.EndpointRefreshSession, Method: http.MethodPatch, ScaleSetID: s.scaleSetID,
		Path: sessionPath(s.scaleSetID, stale.ID),
	}, stale)
	if err == nil {
		s.client.service.Logger.Info("Message queue token renewed", "scaleSetID", s.scaleSetID, "sessionID", state.ID)
	}
	return state, err
}

// stateCall makes a call whose answer describes a session. Fields that the answer leaves out keep their known values,
// except the token: an answer without a token is useless.
func (s *Session) stateCall(ctx context.Context, r service.Request, known *sessionState) (*sessionState, error) {
	state := &sessionState{}
	if err := s.client.service.Call(ctx, r, state); err != nil {
		return nil, err
	}
	state.ID = cmp.Or(state.ID, known.ID)
	state.QueueURL = cmp.Or(state.QueueURL, known.QueueURL)
	state.Statistics = cmp.Or(state.Statistics, known.Statistics)
	queue, err := url.Parse(state.QueueURL)
	if err != nil || queue.Host == "" {
		return nil, failure.Unexpected(r.Endpoint, errors.New("the session has no valid messageQueueUrl"))
	}
	if state.ID == "" || state.QueueToken == "" {
		return nil, failure.Unexpected(r.Endpoint, errors.New("the session lacks its id or messageQueueAccessToken"))
	}
	if err := service.CheckToken(r.Endpoint, state.QueueToken); err != nil {
		return nil, err
	}
	state.queue = queue
	return state, s.client.service.AcceptNamed(r.Endpoint, queue)
}

// GetMessage polls for a message. GitHub holds a poll for about 50 s if there is none; an attempt ends after
// PollTimeout at the latest, and is repeated only as described below. GetMessage returns nil, nil if no message came:
// the last known statistics then still hold. lastMessageID is the ID of the last message received, 0 if there was none;
// GitHub answers with a later message. maxCapacity is the number of jobs that the scale set may have in total, running
// ones included; with 0, GitHub assigns none.
//
// A refused queue token is renewed once, and the poll is repeated once. If the renewed token is refused only after the
// poll was held for a second, it is treated as having expired during the poll, and GetMessage returns nil, nil. The
// third such poll in a row and later ones fail with ErrUnauthorized, until GitHub accepts a token again. Other errors:
// ErrSessionNotFound (create a new session), *MalformedMessageError, ErrTruncated, *UnexpectedResponseError,
// *RateLimitedError, *NetworkError, *Error.
func (s *Session) GetMessage(ctx context.Context, lastMessageID int64, maxCapacity int) (*Message, error) {
	var held time.Duration // by the last attempt
	answer, err := s.withQueueToken(ctx, func(state *sessionState) (*exchange.Response, error) {
		sent := s.client.service.Clock.Now()
		defer func() { held = s.client.service.Clock.Since(sent) }()
		return s.poll(ctx, state, lastMessageID, maxCapacity)
	})
	if failure.IsRefused(err, credential.QueueToken) && held >= heldAtLeast && s.refusedLate.Add(1) < mostRefusedLate {
		// GitHub probably accepted the token, and it expired before a message came; the next poll renews it.
		return nil, nil
	}
	if err := asMalformedMessage(err); err != nil {
		return nil, err
	}
	defer answer.Free()
	if err := answer.Acknowledge(); err != nil {
		return nil, err
	}
	s.refusedLate.Store(0)
	if holdsNothing(answer) {
		return nil, nil
	}
	return parseMessage(answer.Body, answer.Secrets...)
}

// asMalformedMessage returns err, or *MalformedMessageError if a message was too large and its ID could be read.
func asMalformedMessage(err error) error {
	if large, ok := errors.AsType[*exchange.TooLargeError](err); ok && large.MessageID != 0 {
		return &MalformedMessageError{MessageID: large.MessageID, Message: &Message{ID: large.MessageID}, Err: large}
	}
	return err
}

// poll makes one attempt. X-ScaleSetMaxCapacity has been sent by ARC since 0.9.1.
func (s *Session) poll(
	ctx context.Context, state *sessionState, lastMessageID int64, maxCapacity int,
) (*exchange.Response, error) {
	return s.client.service.Do(ctx, exchange.Request{
		Endpoint: failure.EndpointGetMessage,
		Method:   http.MethodGet,
		URL:      pollURL(state.queue, lastMessageID),
		Header: http.Header{
			"Authorization":         {"Bearer " + state.QueueToken},
			"Accept":                {"application/json; api-version=" + service.APIVersion},
			"X-Scalesetmaxcapacity": {strconv.Itoa(max(0, maxCapacity))},
		},
		Credential: credential.QueueToken,
		ScaleSetID: s.scaleSetID,
		Poll:       true,
	})
}

// holdsNothing reports whether a poll brought no message: GitHub says so with 202, other servers with 204 or an empty
// body.
func holdsNothing(answer *exchange.Response) bool {
	switch answer.StatusCode {
	case http.StatusAccepted, http.StatusNoContent:
		return true
	}
	text := string(bytes.TrimSpace(answer.Body))
	return text == "null" || (text == "" && answer.Whole)
}

// DeleteMessage acknowledges a message. A message that is not deleted is delivered again, also in another session. It
// succeeds if the message does not exist any longer, and fails with ErrSessionNotFound if the session does not.
func (s *Session) DeleteMessage(ctx context.Context, messageID int64) error {
	ctx, cancel := failure.WithTimeout(ctx, s.client.service.Deadlines.Call)
	defer cancel()
	answer, err := s.withQueueToken(ctx, func(state *sessionState) (*exchange.Response, error) {
		return s.client.service.Do(ctx, exchange.Request{
			Endpoint: failure.EndpointDeleteMessage,
			Method:   http.MethodDelete,
			URL:      state.queue.JoinPath(strconv.FormatInt(messageID, 10)),
			Header: http.Header{
				"Authorization": {"Bearer " + state.QueueToken},
				"Content-Type":  {"application/json"},
			},
			Credential: credential.QueueToken,
			ScaleSetID: s.scaleSetID,
		})
	})
	if errors.Is(err, failure.ErrNotFound) && !errors.Is(err, failure.ErrSessionNotFound) {
		return nil // deleted before, and the answer was lost
	}
	if err != nil {
		return err
	}
	defer answer.Free()
	return answer.Acknowledge()
}

// AcquireJobs accepts offered jobs, given by their RunnerRequestID, and returns the IDs of the jobs that this call
// acquired. A job that is missing from the result may still be the scale set's: if an answer is lost, the call is
// repeated, and the repetition does not return jobs acquired before. It fails with ErrUnauthorized if the queue token
// is refused even after its renewal, and with ErrScaleSetNotFound.
func (s *Session) AcquireJobs(ctx context.Context, runnerRequestIDs []int64) ([]int64, error) {
	if len(runnerRequestIDs) == 0 {
		return nil, nil
	}
	ctx, cancel := failure.WithTimeout(ctx, s.client.service.Deadlines.Call)
	defer cancel()
	answer, err := s.withQueueToken(ctx, func(state *sessionState) (*exchange.Response, error) {
		return s.client.service.SendWith(ctx, service.Request{
			Endpoint: failure.EndpointAcquireJobs, Method: http.MethodPost, ScaleSetID: s.scaleSetID,
			Path: scaleSetPath(s.scaleSetID) + "/acquirejobs", Body: runnerRequestIDs,
		}, state.QueueToken, credential.QueueToken)
	})
	if err != nil {
		return nil, err
	}
	defer answer.Free()
	var acquired list[int64]
	if err := answer.Decode(&acquired); err != nil {
		return nil, err
	}
	return acquired.Value, nil
}

// withQueueToken makes a call that the queue token authorizes. A refused token is renewed once, for all callers that
// need it, and the call is repeated once.
func (s *Session) withQueueToken(
	ctx context.Context, call func(*sessionState) (*exchange.Response, error),
) (*exchange.Response, error) {
	return service.WithRenewal(ctx, s.state, s.state.Get(), credential.QueueToken, call)
}

// pollURL adds the last message's ID to the queue's query, which otherwise stays as GitHub wrote it.
func pollURL(queue *url.URL, lastMessageID int64) *url.URL {
	if lastMessageID <= 0 {
		return queue
	}
	poll := *queue
	if poll.RawQuery != "" {
		poll.RawQuery += "&"
	}
	poll.RawQuery += "lastMessageId=" + strconv.FormatInt(lastMessageID, 10)
	return &poll
}

// GetAcquirableJobs returns the jobs on offer to a scale set, which may be none. A job that can't be decoded is logged
// and left out, unless only its times can't be. If the service does not have this call, which ARC made until 0.13.1 and
// github.com/actions/scaleset lacks, it fails with ErrNotFound or another answer that [IsRejected].
func (c *Client) GetAcquirableJobs(ctx context.Context, scaleSetID int) ([]JobAvailable, error) {
	var found list[json.RawMessage]
	err := c.service.Call(ctx, service.Request{
		Endpoint: failure.EndpointGetAcquirableJobs, Method: http.MethodGet, ScaleSetID: scaleSetID,
		Path: scaleSetPath(scaleSetID) + "/acquirablejobs",
	}, &found)
	var jobs []JobAvailable
	for _, job := range found.Value {
		if err := appendDecoded(&jobs, job); err != nil {
			c.service.Logger.Info(
				"A job on offer can't be read, at least in part",
				"scaleSetID", scaleSetID, "cause", failure.Quote(err.Error()),
			)
		}
	}
	return jobs, err
}
