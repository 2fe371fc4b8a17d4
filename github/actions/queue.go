package actions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	// heldAtLeast tells a poll whose token ended while it was held from one whose token was refused. It is a guess: a refusal
	// takes milliseconds, but more than this where the way to GitHub is slow.
	heldAtLeast = time.Second
	// mostRefusedLate bounds how often in a row the guess may be "ended while held": that many refusals without a success are
	// an error. A token that is only short-lived then costs a new session, which is cheap.
	mostRefusedLate = 3
)

// GetMessage waits for a message: up to PollTimeout, one attempt, about 50 s by GitHub's own choice. It returns nil, nil when none
// came; then the last known statistics still hold. lastMessageID is the id of the last message received, 0 for none.
// maxCapacity is how many jobs the scale set may have in total, running ones included; with 0 none is assigned.
//
// A refused queue token is renewed once and the poll repeated once; where the renewed one ends while the poll is held, no
// message came, unless that happens to mostRefusedLate polls in a row: the last of these and those that follow fail with
// ErrUnauthorized until GitHub takes a token. Other failures: ErrSessionNotFound (create a new session),
// *MalformedMessageError, ErrTruncated, *UnexpectedResponseError, *RateLimitedError, *NetworkError, *Error.
func (s *Session) GetMessage(ctx context.Context, lastMessageID int64, maxCapacity int) (*Message, error) {
	var held time.Duration // the last attempt
	answer, err := s.withQueueToken(ctx, func(state *sessionState) (*response, error) {
		sent := s.client.clock.Now()
		defer func() { held = s.client.clock.Since(sent) }()
		return s.poll(ctx, state, lastMessageID, maxCapacity)
	})
	if isRefused(err, CredentialQueueToken) && held >= heldAtLeast && s.refusedLate.Add(1) < mostRefusedLate {
		return nil, nil // probably GitHub took the renewed token and had no message while it was good; the next poll renews it
	}
	if err := asMalformedMessage(err); err != nil {
		return nil, err
	}
	if err := answer.acknowledge(EndpointGetMessage); err != nil {
		return nil, err
	}
	s.refusedLate.Store(0)
	if answer.holdsNothing() {
		return nil, nil
	}
	return parseMessage(answer.body)
}

// asMalformedMessage returns err, or *MalformedMessageError where a message was too large and its id could be read.
func asMalformedMessage(err error) error {
	if large, ok := errors.AsType[*tooLargeError](err); ok && large.messageID != 0 {
		return &MalformedMessageError{MessageID: large.messageID, Message: &Message{ID: large.messageID}, Err: large}
	}
	return err
}

// poll makes one attempt.
func (s *Session) poll(ctx context.Context, state *sessionState, lastMessageID int64, maxCapacity int) (*response, error) {
	return s.client.exchange(ctx, request{
		endpoint: EndpointGetMessage,
		method:   http.MethodGet,
		url:      pollURL(state.queue, lastMessageID),
		header: s.header(state, http.Header{
			"Accept":                {"application/json; api-version=" + apiVersion},
			"X-Scalesetmaxcapacity": {strconv.Itoa(max(0, maxCapacity))},
		}),
		credential: CredentialQueueToken,
		timeout:    s.client.deadlines.poll,
	})
}

// holdsNothing reports whether a poll brought no message: by the status for that, or by a success that is empty on purpose.
func (r *response) holdsNothing() bool {
	switch r.status {
	case http.StatusAccepted, http.StatusNoContent:
		return true
	}
	text := string(bytes.TrimSpace(r.body))
	return text == "null" || text == "" && r.whole
}

// DeleteMessage acknowledges a message. A message that is not deleted comes again, also in another session.
func (s *Session) DeleteMessage(ctx context.Context, messageID int64) error {
	ctx, cancel := withTimeout(ctx, s.client.deadlines.call)
	defer cancel()
	answer, err := s.withQueueToken(ctx, func(state *sessionState) (*response, error) {
		return s.client.exchange(ctx, request{
			endpoint:   EndpointDeleteMessage,
			method:     http.MethodDelete,
			url:        state.queue.JoinPath(strconv.FormatInt(messageID, 10)),
			header:     s.header(state, http.Header{"Content-Type": {"application/json"}}),
			credential: CredentialQueueToken,
			timeout:    s.client.deadlines.attempt,
			retries:    maxRetries,
		})
	})
	if errors.Is(err, ErrNotFound) && !errors.Is(err, ErrSessionNotFound) {
		return nil // deleted before, and the answer was lost
	}
	if err != nil {
		return err
	}
	return answer.acknowledge(EndpointDeleteMessage)
}

// AcquireJobs takes jobs that were offered, by their runner request ids, and returns the ids that this call acquired.
// "Not in the list" doesn't mean "not ours": an answer may have been lost and the call repeated.
func (s *Session) AcquireJobs(ctx context.Context, runnerRequestIDs []int64) ([]int64, error) {
	if len(runnerRequestIDs) == 0 {
		return nil, nil
	}
	ctx, cancel := withTimeout(ctx, s.client.deadlines.call)
	defer cancel()
	call := serviceRequest{
		endpoint: EndpointAcquireJobs, method: http.MethodPost, scaleSetID: s.scaleSetID,
		path: scaleSetPath(s.scaleSetID) + "/acquirejobs", body: runnerRequestIDs,
	}
	answer, err := s.withQueueToken(ctx, func(state *sessionState) (*response, error) {
		// The address comes with the admin token, which is renewed if due; the token that is sent is the queue's.
		connection, err := s.client.currentConnection(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", describe(call.endpoint), err)
		}
		return s.client.sendToService(ctx, call, connection.serviceURL, state.QueueToken, CredentialQueueToken)
	})
	if err != nil {
		return nil, err
	}
	var acquired list[int64]
	if err := answer.decode(EndpointAcquireJobs, &acquired); err != nil {
		return nil, err
	}
	return acquired.Value, nil
}

// withQueueToken makes a call that the queue token authorizes. A refused token is renewed once, together with all
// others that need it, and the call repeated once.
func (s *Session) withQueueToken(ctx context.Context, call func(*sessionState) (*response, error)) (*response, error) {
	return withRenewal(ctx, s.state, s.state.get(), CredentialQueueToken, call)
}

func (s *Session) header(state *sessionState, header http.Header) http.Header {
	header.Set("Authorization", "Bearer "+state.QueueToken)
	header.Set("User-Agent", s.client.userAgent.header(s.scaleSetID))
	return header
}

// pollURL adds the last message's id to the queue's query, which is left as GitHub wrote it.
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
