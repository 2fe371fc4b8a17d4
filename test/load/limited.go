package load

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// GitHub registers 1,500 runners in five minutes for an organization or a repository. This is the same on a small
// scale: registrations beyond the allowance of a window are refused until it ends.
const (
	limitWindow    = 10 * time.Second
	limitAllowance = 150
)

// registrations is the endpoint that GitHub limits.
const registrations = "generate-jit-config"

// limited is a burst against a GitHub that registers a limited number of runners per window.
func limited(t *testing.T, cluster *testkube.Cluster, s *settings, jobs int) Result {
	result := newResult(s, jobs)
	r := rig.Start(t, cluster, s.rigOptions(jobs))
	m := begin(t, r).profiled(s)
	unlimit := limitRegistrations(t, r)
	r.QueueJobs(jobs, s.job)
	m.awaitJobs(jobs)
	unlimit()
	m.end(&result)
	least := time.Duration((jobs-1)/limitAllowance) * limitWindow
	result.Notes["registrations refused"] = fmt.Sprintf("%d; %d every %s are allowed, which takes %s", refusals(r),
		limitAllowance, limitWindow, least)
	return result
}

// limitRegistrations plays one window after the other until the returned function is called.
func limitRegistrations(t *testing.T, r *rig.Rig) (unlimit func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for ctx.Err() == nil {
			playWindow(ctx, t, r)
		}
	}()
	return func() {
		stop()
		<-stopped
	}
}

// playWindow refuses the registrations beyond the allowance. Its refusals have the end of the window, which is at a
// whole second, because the Retry-After header has no fractions.
func playWindow(ctx context.Context, t *testing.T, r *rig.Rig) {
	ends := time.Now().Add(limitWindow).Truncate(time.Second)
	fault, err := r.GitHub.AddFault(fakegithub.Fault{
		Endpoint: registrations, Skip: limitAllowance, Status: http.StatusTooManyRequests,
		Headers: map[string]string{"Retry-After": ends.UTC().Format(http.TimeFormat)},
	})
	if err != nil {
		t.Error(err)
	}
	select {
	case <-ctx.Done():
	case <-time.After(time.Until(ends)):
	}
	r.GitHub.RemoveFault(fault)
}

func refusals(r *rig.Rig) (refused int) {
	for _, counter := range r.GitHub.Counters() {
		if counter.Endpoint == registrations {
			refused += counter.ByStatus[http.StatusTooManyRequests]
		}
	}
	return refused
}
