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

// Session is the right to a scale set's message queue. A scale set has one at a time. Its methods may be called
// concurrently; a poll in flight holds up nothing.
type Session struct {
	client     *Client
	scaleSetID int
	state      *shared[sessionState]
	// refusedLate counts the polls since the last success whose renewed token was refused after heldAtLeast. It is atomic
	// because nothing keeps callers from polling concurrently; such polls only reach mostRefusedLate sooner.
	refusedLate atomic.Int32
}

// sessionState is what one answer of GitHub said about a session. It is replaced as a whole, never changed.
type sessionState struct {
	ID         string      `json:"sessionId"`
	QueueURL   string      `json:"messageQueueUrl"`
	QueueToken string      `json:"messageQueueAccessToken"`
	Statistics *Statistics `json:"statistics"`

	queue *url.URL
}

// CreateSession opens the message queue of a scale set. Owner is shown to whoever is refused after us; host and pod
// name are good ones. It fails with ErrSessionConflict while another session is open, also when that is our own whose
// creation was repeated after a lost answer.
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

// sessionIDPattern fits UUIDs. An id comes from where people can write; one like ".." would delete something else.
var sessionIDPattern = regexp.MustCompile(`^[0-9A-Za-z-]+$`)

// DeleteSession closes a session that may have been opened by another process. One that is gone counts as closed, and
// so does an id that no session can have.
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

// ID returns the session's id, a UUID.
func (s *Session) ID() string { return s.state.get().ID }

// Statistics returns those that came with the session's creation or last renewal, nil when there were none.
func (s *Session) Statistics() *Statistics { return s.state.get().Statistics }

// Close deletes the session on GitHub. It is an ordinary call: give it a context that is not cancelled yet.
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

// stateCall makes a call whose answer describes a session. What the answer leaves out stays as it was known, except
// the token: an answer without a new one is useless.
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
	state.queue = queue
	return state, nil
}
