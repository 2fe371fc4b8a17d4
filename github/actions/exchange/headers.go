package exchange

import (
	"cmp"
	"encoding/json"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/harrier-ci/harrier/github/actions/failure"
)

// A program's build information has this package's version under modulePath.
const modulePath = "github.com/harrier-ci/harrier"

// UserAgent identifies the calling program to GitHub. The header is a JSON object, as in github.com/actions/scaleset.
type UserAgent struct {
	// System is the program's name, such as "actions-runner-controller".
	System string
	// Version and CommitSHA identify its build.
	Version   string
	CommitSHA string
	// ScaleSetID is the scale set that all calls are about. If it is 0, each call names its own.
	ScaleSetID int
	// Subsystem is the part of the program that makes the calls.
	Subsystem string
}

// userAgentHeader has the fields that GitHub's own client sends, in the same order.
type userAgentHeader struct {
	System         string `json:"system"`
	Version        string `json:"version"`
	CommitSHA      string `json:"commit_sha"`
	ScaleSetID     int    `json:"scale_set_id"`
	Subsystem      string `json:"subsystem"`
	BuildVersion   string `json:"build_version"`
	BuildCommitSHA string `json:"build_commit_sha"`
	Kind           string `json:"kind"`
}

// header returns the value of the User-Agent header. scaleSetID is the scale set that the call is about, 0 if it is
// about none. A client of one scale set always names that one.
func (u UserAgent) header(scaleSetID int) string {
	if u.ScaleSetID != 0 {
		scaleSetID = u.ScaleSetID
	}
	version, commit := build()
	// Strings and numbers can always be encoded, so there is no error.
	text, _ := json.Marshal(userAgentHeader{
		System: u.System, Version: u.Version, CommitSHA: u.CommitSHA, ScaleSetID: scaleSetID, Subsystem: u.Subsystem,
		BuildVersion: version, BuildCommitSHA: commit, Kind: "scaleset",
	})
	return string(text)
}

// build returns version and commit of this module as the Go tool recorded them, or "unknown" if it did not.
var build = sync.OnceValues(func() (version, commit string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown", "unknown"
	}
	return buildOf(info)
})

func buildOf(info *debug.BuildInfo) (version, commit string) {
	version, commit = "unknown", "unknown"
	for _, module := range append(info.Deps, &info.Main) {
		if module.Path == modulePath && module.Version != "" && module.Version != "(devel)" {
			version, commit = module.Version, module.Version
		}
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" && info.Main.Path == modulePath {
			commit = setting.Value
		}
	}
	return version, commit
}

// RequestInfo describes one attempt of a call, for metrics.
type RequestInfo struct {
	// Endpoint is one of the Endpoint… constants of package failure.
	Endpoint string
	// StatusCode is the answer's HTTP status, or 0 if no complete answer came.
	StatusCode int
	// Duration is the time from the start of the attempt to its end, reading the answer included.
	Duration time.Duration
	// Err is the reason why no complete answer came; nil if one did, whatever its status.
	Err error
	// RateLimit is the credential's limit according to the answer. It is nil if the answer has none, as those of the
	// Actions service.
	RateLimit *RateLimit
	// TokenExpires is the expiry of the request's personal access token (header
	// GitHub-Authentication-Token-Expiration); zero if the answer does not say.
	TokenExpires time.Time
}

// Status returns the HTTP status as a metric's label: "none" if no complete answer came, "other" if HTTP has no such
// status. Each one creates series, and the server may be anybody's.
func (i RequestInfo) Status() string {
	switch {
	case i.StatusCode == 0:
		return "none"
	case http.StatusText(i.StatusCode) == "":
		return "other"
	}
	return strconv.Itoa(i.StatusCode)
}

// ShowsExpiry reports whether the attempt obtained a registration token, about every hour: only this call carries the
// personal access token. A zero TokenExpires then means that the token does not expire, or that GitHub does not say
// when.
func (i RequestInfo) ShowsExpiry() bool {
	return i.Endpoint == failure.EndpointRegistrationToken && i.StatusCode >= 200 && i.StatusCode < 300
}

// infoOf describes an attempt. answer is nil if no complete one came because of err.
func infoOf(endpoint string, took time.Duration, answer *http.Response, err error) RequestInfo {
	info := RequestInfo{
		Endpoint: endpoint,
		Duration: took,
		Err:      err,
	}
	if answer != nil {
		info.StatusCode = answer.StatusCode
		info.RateLimit, info.TokenExpires = rateLimitOf(answer.Header), tokenExpiryOf(answer.Header)
	}
	return info
}

// RateLimit counts the requests for a resource of the REST API that are left (headers X-RateLimit-…).
type RateLimit struct {
	// Resource is GitHub's name for what is limited, such as "core"; "other" if GitHub's documentation does not have
	// the name.
	Resource string
	// Remaining is the number of requests that GitHub accepts until Reset.
	Remaining int
	// At Reset the limit starts over, on GitHub's clock; zero if the answer does not say.
	Reset time.Time
}

// tokenExpiryLayouts are the formats in which GitHub sends the expiry of a personal access token.
var tokenExpiryLayouts = []string{"2006-01-02 15:04:05 MST", "2006-01-02 15:04:05 -0700"}

const (
	// resourceCore is GitHub's name for the REST API. Older servers don't send it.
	resourceCore = "core"
	// resourceOther replaces names that GitHub's documentation does not have. The name becomes a label of a metric: it
	// must be valid UTF-8, each new one creates a series, and the server may be anybody's.
	resourceOther = "other"
)

// resources are GitHub's names for what it limits, from its documentation of "REST API endpoints for rate limits".
var resources = []string{
	resourceCore, "search", "code_search", "graphql", "integration_manifest", "source_import", "dependency_snapshots",
	"dependency_sbom", "code_scanning_upload", "code_scanning_autofix", "actions_runner_registration", "scim",
	"audit_log", "audit_log_streaming",
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

// tokenExpiryOf returns the expiry of the token, or zero if the answer does not have it or its format is unknown. It
// only serves to warn people in time; no decision depends on it.
func tokenExpiryOf(header http.Header) time.Time {
	text := header.Get("Github-Authentication-Token-Expiration")
	for _, layout := range tokenExpiryLayouts {
		if at, err := time.Parse(layout, text); err == nil {
			return at
		}
	}
	return time.Time{}
}
