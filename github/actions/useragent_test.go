package actions

import (
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
