package actions

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// tokenExpiryLayouts are the forms in which GitHub says when a personal access token expires.
var tokenExpiryLayouts = []string{"2006-01-02 15:04:05 MST", "2006-01-02 15:04:05 -0700"}

const (
	// resourceCore is what GitHub calls the REST API; older servers don't name it.
	resourceCore = "core"
	// resourceOther stands for a name that GitHub's documentation doesn't have. A server may be anybody's: its words become
	// the label of a metric, which has to be valid UTF-8, and each new one would be a new series.
	resourceOther = "other"
)

// resources are GitHub's names of what it limits ("REST API endpoints for rate limits").
var resources = []string{
	resourceCore, "search", "code_search", "graphql", "integration_manifest", "source_import", "dependency_snapshots", "dependency_sbom",
	"code_scanning_upload", "code_scanning_autofix", "actions_runner_registration", "scim", "audit_log", "audit_log_streaming",
}

// rateLimitOf reads the limit that an answer of the REST API speaks of, nil where it speaks of none.
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
