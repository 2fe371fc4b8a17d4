package actions

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"sync/atomic"
)

// Session is an open message session, which gives access to the message queue of a scale set. A scale set has at most one
// session. Methods may be called concurrently, and a poll in flight does not delay the other calls.
type Session struct {
	client     *Client
	scaleSetID int
	state      *shared[sessionState]
	// refusedLate counts the polls since the last success whose renewed token was refused after heldAtLeast. It is atomic
	// because callers may poll concurrently; such polls only reach mostRefusedLate sooner.
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

// CreateSession opens the session of a scale set. GitHub shows owner, such as the name of the host, to those that find the scale
// set's session taken. It fails with ErrSessionConflict while another session is open, which may be the caller's own if the answer
// to a first attempt was lost; with ErrScaleSetNotFound; and with *UnexpectedResponseError if the answer lacks the queue's address
// or token.
func (c *Client) CreateSession(ctx context.Context, scaleSetID int, owner string) (*Session, error) {
	session := &Session{client: c, scaleSetID: scaleSetID}
	state, err := session.stateCall(ctx, serviceRequest{
		endpoint: EndpointCreateSession, method: http.MethodPost, scaleSetID: scaleSetID,
		path: scaleSetPath(scaleSetID) + "/sessions",
		body: struct {
			OwnerName string `json:"ownerName"`
		}{owner},
	}, &sessionState{})
	if err != nil {
		return nil, err
	}
	session.state = &shared[sessionState]{
		current: state,
		fetch:   session.refresh,
		limit:   c.deadlines.call,
	}
	return session, nil
}

// sessionIDPattern matches UUIDs. Callers may read an ID from where people can write, and one like ".." would delete something
// else.
var sessionIDPattern = regexp.MustCompile(`^[0-9A-Za-z-]+$`)

// DeleteSession closes a session, which another process may have opened. It succeeds if the session or the scale set does not
// exist (any longer), or if sessionID can't be the ID of a session.
func (c *Client) DeleteSession(ctx context.Context, scaleSetID int, sessionID string) error {
	if !sessionIDPattern.MatchString(sessionID) {
		return nil
	}
	err := c.callService(ctx, serviceRequest{
		endpoint: EndpointDeleteSession, method: http.MethodDelete, scaleSetID: scaleSetID,
		path: sessionPath(scaleSetID, sessionID),
	}, nil)
	return ignore(ErrSessionNotFound, ignore(ErrScaleSetNotFound, err))
}

// ID returns the session's ID, a UUID.
func (s *Session) ID() string { return s.state.get().ID }

// Statistics returns the statistics that came with the session or with the last renewal of its token; nil if there were none.
func (s *Session) Statistics() *Statistics { return s.state.get().Statistics }

// Close deletes the session on GitHub as DeleteSession does. It needs a context that has not ended.
func (s *Session) Close(ctx context.Context) error {
	return s.client.DeleteSession(ctx, s.scaleSetID, s.ID())
}

func sessionPath(scaleSetID int, sessionID string) string {
	return scaleSetPath(scaleSetID) + "/sessions/" + url.PathEscape(sessionID)
}

// refresh renews the queue token. The answer replaces the whole session, queue URL included.
func (s *Session) refresh(ctx context.Context, stale *sessionState) (*sessionState, error) {
	state, err := s.stateCall(ctx, serviceRequest{
		endpoint: EndpointRefreshSession, method: http.MethodPatch, scaleSetID: s.scaleSetID,
		path: sessionPath(s.scaleSetID, stale.ID),
	}, stale)
	if err == nil {
		s.client.log.Info("Message queue token renewed", "scaleSetID", s.scaleSetID, "sessionID", state.ID)
	}
	return state, err
}

// stateCall makes a call whose answer describes a session. Fields that the answer leaves out keep their known values, except
// the token: an answer without a token is useless.
func (s *Session) stateCall(ctx context.Context, r serviceRequest, known *sessionState) (*sessionState, error) {
	state := &sessionState{}
	if err := s.client.callService(ctx, r, state); err != nil {
		return nil, err
	}
	state.ID = cmp.Or(state.ID, known.ID)
	state.QueueURL = cmp.Or(state.QueueURL, known.QueueURL)
	state.Statistics = cmp.Or(state.Statistics, known.Statistics)
	queue, err := url.Parse(state.QueueURL)
	if err != nil || queue.Host == "" {
		return nil, unexpected(r.endpoint, errors.New("the session has no valid messageQueueUrl"))
	}
	if state.ID == "" || state.QueueToken == "" {
		return nil, unexpected(r.endpoint, errors.New("the session lacks its id or messageQueueAccessToken"))
	}
	if connection := s.client.connection.get(); connection != nil {
		if err := s.client.accept(r.endpoint, connection.serviceURL, queue); err != nil {
			return nil, err
		}
	}
	state.queue = queue
	return state, nil
}
