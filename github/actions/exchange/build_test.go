package exchange

import (
	"runtime/debug"
	"testing"
)

// This test stands inside of the package, because the build information of its own binary is always the same.
func TestBuildInformation(t *testing.T) {
	for name, test := range map[string]struct {
		info            debug.BuildInfo
		version, commit string
	}{
		"dependency": {
			debug.BuildInfo{
				Main: debug.Module{Path: "example.com/x"},
				Deps: []*debug.Module{{Path: "github.com/harrier-ci/harrier", Version: "v1.2.3"}},
			},
			"v1.2.3", "v1.2.3",
		},
		"own binary": {
			debug.BuildInfo{
				Main:     debug.Module{Path: "github.com/harrier-ci/harrier", Version: "(devel)"},
				Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}},
			},
			"unknown", "abc",
		},
		"unrelated": {
			debug.BuildInfo{
				Main:     debug.Module{Path: "example.com/x"},
				Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}},
			},
			"unknown", "unknown",
		},
	} {
		if version, commit := buildOf(&test.info); version != test.version || commit != test.commit {
			t.Errorf("%s: got %s, %s; want %s, %s", name, version, commit, test.version, test.commit)
		}
	}
}
