package actions

import (
	"net/http"
	"strconv"
	"time"
)

// tokenExpiryLayouts are the forms in which GitHub says when a personal access token expires.
var tokenExpiryLayouts = []string{"2006-01-02 15:04:05 MST", "2006-01-02 15:04:05 -0700"}

// rateLimitOf reads the limit that an answer of the REST API speaks of, nil where it speaks of none.
func rateLimitOf(header http.Header) *RateLimit {
	remaining, err := strconv.Atoi(header.Get("X-Ratelimit-Remaining"))
	if err != nil {
		return nil
	}
	limit := &RateLimit{Resource: header.Get("X-Ratelimit-Resource"), Remaining: remaining}
	if limit.Resource == "" {
		limit.Resource = "core" // what GitHub calls the REST API; older servers don't name it
	}
	if reset, err := strconv.ParseInt(header.Get("X-Ratelimit-Reset"), 10, 64); err == nil {
		limit.Reset = time.Unix(reset, 0)
	}
	return limit
}

// tokenExpiryOf reads when the token expires, zero where the answer does not say or can't be read: it is for telling
// people in time, not for deciding anything.
func tokenExpiryOf(header http.Header) time.Time {
	text := header.Get("Github-Authentication-Token-Expiration")
	for _, layout := range tokenExpiryLayouts {
		if at, err := time.Parse(layout, text); err == nil {
			return at
		}
	}
	return time.Time{}
}
