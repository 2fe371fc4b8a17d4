package page_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/internal/history/ledger"
)

// follow opens a page as its script does, and returns its events.
func (s site) follow(ctx context.Context, t *testing.T, path string) (events chan string, status int) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "text/event-stream")
	answer, err := s.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() })
	events = make(chan string)
	go func() {
		defer close(events)
		var event []string
		for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
			if lines.Text() != "" {
				event = append(event, lines.Text())
				continue
			}
			select {
			case events <- strings.Join(event, "\n"):
			case <-ctx.Done():
				return
			}
			event = nil
		}
	}()
	return events, answer.StatusCode
}

func TestPagesFollowWhatHappens(t *testing.T) {
	s := invented(t)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	events, _ := s.follow(ctx, t, "/jobs?from=2h")
	if event := <-events; !strings.HasPrefix(event, "retry: ") {
		t.Errorf("the first event is %q", event)
	}
	event := <-events
	if !strings.HasPrefix(event, "event: content\ndata: ") || strings.Contains(event, "<html") ||
		strings.Contains(event, "<h1>") || !strings.Contains(event, "deploy") {
		t.Errorf("the page begins with %.300q", event)
	}
	for range 3 { // nothing has changed: after 15 seconds the connection shows that it is alive
		s.clock.Step(5 * time.Second)
	}
	if event := <-events; event != ": alive" {
		t.Errorf("nothing has changed, and the event is %.300q", event)
	}
	job := ledger.Job{RunnerUID: "new", Cluster: "c", Namespace: "n", Set: "s", Runner: "r", At: noon, Started: noon,
		Name: "brand\nnew"}
	if err := s.ledger.Put(t.Context(), []ledger.Job{job}); err != nil {
		t.Fatal(err)
	}
	s.clock.Step(5 * time.Second)
	if event := <-events; !strings.Contains(event, "brand new") {
		t.Errorf("after a job has started the event is %.300q", event)
	}
	s.ledger.Close()
	s.clock.Step(5 * time.Second)
	if event := <-events; !strings.HasPrefix(event, "event: stale\n") {
		t.Errorf("without a database the event is %.300q", event)
	}
}

func TestThereIsALimitOfFollowers(t *testing.T) {
	s := empty(t)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	for range 32 {
		events, status := s.follow(ctx, t, "/")
		if status != http.StatusOK {
			t.Fatalf("a follower gets %d", status)
		}
		<-events
	}
	if _, status := s.follow(ctx, t, "/"); status != http.StatusServiceUnavailable {
		t.Errorf("one more follower gets %d", status)
	}
	if answer, _ := s.get(t, "/"); answer.StatusCode != http.StatusOK {
		t.Errorf("the page itself gives %d", answer.StatusCode)
	}
}
