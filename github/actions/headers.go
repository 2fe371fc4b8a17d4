package actions

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// tokenExpiryLayouts are the formats in which GitHub sends the expiry of a personal access token.
var tokenExpiryLayouts = []string{"2006-01-02 15:04:05 MST", "2006-01-02 15:04:05 -0700"}

const (
	// resourceCore is GitHub's name for the REST API. Older servers don't send it.
	resourceCore = "core"
	// resourceOther replaces names that GitHub's documentation does not have. The name becomes a label of a metric: it must be
	// valid UTF-8, each new one creates a series, and the server may be anybody's.
	resourceOther = "other"
)

// resources are GitHub's names for what it limits, from its documentation of "REST API endpoints for rate limits".
var resources = []string{
	resourceCore, "search", "code_search", "graphql", "integration_manifest", "source_import", "dependency_snapshots", "dependency_sbom",
	"code_scanning_upload", "code_scanning_autofix", "actions_runner_registration", "scim", "audit_log", "audit_log_streaming",
}

// rateLimitOf returns the limit that an answer of the REST API reports, or nil if it reports none.
func rateLimitOf(header http.Header) *RateLimit {
	remaining, err := strconv.Atoi(header.Get("X-Ratelimit-Remaining"))
	if err != nil {
		return nil
	}
	limit := &RateLimit{Resource: cmp.Or(header.Get("X-Ratelimit-Resource"), resourceCore), Remaining: remaining}
	if !slices.Contains(resources, limit.Resource) {
		limit.Resource = resourceOther
	}
	if reset, err := strconv.ParseInt(header.Get("X-Ratelimit-Reset"), 10, 64); err == nil {
		limit.Reset = time.Unix(reset, 0)
	}
	return limit
}

// tokenExpiryOf returns when the token expires, or zero if the answer does not say or its format is unknown. It only serves to
// warn people in time; no decision depends on it.
func tokenExpiryOf(header http.Header) time.Time {
	text := header.Get("Github-Authentication-Token-Expiration")
	for _, layout := range tokenExpiryLayouts {
		if at, err := time.Parse(layout, text); err == nil {
			return at
		}
	}
	return time.Time{}
}
