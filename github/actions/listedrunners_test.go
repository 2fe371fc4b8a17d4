package actions

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const listRunnersCall = "GET /api/v3/orgs/acme/actions/runners"

// page is an answer of the REST API with that many runners that are online, and the given ones after them.
func page(online int, more ...string) reply {
	runners := make([]string, 0, online+len(more))
	for i := range online {
		runners = append(runners, fmt.Sprintf(`{"id":%d,"name":"up-%d","os":"linux","status":"online","busy":false,"labels":[]}`, i, i))
	}
	return reply{body: `{"total_count":1,"runners":[` + strings.Join(append(runners, more...), ",") + `]}`}
}

func TestOfflineRunnersAreListedFromAllPages(t *testing.T) {
	s := newServer(t)
	s.on(listRunnersCall,
		page(99, `{"id":200,"name":"gone","os":"linux","status":"offline","busy":false,"labels":[]}`),
		page(0, `{"id":201,"name":"lost","os":"unknown","status":"offline","busy":true}`, `{"id":202,"name":"odd","status":"sleeping"}`))
	got, err := s.client().ListOfflineRunners(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	want := &OfflineRunners{Names: []string{"gone", "lost"}, ListedAt: epoch}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	calls := s.calls(listRunnersCall)
	if len(calls) != 2 || calls[0].rawQuery != "page=1&per_page=100" || calls[1].rawQuery != "page=2&per_page=100" {
		t.Errorf("requests %v", calls)
	}
	if got, want := calls[0].header.Get("Authorization"), "Bearer "+testToken; got != want {
		t.Errorf("Authorization %q, want %q", got, want)
	}
}

// A thousand sets of one organization see the same runners: one list serves them all.
func TestOfflineRunnersAreListedOnceForAllCallers(t *testing.T) {
	s := newServer(t)
	s.on(listRunnersCall, page(1))
	client := s.client()
	list := func() {
		t.Helper()
		if _, err := client.ListOfflineRunners(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	list()
	s.clock.Step(time.Minute)
	list()
	if got := len(s.calls(listRunnersCall)); got != 1 {
		t.Fatalf("%d lists within a minute, want 1", got)
	}
	s.clock.Step(time.Second)
	list()
	if got := len(s.calls(listRunnersCall)); got != 2 {
		t.Errorf("%d lists after more than a minute, want 2", got)
	}
}

func TestOfflineRunnersAreCutAfterAHundredPages(t *testing.T) {
	s := newServer(t)
	s.on(listRunnersCall, page(100))
	if _, err := s.client().ListOfflineRunners(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if requests := len(s.calls(listRunnersCall)); requests != 100 || !strings.Contains(s.logText(), "more runners") {
		t.Errorf("%d requests, logged %s", requests, s.logText())
	}
}

// A server in GitHub's place can make neither the list long nor its names, and nothing of its answers stays reserved.
func TestAListOfTooManyRunnersIsBounded(t *testing.T) {
	gone := make([]string, 0, 5001)
	gone = append(gone, `{"name":"`+strings.Repeat("x", 64)+`","status":"offline"}`)
	for i := range 5000 {
		gone = append(gone, fmt.Sprintf(`{"name":"runner-%d","status":"offline"}`, i))
	}
	s := newServer(t)
	s.on(listRunnersCall, page(0, gone...))
	budget := NewBudget(1<<20, 1<<20)
	got, err := s.client(func(o *Options) { o.Budget = budget }).ListOfflineRunners(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if most := runnersPerPage * mostRunnerPages; len(got.Names) > most || got.Names[0] != "runner-0" {
		t.Errorf("%d names, at most %d are allowed; the first is %.70s", len(got.Names), most, got.Names[0])
	}
	if err := s.room(budget)(); err != nil {
		t.Errorf("something is still reserved: %v", err)
	}
}

// GitHub answers 404 to tokens that may not read, and so do servers that lack the call. A failed list is not remembered.
func TestRefusedListOfRunners(t *testing.T) {
	for _, status := range []int{403, 404} {
		s := newServer(t)
		s.on(listRunnersCall, reply{status: status, body: `{"message":"no"}`}, page(0))
		client := s.client()
		_, err := client.ListOfflineRunners(t.Context(), time.Hour)
		if !errors.Is(err, ErrUnauthorized) || !strings.Contains(err.Error(), "personal access token") {
			t.Errorf("%d: %v", status, err)
		}
		if _, err := client.ListOfflineRunners(t.Context(), time.Hour); err != nil {
			t.Errorf("after %d: %v", status, err)
		}
	}
}
