package service

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/golang-jwt/jwt/v4"

	"github.com/harrier-ci/harrier/github/actions/exchange"
	"github.com/harrier-ci/harrier/github/actions/failure"
)

const (
	// A token is renewed at renewBefore before its expiry at the latest, as in GitHub's own client. That is longer than
	// any attempt. A token with a lifetime of less than twice that is renewed after half of it; otherwise each call
	// would renew it.
	renewBefore = time.Minute
	// renewSpread is the part of its lifetime by which a token is renewed earlier than that, at most. Processes that
	// got their tokens in the same minute, as 200 listeners do after an upgrade, renew them within six minutes of an
	// hour. A renewal takes two or three calls, which GitHub counts as five points each, of 900 a minute.
	renewSpread = 10
	// unknownLifetime is the assumed lifetime of an admin token that does not state its own. GitHub.com's tokens last
	// about an hour. A wrong guess costs one renewal too many, or one 401, which also leads to a renewal.
	unknownLifetime = 5 * time.Minute
	// longestLifetime is the longest lifetime that a token is believed to have.
	longestLifetime = 24 * time.Hour
	// maxTokenBytes bounds a token, which is kept for an hour and sent with each call. GitHub's have at most some 2 kB.
	maxTokenBytes = 16 << 10
)

// lifetime has the times at which a token was given, should be renewed, and ends.
type lifetime struct{ since, renewAt, expires time.Time }

// lifetimeOf returns the lifetime of a token that is given now.
func lifetimeOf(now, expires time.Time) lifetime {
	length := max(0, expires.Sub(now))
	early := renewBefore + rand.N(length/renewSpread+1) //nolint:gosec // when a token is renewed is no secret
	return lifetime{since: now, renewAt: expires.Add(-min(early, length/2)), expires: expires}
}

func restHeader(authorization, contentType string) http.Header {
	return http.Header{"Authorization": {authorization}, "Content-Type": {contentType}}
}

// expiryClaim has no other claim, because one of an unexpected type would hide this one.
type expiryClaim struct {
	ExpiresAt *jwt.NumericDate `json:"exp"`
}

// Valid implements jwt.Claims.
func (expiryClaim) Valid() error { return nil }

// expiry returns the time at which a token expires that came in an answer with this header. It does not verify the
// token; that is up to GitHub. A token that is not a JWT or has no expiry gets unknownLifetime.
func expiry(token string, header http.Header, now time.Time) time.Time {
	var claims expiryClaim
	if _, _, err := jwt.NewParser().ParseUnverified(token, &claims); err != nil || claims.ExpiresAt == nil {
		return now.Add(unknownLifetime)
	}
	ends := failure.OnOurClock(claims.ExpiresAt.Time, header, now)
	if latest := now.Add(longestLifetime); ends.After(latest) {
		return latest
	}
	return ends
}

// createdToken is the answer to a call that creates a token.
type createdToken struct {
	Token string `json:"token"`
	// ExpiresAt is a time. Whether it can be read matters only to those who keep the token.
	ExpiresAt json.RawMessage `json:"expires_at"`
}

func decodeToken(answer *exchange.Response, endpoint string) (given createdToken, err error) {
	if err := answer.Decode(&given); err != nil {
		return given, err
	}
	return given, CheckToken(endpoint, given.Token)
}

// CheckToken fails with *failure.UnexpectedResponseError if a token that an answer gives can't be one.
func CheckToken(endpoint, token string) error {
	switch {
	case token == "":
		return failure.Unexpected(endpoint, errors.New("the answer has no token"))
	case len(token) > maxTokenBytes:
		return failure.Unexpected(endpoint, fmt.Errorf(
			"the answer's token has %d bytes, and none of GitHub's has more than %d", len(token), maxTokenBytes))
	}
	return nil
}
