package actions

import (
	"runtime/debug"
	"strings"
	"testing"
)

// The User-Agent is a JSON object with its keys in order.
func TestUserAgent(t *testing.T) {
	s := newServer(t)
	s.on(getSetCall, reply{body: `{"id":7}`})
	if _, err := s.client().GetRunnerScaleSetByID(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	const start = `{"system":"test","version":"1.2.3","commit_sha":"abc","scale_set_id":`
	const end = `,"kind":"scaleset"}`
	for call, id := range map[string]string{registrationTokenCall: "0", registerCall: "0", getSetCall: "7"} {
		got := s.only(call).header.Get("User-Agent")
		if !strings.HasPrefix(got, start+id+`,"subsystem":"unit","build_version":"`) || !strings.HasSuffix(got, end) {
			t.Errorf("%s: %s", call, got)
		}
	}
}

func TestUserAgentNamesTheClientsOwnScaleSet(t *testing.T) {
	if got := (UserAgent{ScaleSetID: 9}).header(7); !strings.Contains(got, `"scale_set_id":9,`) {
		t.Errorf("got %s, want scale set 9", got)
	}
}

func TestBuildInformation(t *testing.T) {
	for name, test := range map[string]struct {
		info            debug.BuildInfo
		version, commit string
	}{
		"dependency": {debug.BuildInfo{Main: debug.Module{Path: "example.com/x"}, Deps: []*debug.Module{{Path: modulePath, Version: "v1.2.3"}}}, "v1.2.3", "v1.2.3"},
		"own binary": {debug.BuildInfo{Main: debug.Module{Path: modulePath, Version: "(devel)"}, Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}}}, "unknown", "abc"},
		"unrelated":  {debug.BuildInfo{Main: debug.Module{Path: "example.com/x"}, Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}}}, "unknown", "unknown"},
	} {
		if version, commit := buildOf(&test.info); version != test.version || commit != test.commit {
			t.Errorf("%s: got %s, %s; want %s, %s", name, version, commit, test.version, test.commit)
		}
	}
}
