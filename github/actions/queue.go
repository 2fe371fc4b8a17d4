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
	// heldAtLeast distinguishes a token that expired during a poll from one that was refused at its beginning. It is a guess: a
	// refusal takes milliseconds, but may take longer than this over a slow network.
	heldAtLeast = time.Second
	// mostRefusedLate is how many refusals in a row, without a success, are an error even if each looks like an expiry. If the
	// tokens are only short-lived, that costs a new session, which is cheap.
	mostRefusedLate = 3
)

// GetMessage polls for a message. GitHub holds a poll for about 50 s if there is none; an attempt ends after PollTimeout at the
// latest, and is repeated only as described below. GetMessage returns nil, nil if no message came: the last known statistics then
// still hold. lastMessageID is the ID of the last message received, 0 if there was none; GitHub answers with a later message.
// maxCapacity is how many jobs the scale set may have in total, running ones included; with 0, GitHub assigns none.
//
// A refused queue token is renewed once, and the poll is repeated once. If the renewed token is refused only after the poll was
// held for a second, it is treated as having expired during the poll, and GetMessage returns nil, nil. The third such poll in a
// row and later ones fail with ErrUnauthorized, until GitHub accepts a token again. Other errors: ErrSessionNotFound (create a new
// session), *MalformedMessageError, ErrTruncated, *UnexpectedResponseError, *RateLimitedError, *NetworkError, *Error.
func (s *Session) GetMessage(ctx context.Context, lastMessageID int64, maxCapacity int) (*Message, error) {
	var held time.Duration // by the last attempt
	answer, err := s.withQueueToken(ctx, func(state *sessionState) (*response, error) {
		sent := s.client.clock.Now()
		defer func() { held = s.client.clock.Since(sent) }()
		return s.poll(ctx, state, lastMessageID, maxCapacity)
	})
	if isRefused(err, CredentialQueueToken) && held >= heldAtLeast && s.refusedLate.Add(1) < mostRefusedLate {
		return nil, nil // GitHub probably accepted the token, and it expired before a message came; the next poll renews it
	}
	if err := asMalformedMessage(err); err != nil {
		return nil, err
	}
	defer answer.free()
	if err := answer.acknowledge(EndpointGetMessage); err != nil {
		return nil, err
	}
	s.refusedLate.Store(0)
	if answer.holdsNothing() {
		return nil, nil
	}
	return parseMessage(answer.body)
}

// asMalformedMessage returns err, or *MalformedMessageError if a message was too large and its ID could be read.
func asMalformedMessage(err error) error {
	if large, ok := errors.AsType[*tooLargeError](err); ok && large.messageID != 0 {
		return &MalformedMessageError{MessageID: large.messageID, Message: &Message{ID: large.messageID}, Err: large}
	}
	return err
}

// poll makes one attempt. X-ScaleSetMaxCapacity has been sent by ARC since 0.9.1.
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

// holdsNothing reports whether a poll brought no message: GitHub says so with 202, other servers with 204 or an empty body.
func (r *response) holdsNothing() bool {
	switch r.status {
	case http.StatusAccepted, http.StatusNoContent:
		return true
	}
	text := string(bytes.TrimSpace(r.body))
	return text == "null" || text == "" && r.whole
}

// DeleteMessage acknowledges a message. A message that is not deleted is delivered again, also in another session. It succeeds if
// the message does not exist any longer, and fails with ErrSessionNotFound if the session does not.
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
	defer answer.free()
	return answer.acknowledge(EndpointDeleteMessage)
}

// AcquireJobs accepts offered jobs, given by their RunnerRequestID, and returns the IDs of the jobs that this call acquired. A job
// that is missing from the result may still be the scale set's: if an answer is lost, the call is repeated, and the repetition does
// not return jobs acquired before. It fails with ErrUnauthorized if the queue token is refused even after its renewal, and with
// ErrScaleSetNotFound.
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
		// The call goes to the service, whose address comes with the admin token, but it carries the queue token.
		connection, err := s.client.currentConnection(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", describe(call.endpoint), err)
		}
		return s.client.sendToService(ctx, call, connection.serviceURL, state.QueueToken, CredentialQueueToken)
	})
	if err != nil {
		return nil, err
	}
	defer answer.free()
	var acquired list[int64]
	if err := answer.decode(EndpointAcquireJobs, &acquired); err != nil {
		return nil, err
	}
	return acquired.Value, nil
}

// withQueueToken makes a call that the queue token authorizes. A refused token is renewed once, for all callers that
// need it, and the call is repeated once.
func (s *Session) withQueueToken(ctx context.Context, call func(*sessionState) (*response, error)) (*response, error) {
	return withRenewal(ctx, s.state, s.state.get(), CredentialQueueToken, call)
}

func (s *Session) header(state *sessionState, header http.Header) http.Header {
	header.Set("Authorization", "Bearer "+state.QueueToken)
	header.Set("User-Agent", s.client.userAgent.header(s.scaleSetID))
	return header
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
