package tenant

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

const (
	// The manager may take up to memoryLimit bytes, whatever tenants do.
	memoryLimit = 400 << 20
	// The test ends a manager that exceeds memoryDanger bytes, so that the machine doesn't pay for what the test is to
	// show.
	memoryDanger = 900 << 20
	// During an attack another tenant's jobs may take this many times as long.
	slower = 2
	// A job that takes less than noticeable is never slow: a busy machine adds as much to some jobs, and outlying to
	// one of ten.
	noticeable = time.Second
	outlying   = 5 * time.Second
	// The same thing may be written again after writeInterval. A new object's first texts come immediately and may be
	// corrected within settleGrace.
	writeInterval = 10 * time.Second
	settleGrace   = 15 * time.Second
	// If GitHub says something new each time, a listener may write the number of needed runners every demandInterval,
	// and the manager as often what follows from it for the set's status.
	demandInterval = 3 * time.Second
)

// take has a set of team a take jobs, one after the other, and returns the time that each was on its way.
func (s *stage) take(set string, count int) (durations []time.Duration) {
	s.Helper()
	for range count {
		for _, job := range s.rig.WaitDone(s.rig.QueueJobsFor(set, 1, 0)) {
			durations = append(durations, job.CompletedAt.Sub(job.QueuedAt))
		}
	}
	return durations
}

func median(durations []time.Duration) time.Duration {
	if len(durations) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(durations))
	return sorted[len(sorted)/2]
}

// slowed lists what of team a's jobs took too long compared with those before and after the attack.
func slowed(during, control []time.Duration) (found []string) {
	usual, allowed := median(control), max(slower*median(control), noticeable)
	if median(during) > allowed {
		found = append(found, fmt.Sprintf("half of the jobs took more than %s, usually %s", median(during), usual))
	}
	// One by one they are compared with the slowest usual one.
	most := max(slower*slices.Max(control), outlying)
	for _, took := range during {
		if took > most {
			found = append(found, fmt.Sprintf("a job took %s, usually %s and at most %s", took, usual,
				slices.Max(control)))
		}
	}
	return found
}

// restarts returns the number of restarts of each of the manager's pods.
func (s *stage) restarts() map[string]int32 {
	s.Helper()
	counts := map[string]int32{}
	for _, pod := range s.rig.ManagerPods() {
		for _, status := range pod.Status.ContainerStatuses {
			counts[pod.Name] += status.RestartCount
		}
	}
	return counts
}

// weight follows the manager's memory.
type weight struct {
	mutex sync.Mutex
	most  int64
	ended int // managers that were about to take too much
}

// weigh follows it until the context ends.
func (s *stage) weigh(ctx context.Context) *weight {
	s.Helper()
	w := &weight{}
	go func() {
		for rig.Wait(ctx, 100*time.Millisecond) {
			used := s.rig.Usage(rig.ManagerProgram)
			w.mutex.Lock()
			w.most = max(w.most, used.Resident, used.ResidentPeak)
			if used.Resident > memoryDanger {
				w.ended++
				for _, pod := range s.rig.ManagerPods() {
					_ = s.rig.Node.Kill(client.ObjectKeyFromObject(&pod), "manager") // unless it has just ended
				}
			}
			w.mutex.Unlock()
		}
	}()
	return w
}

func (w *weight) report(t *testing.T) {
	t.Helper()
	w.mutex.Lock()
	defer w.mutex.Unlock()
	t.Logf("the manager took at most %d MiB", w.most>>20)
	if w.most >= memoryLimit || w.ended > 0 {
		t.Errorf("the manager took %d MiB, %d allowed; %d times the test ended it", w.most>>20, memoryLimit>>20,
			w.ended)
	}
}

var newEvents = []string{"create", "events"}

const listeners = "a listener: "

// chatter lists the writes for team b that the product has made more often than it may, from a moment after the attacks
// began: about team b's objects, and about those in the manager's namespace. Team a's jobs write in its own. Events
// have names of their own and count together: in each period there may be one about each object.
func (s *stage) chatter(from, until time.Time, objects int) (found []string) {
	s.Helper()
	from = from.Add(settleGrace)
	events, err := s.rig.Cluster.AuditEvents(testkube.AuditFilter{Since: from})
	if err != nil {
		s.Fatal(err)
	}
	counts := map[string]int{}
	for _, event := range events {
		about := event.Object
		ours := strings.HasPrefix(event.User.Username, testkube.ServiceAccountUser(s.rig.SystemNamespace, ""))
		reads := slices.Contains([]string{"get", "list", "watch"}, event.Verb) || about.Resource == "leases"
		if !ours || reads || event.Received.After(until) ||
			!slices.Contains([]string{s.attacker.namespace, s.rig.SystemNamespace}, about.Namespace) {
			continue
		}
		if about.Resource == newEvents[1] && event.Verb == newEvents[0] {
			about.Name = ""
		}
		who := "the manager: "
		if event.User.Username != testkube.ServiceAccountUser(s.rig.SystemNamespace, rig.ControllerAccount) {
			who = listeners
		}
		counts[who+strings.Join([]string{event.Verb, about.Resource, about.Subresource, about.Name}, " ")]++
	}
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		most := int(until.Sub(from)/writeInterval) + 1
		switch {
		case strings.Contains(what, strings.Join(newEvents, " ")):
			most *= objects
		case strings.HasPrefix(what, listeners), strings.Contains(what, "runnersets status "):
			most = int(until.Sub(from)/demandInterval) + 1
		}
		if counts[what] > most {
			found = append(found, fmt.Sprintf("%s: %d times in %s", what, counts[what], until.Sub(from).
				Round(time.Second)))
		}
	}
	return found
}
