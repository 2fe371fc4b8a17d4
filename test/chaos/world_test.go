package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/internal/testkube/fakenode"
	"github.com/harrier-ci/harrier/internal/testkube/fakestorage"
	"github.com/harrier-ci/harrier/test/history"
	"github.com/harrier-ci/harrier/test/rig"
)

const (
	// sessionLifetime and pollLength are short, so that what takes minutes on GitHub happens within a run.
	sessionLifetime = 5 * time.Second
	pollLength      = 5 * time.Second
	// runnerLostAfter is the time after which GitHub fails the job of a lost runner.
	runnerLostAfter = 10 * time.Second
	jitLatency      = 200 * time.Millisecond
)

// world is one run under way.
type world struct {
	t        *testing.T
	schedule schedule
	cluster  *testkube.Cluster
	rig      *rig.Rig
	proxy    *proxy // nil if no fault needs it
	observer *observer
	began    time.Time

	random struct {
		sync.Mutex
		*rand.Rand
	}
	apiServer sync.Mutex // held while it is away or hangs
	meddling  sync.Mutex // held while the proxy meddles

	mutex    sync.Mutex
	taken    map[string]time.Time // runners whose pod a fault took, and when
	wrong    []string             // why the run failed
	phantoms int                  // jobs that GitHub counts and that don't exist
	// seen keeps for later checks what the API server's log doesn't have.
	seen history.History
	// checked is what of that was checked.
	checked checked
}

// gitHubClock is ahead of the clocks of everybody else.
type gitHubClock struct {
	clock.RealClock
	ahead time.Duration
}

func (c gitHubClock) Now() time.Time { return c.RealClock.Now().Add(c.ahead) }

func (c gitHubClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// ours converts a time of GitHub's clock. Zero, which is never, stays zero.
func (w *world) ours(gitHubs time.Time) time.Time {
	if gitHubs.IsZero() {
		return gitHubs
	}
	return gitHubs.Add(-w.schedule.gitHubAhead)
}

// newWorld installs the product on a cluster of its own.
func newWorld(t *testing.T, s schedule) *world {
	t.Helper()
	options := rig.ClusterOptions()
	options.AuditLog, options.AuditObjects = true, true
	w := &world{t: t, schedule: s, cluster: testkube.Start(t, options), taken: map[string]time.Time{}}
	w.random.Rand = rand.New(rand.NewPCG(s.seed, 1))
	rigOptions := rig.Options{
		MinRunners: s.minRunners, MaxRunners: s.maxRunners, ManagerReplicas: s.managers,
		// The default of 10 s, which doubles, could keep a container down for longer than settleTime, which would not
		// be the product's doing.
		NodeRestartBackOff: time.Second,
		ScaleSetValues:     s.claims.values(),
		Storage:            fakestorage.Options{Zones: []string{zoneA, zoneB}},
		GitHub: fakegithub.Options{
			JITLatency: jitLatency, PollLength: pollLength, Seed: s.seed, Clock: gitHubClock{ahead: s.gitHubAhead},
			Rules: fakegithub.Rules{
				Flow: fakegithub.AutoAssign, SessionLifetime: sessionLifetime, RunnerLostAfter: runnerLostAfter,
				ZeroIsFinal: s.zeroIsFinal,
			},
		},
	}
	if s.reruns {
		rigOptions.ScaleSetValues = rerunValues
		rigOptions.GitHub.RunnerLostAfter = rerunLostAfter
	}
	if s.acquire {
		rigOptions.GitHub.Flow = fakegithub.Acquire
	}
	if s.has(slowWatch, cutWatches, refuseWrites, slowAPIServer, cutOffLeader) {
		w.proxy = startProxy(t, w.cluster.Config())
		rigOptions.APIServer = w.proxy.config
	}
	w.rig = rig.Start(t, w.cluster, rigOptions)
	w.observer = &observer{rig: w.rig, max: s.maxRunners, maxClaims: s.claims.most}
	return w
}

// play runs the schedule until its last fault is over.
func (w *world) play() {
	w.t.Helper()
	w.began = time.Now()
	var parts sync.WaitGroup
	for _, b := range append(w.schedule.batches, w.schedule.settling) {
		parts.Go(func() {
			if w.sleep(b.at) {
				w.queue(b.durations)
			}
		})
	}
	for _, f := range w.schedule.faults {
		parts.Go(func() {
			if w.sleep(f.at) {
				w.logf("%s", f)
				w.strike(f)
			}
		})
	}
	parts.Wait()
	w.rig.GitHub.RemoveFault("")
	w.logf("the last fault is over")
}

// sleep waits until the given time since the beginning. It returns false if the test ends first.
func (w *world) sleep(sinceBegin time.Duration) bool {
	return rig.Wait(w.t.Context(), time.Until(w.began.Add(sinceBegin)))
}

// pause waits for the duration, or until the test ends.
func (w *world) pause(duration time.Duration) { rig.Wait(w.t.Context(), duration) }

func (w *world) queue(durations []time.Duration) {
	request := fakegithub.JobRequest{Count: len(durations), ScaleSet: rig.DefaultSet}
	for _, duration := range durations {
		request.Durations = append(request.Durations, fakegithub.Duration(duration))
	}
	if _, err := w.rig.GitHub.QueueJobs(request); err != nil {
		w.errorf("queue %d jobs: %v", len(durations), err)
	}
}

// logf logs a line with the time since the beginning.
func (w *world) logf(format string, values ...any) {
	w.t.Helper()
	w.t.Logf("%5.1f s  "+format, append([]any{time.Since(w.began).Seconds()}, values...)...)
}

// errorf fails the run. It logs the reason now and adds it to the campaign's summary.
func (w *world) errorf(format string, values ...any) {
	w.t.Helper()
	w.logf(format, values...)
	w.t.Fail()
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.wrong = append(w.wrong, fmt.Sprintf(format, values...))
}

// take records that a fault took the pods of these runners.
func (w *world) take(runners []types.NamespacedName) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, runner := range runners {
		w.taken[runner.Name] = time.Now()
	}
}

// some picks a share of the pods at random, at least one if there are any.
func (w *world) some(pods []types.NamespacedName, percent int) []types.NamespacedName {
	w.random.Lock()
	defer w.random.Unlock()
	w.random.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
	return pods[:(len(pods)*percent+99)/100]
}

// kill kills containers and returns the pods that were hit.
func (w *world) kill(
	pods []types.NamespacedName, container string, kill func(*fakenode.Node, types.NamespacedName, string) error,
) []types.NamespacedName {
	return w.hit(pods, func(pod types.NamespacedName) error { return kill(w.rig.Node, pod, container) })
}

// hit strikes pods and returns those that were hit. It is no error if a pod or container has ended already.
func (w *world) hit(pods []types.NamespacedName, strike func(types.NamespacedName) error) []types.NamespacedName {
	return slices.DeleteFunc(slices.Clone(pods), func(pod types.NamespacedName) bool {
		err := strike(pod)
		if err != nil {
			w.logf("missed: %v", err)
		}
		return err != nil
	})
}
