package e2e

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/hack/cluster"
	"github.com/harrier-ci/harrier/hack/site"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/fakegithub/state"
)

// secondNode starts the second node a single time.
var secondNode = sync.OnceValues(func() (string, error) { return place.AddNode(context.Background()) })

// A node with busy and idle runners of two sets is drained while jobs keep coming. The idle ones leave immediately, by
// deregistration alone where all runners are protected. The drain waits for the running jobs, and ends after them. No
// job is lost.
func TestDrainUnderLoad(t *testing.T) {
	t.Parallel()
	node, err := secondNode()
	if err != nil {
		t.Fatal(err)
	}
	busy, all := installOn(t, node, "drain-busy", ""), installOn(t, node, "drain-all", "All")
	long := map[*scaleSet][]int64{}
	for _, s := range []*scaleSet{busy, all} {
		long[s] = s.queue(2, longJob)
	}
	for _, s := range []*scaleSet{busy, all} {
		s.awaitJobs(long[s], state.Running)
		s.awaitIdle(2)
		s.awaitOn(node, 4)
	}
	short := all.queue(6, time.Second) // more than the idle runners: some start while the node is cordoned
	began := time.Now()
	drain := startDrain(t, node)
	short = append(short, all.queue(6, time.Second)...)
	for _, s := range []*scaleSet{busy, all} {
		s.awaitLeft(node, long[s])
		t.Logf("only runners with a job are left of %s on the node after %s", s.name, time.Since(began))
		s.awaitIdle(2)
	}
	all.awaitSuccess(short)
	drain.awaitRefusal(busy, all)
	more := map[*scaleSet][]int64{busy: busy.queue(3, time.Second), all: all.queue(3, time.Second)}
	for s, ids := range more {
		s.awaitSuccess(ids)
		s.awaitJobs(long[s], state.Running)
		s.endJobs()
	}
	for s, ids := range long {
		s.awaitSuccess(ids)
	}
	drain.awaitEnd(all)
	t.Logf("drained after %s", time.Since(began))
}

// installOn installs a set of two idle runners that may run on both nodes and prefer the given one.
func installOn(t *testing.T, node, name, protect string) *scaleSet {
	t.Helper()
	s := prepare(t, serve(t, fakegithub.Options{}), name, 2, 12)
	if protect != "" {
		s.values["protectRunners"] = protect
	}
	s.podSpec()["tolerations"] = []site.Values{{"key": cluster.SecondNodeTaint, "operator": "Exists"}}
	s.podSpec()["affinity"] = site.Values{"nodeAffinity": site.Values{
		"preferredDuringSchedulingIgnoredDuringExecution": []site.Values{{"weight": 100, "preference": site.Values{
			"matchExpressions": []site.Values{
				{"key": corev1.LabelHostname, "operator": "In", "values": []string{node}}},
		}}},
	}}
	s.install()
	return s
}

// on returns the names of the set's runners that have their pods on the node.
func (s *scaleSet) on(node string) map[string]bool {
	s.t.Helper()
	found := map[string]bool{}
	for _, pod := range s.runnerPods() {
		if pod.Spec.NodeName == node {
			found[pod.Name] = true
		}
	}
	return found
}

func (s *scaleSet) awaitOn(node string, count int) {
	s.t.Helper()
	s.await(s.t.Context(), fmt.Sprintf("%d runners on node %s", count, node), func() (string, error) {
		if got := len(s.on(node)); got != count {
			return fmt.Sprintf("there are %d", got), nil
		}
		return "", nil
	})
}

// awaitLeft waits until the runners with these jobs are alone on the node.
func (s *scaleSet) awaitLeft(node string, jobs []int64) {
	s.t.Helper()
	working := map[string]bool{}
	for _, job := range s.awaitJobs(jobs, state.Running) {
		working[job.Runner] = true
	}
	s.await(s.t.Context(), "only runners with a job to be left on node "+node, func() (string, error) {
		if there := s.on(node); !maps.Equal(there, working) {
			return fmt.Sprintf("there are %v, and %v work",
				slices.Sorted(maps.Keys(there)), slices.Sorted(maps.Keys(working))), nil
		}
		return "", nil
	})
}

// drain is a kubectl drain under way.
type drain struct {
	*exec.Cmd
	mu     sync.Mutex
	output bytes.Buffer
	ended  chan error
}

// Write takes the program's output.
func (d *drain) Write(text []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.output.Write(text)
}

func (d *drain) said() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.output.String()
}

// startDrain begins to drain the node, and makes it an ordinary one again at the end.
func startDrain(t *testing.T, node string) *drain {
	t.Helper()
	d := &drain{ended: make(chan error, 1)}
	d.Cmd = place.Command(t.Context(), "kubectl", "drain", node, "--ignore-daemonsets", "--delete-emptydir-data",
		"--timeout=10m")
	d.Stdout, d.Stderr = d, d
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { d.ended <- d.Wait() }()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("kubectl drain:\n%s", d.said())
		}
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if _, err := place.Kubectl(ctx, "uncordon", node); err != nil {
			t.Error(err)
		}
	})
	return d
}

// awaitRefusal waits until the API server has refused to evict a pod of each set.
func (d *drain) awaitRefusal(sets ...*scaleSet) {
	for _, s := range sets {
		s.t.Helper()
		s.await(s.t.Context(), "the eviction of a busy runner to be refused", func() (string, error) {
			for line := range strings.Lines(d.said()) {
				if strings.Contains(line, "disruption budget") && strings.Contains(line, s.name+"-") {
					return "", nil
				}
			}
			return d.said(), nil
		})
	}
}

// awaitEnd waits until the node is drained.
func (d *drain) awaitEnd(s *scaleSet) {
	s.t.Helper()
	select {
	case err := <-d.ended:
		if err != nil {
			s.t.Fatalf("kubectl drain: %v", err)
		}
	case <-time.After(limit):
		s.t.Fatalf("the drain has not ended %s after the jobs", limit)
	}
}
