package load

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/testkube"
)

// Among thousands of runners, names repeat. A job's times must be those of the pod that it ran in.
func TestAJobsPodIsTheOneOfItsTime(t *testing.T) {
	began := time.Now()
	at := func(second int) time.Time { return began.Add(time.Duration(second) * time.Second) }
	event := func(verb, subresource string, second int) testkube.AuditEvent {
		event := testkube.AuditEvent{Verb: verb, Answered: at(second)}
		event.Object.Resource, event.Object.Subresource, event.Object.Name = "pods", subresource, "runner"
		event.Response.Code = http.StatusOK
		return event
	}
	report := event("patch", "status", 3)
	report.Object.Resource, report.User.Username = "ephemeralrunners",
		"system:serviceaccount:arc-systems:runners-0123456789abcdef-listener"
	pods := podTimesOf([]testkube.AuditEvent{
		event("create", "", 1), event("patch", "status", 2), event("patch", "", 2), report, event("patch", "", 4), event("patch", "status", 5), event("delete", "", 6), event("delete", "", 7),
		event("create", "", 600), event("patch", "status", 610), event("delete", "", 620),
	})
	job := func(queued, completed int) fakegithub.Job {
		return fakegithub.Job{Runner: "runner", QueuedAt: at(queued), CompletedAt: at(completed)}
	}
	lives := livesOf([]fakegithub.Job{job(0, 4), job(590, 608), {Runner: "another", CompletedAt: at(9)}}, pods)
	for what, spans := range map[string]struct{ got, want []time.Duration }{
		"queued → created":  {between(lives, queued, created), []time.Duration{time.Second, 10 * time.Second}},
		"reported → marked": {between(lives, reported, marked), []time.Duration{time.Second}},
		"completed → gone":  {between(lives, completed, gone), []time.Duration{3 * time.Second, 12 * time.Second}},
		"told → gone":       {between(lives, told, gone), []time.Duration{2 * time.Second, 10 * time.Second}},
	} {
		if !slices.Equal(spans.got, spans.want) {
			t.Errorf("%s: %v, want %v", what, spans.got, spans.want)
		}
	}
	if last := latest(lives, gone); !last.Equal(at(620)) {
		t.Errorf("the last pod went at %s, want %s", last, at(620))
	}
}
