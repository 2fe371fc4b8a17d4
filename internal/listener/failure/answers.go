package failure

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"syscall"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
)

// HeldAtLeast is the shortest time after which a poll counts as held by the service. GitHub holds a poll for 50 s;
// proxies end one after half a minute or more.
const HeldAtLeast = 10 * time.Second

// AskedBackoff returns the time to wait that GitHub, or a gateway in front of it, asked for, or 0 if it named none.
func AskedBackoff(err error, now time.Time) time.Duration {
	if limited, ok := errors.AsType[*actions.RateLimitedError](err); ok && limited.Assumed {
		return 0
	}
	return actions.RetryAt(err, now).Sub(now)
}

// EndedWhileHeld reports whether a poll reached the service and was ended by a proxy, the network or its own deadline.
// A failure to connect does not count, however long it took.
func EndedWhileHeld(err error, took time.Duration) bool {
	if took < HeldAtLeast {
		return false
	}
	if answer, ok := errors.AsType[*actions.Error](err); ok {
		statuses := []int{http.StatusRequestTimeout, http.StatusBadGateway, http.StatusGatewayTimeout}
		return answer.Endpoint == actions.EndpointGetMessage && slices.Contains(statuses, answer.StatusCode)
	}
	network, ok := errors.AsType[*actions.NetworkError](err)
	if !ok || network.Endpoint != actions.EndpointGetMessage {
		return false
	}
	_, timedOut := errors.AsType[*actions.TimeoutError](err)
	return timedOut || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET)
}

// Unreached reports whether a call did not reach GitHub, or its answer did not reach us.
func Unreached(err error) bool {
	_, is := errors.AsType[*actions.NetworkError](err)
	return is
}

// Useless reports whether GitHub itself answered a poll with an internal error or with content that can't be read.
// Answers from a proxy or gateway on the way, and rate limits, say nothing about the session.
func Useless(err error) bool {
	if errors.Is(err, actions.ErrForeignAnswer) || Unreached(err) {
		return false
	}
	if answer, ok := errors.AsType[*actions.Error](err); ok {
		return answer.StatusCode == http.StatusInternalServerError || answer.StatusCode == http.StatusNotImplemented
	}
	_, unexpected := errors.AsType[*actions.UnexpectedResponseError](err)
	_, malformed := errors.AsType[*actions.MalformedMessageError](err)
	return unexpected || malformed
}

// OffersRefused reports whether GitHub refused the requested jobs, rather than the session, the scale set, the
// credential or a call to renew that.
func OffersRefused(err error) bool {
	return refuses(err, actions.EndpointAcquireJobs) && !errors.Is(err, actions.ErrSessionNotFound) &&
		!errors.Is(err, actions.ErrScaleSetNotFound) && !errors.Is(err, actions.ErrUnauthorized)
}

// LacksSearch reports whether the service does not list open offers. A refused credential, or any refused call on the
// way, says nothing about that, because it passes.
func LacksSearch(err error) bool {
	return refuses(err, actions.EndpointGetAcquirableJobs) && !errors.Is(err, actions.ErrUnauthorized)
}

// LacksRead reports whether the service has no call for the statistics of a scale set.
func LacksRead(err error) bool { return actions.LacksReadByID(err) && lastingRefusal(err) }

// refuses reports whether err is GitHub's refusal of a call to endpoint, one that a repetition doesn't change, and not
// the failure of another call on the way, such as one for a credential.
func refuses(err error, endpoint string) bool {
	answer, ok := errors.AsType[*actions.Error](err)
	return ok && lastingRefusal(err) && answer.Endpoint == endpoint
}

// lastingRefusal reports whether the same call in the same session would get the same answer.
func lastingRefusal(err error) bool {
	_, limited := errors.AsType[*actions.RateLimitedError](err)
	answer, answered := errors.AsType[*actions.Error](err)
	if limited || !answered || Unreached(err) {
		return false
	}
	return actions.IsRejected(err) || answer.StatusCode == http.StatusNotImplemented
}
