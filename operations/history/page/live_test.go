package page_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/operations/history/ledger"
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

// TestNobodyKeepsOthersFromFollowing: everybody who forwards a port comes from the same address.
func TestNobodyKeepsOthersFromFollowing(t *testing.T) {
	s := empty(t)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	first, _ := s.follow(ctx, t, "/")
	<-first
	for range 23 {
		events, status := s.follow(ctx, t, "/")
		if status != http.StatusOK {
			t.Fatalf("a follower gets %d", status)
		}
		<-events
	}
	for range 16 {
		if _, status := s.follow(ctx, t, "/"); status != http.StatusServiceUnavailable {
			t.Errorf("one more follower gets %d", status)
		}
	}
	if answer, _ := s.get(t, "/"); answer.StatusCode != http.StatusOK {
		t.Errorf("the page itself gives %d", answer.StatusCode)
	}
	s.clock.Step(time.Minute)
	if _, status := s.follow(ctx, t, "/"); status != http.StatusOK {
		t.Errorf("after everybody's turn a follower gets %d", status)
	}
	last := ""
	for event := range first {
		last = event
	}
	if !strings.HasPrefix(last, "event: crowded\n") {
		t.Errorf("who followed longest ends with %.300q", last)
	}
}

// TestWrongPagesTakeNoPlace: they are refused as without a script.
func TestWrongPagesTakeNoPlace(t *testing.T) {
	s := empty(t)
	for path, want := range map[string]int{"/?color=red": http.StatusBadRequest, "/jobs?from=soon": http.StatusBadRequest,
		"/set": http.StatusBadRequest, "/job?runnerUID=nobody": http.StatusNotFound} {
		for range 40 {
			if _, status := s.follow(t.Context(), t, path); status != want {
				t.Fatalf("%s gives %d", path, status)
			}
		}
	}
	if _, status := s.follow(t.Context(), t, "/"); status != http.StatusOK {
		t.Errorf("after wrong questions a follower gets %d", status)
	}
}

// TestNoPageIsFollowedForEver: a browser that still looks asks again.
func TestNoPageIsFollowedForEver(t *testing.T) {
	s := empty(t)
	events, _ := s.follow(t.Context(), t, "/")
	for range 2 {
		<-events
	}
	s.clock.Step(10 * time.Minute)
	last := ""
	for event := range events {
		last = event
	}
	if !strings.HasPrefix(last, "event: again\ndata: ") {
		t.Errorf("after ten minutes the last event is %.300q", last)
	}
}
