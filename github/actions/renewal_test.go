package actions_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/harrier-ci/harrier/github/actions"
)

// newestTokenOnly answers 401 to all admin tokens but the newest.
func (s *server) newestTokenOnly(next string) reply {
	return reply{do: func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		current := s.newest
		s.mu.Unlock()
		if r.Header.Get("Authorization") != "Bearer "+current {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		reply{body: next}.write(w, r)
	}}
}

// Renewal on 401, and one repetition.
func TestRefusedAdminTokenIsRenewedOnce(t *testing.T) {
	s := newServer(t)
	s.on(getSetCall, s.newestTokenOnly(`{"id":7}`))
	client := s.client()
	if _, err := client.GetRunnerScaleSetByID(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	s.revoke()
	if _, err := client.GetRunnerScaleSetByID(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	if got := s.registrations(); got != 2 {
		t.Errorf("%d registrations, want 2", got)
	}
	if got := len(s.calls(getSetCall)); got != 3 {
		t.Errorf("%d attempts, want 3", got)
	}
}

func TestConcurrentCallsShareOneRenewal(t *testing.T) {
	s := newServer(t)
	s.on(getSetCall, s.newestTokenOnly(`{"id":7}`))
	client := s.client()
	for round := 1; round <= 3; round++ {
		var calls sync.WaitGroup
		for range 50 {
			calls.Go(func() {
				if _, err := client.GetRunnerScaleSetByID(t.Context(), 7); err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
		if got := s.registrations(); got != round {
			t.Fatalf("round %d: %d registrations, want %d", round, got, round)
		}
		s.revoke()
	}
}

func TestSlowRenewalHoldsUpNoOtherCall(t *testing.T) {
	s := newServer(t)
	release := make(chan struct{})
	client := s.client()
	s.on(getSetCall, reply{body: `{"id":7}`})
	if _, err := client.GetRunnerScaleSetByID(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	s.on(registerCall, reply{do: func(w http.ResponseWriter, r *http.Request) { <-release; s.register(w, r) }})
	s.on("GET "+runnersURL+"/1", reply{status: 401}, reply{body: `{"id":1}`})

	renewing := make(chan error, 1)
	go func() {
		_, err := client.GetRunner(t.Context(), 1)
		renewing <- err
	}()
	gomega.NewWithT(t).Eventually(s.registrations).WithTimeout(busyTimeout).Should(gomega.Equal(2))
	if _, err := client.GetRunnerScaleSetByID(t.Context(), 7); err != nil {
		t.Errorf("a call with a token that is still good: %v", err)
	}
	close(release)
	if err := <-renewing; err != nil {
		t.Error(err)
	}
}

func TestCallerWhoseContextEndsLeavesARenewalToTheOthers(t *testing.T) {
	s := newServer(t)
	release := make(chan struct{})
	s.on(registerCall, reply{do: func(w http.ResponseWriter, r *http.Request) { <-release; s.register(w, r) }})
	s.on(getSetCall, reply{body: `{"id":7}`})
	client := s.client()

	impatient, cancel := context.WithCancel(t.Context())
	left, stayed := make(chan error, 1), make(chan error, 1)
	call := func(ctx context.Context, result chan<- error) {
		_, err := client.GetRunnerScaleSetByID(ctx, 7)
		result <- err
	}
	go call(impatient, left) // starts the renewal
	gomega.NewWithT(t).Eventually(s.registrations).WithTimeout(busyTimeout).Should(gomega.Equal(1))
	go call(t.Context(), stayed)
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	close(release)
	if err := <-stayed; err != nil {
		t.Errorf("the other caller: %v", err)
	}
	if got := s.registrations(); got != 1 {
		t.Errorf("%d registrations, want 1", got)
	}
}

func TestRateLimitedRenewalIsNotRepeatedBeforeItsTime(t *testing.T) {
	s := newServer(t)
	s.on(getSetCall, reply{body: `{"id":7}`})
	s.on(registrationTokenCall,
		reply{
			status: 403,
			body:   `{"message":"You have exceeded a secondary rate limit"}`,
			header: map[string]string{"Retry-After": "90"},
		},
		reply{status: 201, body: `{"token":"` + testRegistration + `"}`})
	client := s.client()
	for _, step := range []time.Duration{0, time.Second, 88 * time.Second} {
		s.clock.Step(step)
		_, err := client.GetRunnerScaleSetByID(t.Context(), 7)
		var limited *actions.RateLimitedError
		if !errors.As(err, &limited) || !limited.Until.Equal(epoch.Add(90*time.Second)) {
			t.Fatalf("got %v, want *RateLimitedError until 90 s after the first call", err)
		}
		if errors.Is(err, actions.ErrUnauthorized) {
			t.Error("a limit passes for a refused credential")
		}
	}
	if got := len(s.calls(registrationTokenCall)); got != 1 {
		t.Errorf("GitHub was asked %d times within the limit, want once", got)
	}
	s.clock.Step(2 * time.Second)
	if _, err := client.GetRunnerScaleSetByID(t.Context(), 7); err != nil {
		t.Errorf("after the limit: %v", err)
	}
}

// Without a connection every runner's call would try to get one. Each fails with the same error instead.
func TestUnavailableRegistrationIsLeftAloneForAWhile(t *testing.T) {
	s := newServer(t)
	s.on(registrationTokenCall, reply{
		status: http.StatusServiceUnavailable,
		header: map[string]string{"Retry-After": "86400"},
	})
	client := s.client()
	for want := 1; want <= 2; want++ {
		for range 3 {
			var limited *actions.RateLimitedError
			if _, err := client.GetRunnerScaleSetByID(t.Context(), 7); err == nil || errors.As(err, &limited) {
				t.Errorf("got %v, want the 503", err)
			}
		}
		if got := len(s.calls(registrationTokenCall)); got != want {
			t.Errorf("GitHub was asked %d times, want %d", got, want)
		}
		s.clock.Step(time.Minute)
	}
}

// In its last minute a token is as good as ever: a failed renewal fails no call, and not every call tries again.
func TestFailedRenewalFailsNoCallWhileTheTokenIsGood(t *testing.T) {
	s := newServer(t)
	s.on(getSetCall, reply{body: `{"id":7}`})
	client := s.client()
	get := func() error {
		_, err := client.GetRunnerScaleSetByID(t.Context(), 7)
		return err
	}
	if err := get(); err != nil {
		t.Fatal(err)
	}
	s.on(registrationTokenCall, reply{status: http.StatusNotImplemented})
	s.clock.Step(time.Hour - 59*time.Second)
	for range 3 {
		if err := get(); err != nil {
			t.Errorf("59 s before the token's end: %v", err)
		}
	}
	if got := len(s.calls(registrationTokenCall)); got != 2 {
		t.Errorf("%d registrations were begun, want the first and one renewal", got)
	}
	s.clock.Step(10 * time.Second)
	if err := get(); err != nil || len(s.calls(registrationTokenCall)) != 3 {
		t.Errorf(
			"after the pause: %v with %d registrations, want none with 3",
			err, len(s.calls(registrationTokenCall)),
		)
	}
	s.clock.Step(49 * time.Second)
	if err := get(); err == nil {
		t.Error("a token is used after it has expired")
	}
	s.on(registrationTokenCall, reply{status: 201, body: `{"token":"` + testRegistration + `"}`})
	if err := get(); err != nil || s.registrations() != 2 {
		t.Errorf("once renewals work: %v with %d registrations, want none with 2", err, s.registrations())
	}
}

// A renewal that hangs takes half of a call's time, and none of the next calls'.
func TestHangingRenewalLeavesTimeForTheCall(t *testing.T) {
	t.Parallel() // it waits
	s := newServer(t)
	s.on(getSetCall, reply{body: `{"id":7}`})
	client := s.client()
	if _, err := client.GetRunnerScaleSetByID(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	// CallTimeout would allow the renewal 15 s. Half of it is left for two answers of a server that may be short of
	// processors.
	ctx, cancel := context.WithTimeout(t.Context(), 14*time.Second)
	defer cancel()
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	s.on(registrationTokenCall, reply{do: func(http.ResponseWriter, *http.Request) { <-release }})
	s.clock.Step(time.Hour - 59*time.Second)
	for range 2 {
		if _, err := client.GetRunnerScaleSetByID(ctx, 7); err != nil {
			t.Errorf("59 s before the token's end: %v", err)
		}
	}
}
