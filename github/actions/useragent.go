package actions

import (
	"encoding/json"
	"runtime/debug"
	"sync"
)

// modulePath is where this package's version is found in a program's build information.
const modulePath = "github.com/harrier-ci/harrier"

// UserAgent describes the program to GitHub.
type UserAgent struct {
	System     string
	Version    string
	CommitSHA  string
	ScaleSetID int
	Subsystem  string
}

// userAgentHeader is what GitHub's own client sends: the header's value is a JSON object with its keys in this order.
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

// header returns the value of the User-Agent header for a call about a scale set. A client that serves several sets
// has no scale set of its own; then the call's is named.
func (u UserAgent) header(scaleSetID int) string {
	if u.ScaleSetID != 0 {
		scaleSetID = u.ScaleSetID
	}
	version, commit := build()
	// The error is dropped because strings and numbers always encode.
	text, _ := json.Marshal(userAgentHeader{
		System: u.System, Version: u.Version, CommitSHA: u.CommitSHA, ScaleSetID: scaleSetID, Subsystem: u.Subsystem,
		BuildVersion: version, BuildCommitSHA: commit, Kind: "scaleset",
	})
	return string(text)
}

// build returns version and commit of this module as the Go tool recorded them, "unknown" where it did not.
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
