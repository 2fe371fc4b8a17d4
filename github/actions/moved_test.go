package actions

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// removeRunner has a client remove runner 1 twice, from a service that answers 404 without a reason: first with an
// address that GitHub has just given, then with an old one.
func removeRunner(t *testing.T, s *server) (young, old error) {
	t.Helper()
	client := s.client()
	s.on("DELETE "+runnersURL+"/1", reply{status: http.StatusNoContent}, reply{status: http.StatusNotFound})
	if err := client.RemoveRunner(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	young = client.RemoveRunner(t.Context(), 1)
	s.clock.Step(connectionTrust)
	return young, client.RemoveRunner(t.Context(), 1)
}

// A busy runner would be deleted if a 404 from the service's former address passed for "no such runner".
func TestServiceThatHasMovedIsFollowed(t *testing.T) {
	s := newServer(t)
	s.on("DELETE /elsewhere/_apis/distributedtask/pools/0/agents/1", reply{
		status: http.StatusBadRequest, body: exception("JobStillRunningException", "it has a job"),
	})
	s.on(registerCall, reply{do: s.register}, reply{do: func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"url":%q,"token":"new-secret"}`, s.URL+"/elsewhere/")
	}})
	if young, old := removeRunner(t, s); !errors.Is(young, ErrRunnerNotFound) || !errors.Is(old, ErrJobStillRunning) {
		t.Errorf("RemoveRunner() = %v with a new address, %v with an old one; want ErrRunnerNotFound and ErrJobStillRunning", young, old)
	}
}

func TestWhatIsNotThereIsNotAskedForTwice(t *testing.T) {
	s := newServer(t)
	if young, old := removeRunner(t, s); !errors.Is(young, ErrRunnerNotFound) || !errors.Is(old, ErrRunnerNotFound) {
		t.Errorf("RemoveRunner() = %v and %v, want ErrRunnerNotFound", young, old)
	}
	if removals, registrations := len(s.calls("DELETE "+runnersURL+"/1")), s.registrations(); removals != 3 || registrations != 2 {
		t.Errorf("%d removals and %d registrations, want 3 and 2", removals, registrations)
	}
}

func TestNotFoundProvesNothingWhileTheAddressIsInDoubt(t *testing.T) {
	s := newServer(t)
	s.on(registerCall, reply{do: s.register}, reply{status: http.StatusBadRequest})
	if _, old := removeRunner(t, s); old == nil || errors.Is(old, ErrNotFound) {
		t.Errorf("RemoveRunner() = %v, want the failed registration", old)
	}
}

// A gateway whose GitHub is down also answers "404 Not Found". That must not be read as a runner or scale set that is gone, nor
// its 403 as a credential to be replaced.
func TestWebPagesSayNothingAboutWhatWasAskedFor(t *testing.T) {
	for status, wrong := range map[int]error{http.StatusNotFound: ErrNotFound, http.StatusForbidden: ErrUnauthorized} {
		for name, page := range map[string]reply{
			"as HTML": {status: status, body: "<h1>Not here</h1>", header: map[string]string{"Content-Type": "text/html; charset=utf-8"}},
			"as text": {status: status, body: "\n<!DOCTYPE html><title>Not here</title>", header: map[string]string{"Content-Type": "text/plain"}},
		} {
			s := newServer(t)
			s.on("DELETE "+runnersURL+"/1", page)
			s.on(getSetCall, page)
			removal := s.client().RemoveRunner(t.Context(), 1)
			_, reading := s.client().GetRunnerScaleSetByID(t.Context(), 7)
			for _, err := range []error{removal, reading} {
				if !errors.Is(err, ErrForeignAnswer) || errors.Is(err, wrong) || !strings.Contains(err.Error(), "a web page is not an answer of GitHub's API") {
					t.Errorf("%s, status %d: got %v, want an error that says whose answer it may be", name, status, err)
				}
			}
		}
	}
}
