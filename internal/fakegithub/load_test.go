package fakegithub_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/internal/fakegithub"
)

// TestManyPollsAndRunners holds 1,000 long polls and 5,000 runners at the same time and lets every runner run a job.
// Without a network: it is the state and its wake-ups that must be cheap.
func TestManyPollsAndRunners(t *testing.T) {
	const sets, runnersPerSet = 1000, 5
	// Where thousands wait for two processors, none of them is lost.
	patient := fakegithub.Rules{RunnerLostAfter: time.Hour, SessionLifetime: time.Hour}
	c := newClient(t, fakegithub.Options{Rules: patient, PollLength: time.Minute})
	c.http = &http.Client{Transport: c.server.Transport()}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var polls, runners sync.WaitGroup
	for i := range sets {
		set := c.createSet(fmt.Sprintf("set-%d", i))
		s := c.openSession(set.ID)
		polls.Go(func() { s.pollUntil(ctx) })
		for k := range runnersPerSet {
			j := c.generate(set.ID, fmt.Sprintf("runner-%d-%d", i, k))
			runners.Go(func() {
				if _, err := fakegithub.RunRunner(ctx, j.EncodedJITConfig, fakegithub.RunnerOptions{Client: c.http}); err != nil {
					t.Errorf("runner: %v", err)
				}
			})
		}
	}
	for i := range sets {
		c.queue(fakegithub.JobRequest{ScaleSet: fmt.Sprintf("set-%d", i), Count: runnersPerSet,
			Duration: fakegithub.Duration(10 * time.Millisecond)})
	}
	runners.Wait()
	cancel()
	polls.Wait()
	if done := c.server.Snapshot().JobsByState["completed"]; done != sets*runnersPerSet {
		t.Errorf("%d jobs are completed, want %d", done, sets*runnersPerSet)
	}
	c.noAnomalies()
}

// pollUntil polls and acknowledges until the context ends.
func (s *session) pollUntil(ctx context.Context) {
	path, query, _ := strings.Cut(s.URL, "?")
	for ctx.Err() == nil {
		a := s.c.doCtx(ctx, "GET", s.URL, "Bearer "+s.Token, nil)
		if a.err != nil || a.status == 202 {
			continue
		}
		var m struct{ MessageID int64 }
		if err := json.Unmarshal(a.body, &m); err != nil {
			s.c.t.Errorf("status %d: %v", a.status, err)
			return
		}
		s.c.doCtx(ctx, "DELETE", fmt.Sprintf("%s/%d?%s", path, m.MessageID, query), "Bearer "+s.Token, nil)
	}
}
