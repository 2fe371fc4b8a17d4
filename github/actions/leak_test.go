package actions

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
)

// No goroutine is left behind by calls that hang, are repeated or are abandoned by their callers, or by renewals that many
// callers wait for.
func TestNothingRunsOnAfterTheCalls(t *testing.T) {
	before := runtime.NumGoroutine()
	s := newServer(t)
	session := s.session()
	s.on(pollCall, reply{do: hang})
	s.on(acquireCall, cutShort("["), reply{status: 500}, reply{status: 401}, reply{body: `{"value":[1]}`})
	s.on(refreshSessionCall, reply{do: hang})
	s.on(getSetCall, reply{status: 401})
	var calls sync.WaitGroup
	for range 20 {
		ctx, leave := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer leave()
		calls.Go(func() { _, _ = session.GetMessage(ctx, 0, 1) })
		calls.Go(func() { _, _ = session.AcquireJobs(ctx, []int64{1}) })
		calls.Go(func() { _, _ = session.client.GetRunnerScaleSetByID(ctx, 7) })
	}
	calls.Wait()
	s.on(refreshSessionCall, reply{body: s.sessionBody("second", nil)})
	s.CloseClientConnections() // what the callers have left, a renewal, ends with its connection
	session.client.CloseIdleConnections()
	s.Close()
	gomega.NewWithT(t).Eventually(runtime.NumGoroutine).WithTimeout(patience).
		Should(gomega.BeNumerically("<=", before), func() string {
			stacks := make([]byte, 1<<20)
			return string(stacks[:runtime.Stack(stacks, true)])
		})
}
