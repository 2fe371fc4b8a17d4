package rig

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/internal/testkube"
)

// A request that is granted when repeated only came too early. One whose last answer is a refusal lacks a rule.
func TestRefusedToTheLast(t *testing.T) {
	refused := refusals{}
	for _, answer := range []struct {
		user, verb, request string
		code                int
	}{
		{"manager", "list", "/pods?resourceVersion=0", http.StatusForbidden},
		{"manager", "list", "/pods", http.StatusOK},
		{"manager", "create", "/pods", http.StatusCreated},
		{"manager", "create", "/pods", http.StatusForbidden},
		{"manager", "get", "/secrets/a", http.StatusForbidden},
		{"listener", "get", "/secrets/a", http.StatusOK},
		{"manager", "get", "/secrets/b", http.StatusNotFound},
	} {
		event := testkube.AuditEvent{Verb: answer.verb, RequestURI: answer.request}
		event.User.Username, event.Response.Code = answer.user, answer.code
		refused.note(event)
	}
	want := []string{"manager: create /pods", "manager: get /secrets/a"}
	if difference := cmp.Diff(want, refused.requests()); difference != "" {
		t.Errorf("refused (-want +got):\n%s", difference)
	}
}
