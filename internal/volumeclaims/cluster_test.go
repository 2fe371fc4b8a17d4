package volumeclaims_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

// trueRunner is a runner as the API server has it, with its pod.
type trueRunner struct {
	name, seed string
	claims     map[string]string
	created    time.Time
	// pod is set while its pod exists and has not ended, up after its container has started, had after any has.
	pod, up, had, done, deleting bool
	placedAt                     time.Time
	failure                      volumeclaims.Failure
	event, result                string
}

// names returns the names of the runner's claims, sorted.
func (r *trueRunner) names() []string { return slices.Sorted(maps.Values(r.claims)) }

// cluster has the true state: the API server's objects and the nodes. Its rules are written here a second time; none is
// asked of the package under test. What happens is logged, for the report of a failure.
type cluster struct {
	*testing.T
	*rand.Rand
	now     time.Time
	set     *v1alpha1.AutoscalingRunnerSet
	runners map[string]trueRunner
	claims  map[string]*corev1.PersistentVolumeClaim
	// zone has, by UID, the place of a bound claim's volume; broken volumes can't be mounted. A job after which they
	// must not be used has written to spoiled ones.
	zone            map[types.UID]int
	broken, spoiled map[types.UID]bool
	full            [2]bool // zones without room
	quota           bool    // no claim may be created
	names           int
	log             []string
}

func (c *cluster) logf(format string, arguments ...any) {
	c.log = append(c.log, c.now.Format("15:04:05 ")+fmt.Sprintf(format, arguments...))
}

// failf fails the test with what led there.
func (c *cluster) failf(format string, arguments ...any) {
	c.Helper()
	c.Fatalf("%s\nlog:\n%s", fmt.Sprintf(format, arguments...), strings.Join(c.log[max(0, len(c.log)-60):], "\n"))
}

// check holds at every moment.
func (c *cluster) check() {
	c.Helper()
	users := map[string]string{}
	for _, r := range c.runners {
		if r.done && !r.pod {
			continue
		}
		for _, claim := range r.names() {
			if claim == "" {
				continue
			}
			if other := users[claim]; other != "" {
				c.failf("claim %s is leased to %s and %s", claim, other, r.name)
			}
			users[claim] = r.name
		}
	}
	count := map[string]int{}
	for _, claim := range c.claims {
		count[claim.Labels[v1alpha1.LabelVolumeClaimTemplate]]++
	}
	for template, n := range count {
		if most := c.set.Spec.VolumeClaimPool.Max; most != nil && n > *most {
			c.failf("%d claims of template %s, at most %d may be: %v", n, template, *most,
				slices.Sorted(maps.Keys(c.claims)))
		}
	}
}

// deleteClaim deletes a claim on condition of its UID. A pod that mounts it keeps it until it has ended.
func (c *cluster) deleteClaim(name string, uid types.UID, why volumeclaims.Why) {
	claim := c.claims[name]
	if claim == nil || claim.UID != uid {
		return
	}
	for _, r := range c.runners {
		if r.done || !slices.Contains(r.names(), name) {
			continue
		}
		// a discarded one stays until the pod of who got it to work after all has ended
		if why != volumeclaims.Discarded {
			c.failf("claim %s is deleted (%s) although %s has it", name, why, r.name)
		}
	}
	c.logf("delete %s: %s", name, why)
	gone := claim.DeepCopy()
	gone.DeletionTimestamp = new(metav1.NewTime(c.now))
	c.claims[name] = gone
	c.sweep()
}

// sweep removes deleted claims that no pod mounts.
func (c *cluster) sweep() {
	for name, claim := range c.claims {
		mounted := false
		for _, r := range c.runners {
			mounted = mounted || (r.pod && slices.Contains(r.names(), name))
		}
		if claim.DeletionTimestamp != nil && !mounted {
			delete(c.claims, name)
		}
	}
}

// launch creates what a runner lacks: its claims, then its pod. The controller of runners sees an old state of claims.
func (c *cluster) launch(r trueRunner, seen map[string]*corev1.PersistentVolumeClaim) trueRunner {
	runner := &v1alpha1.EphemeralRunner{Spec: v1alpha1.EphemeralRunnerSpec{GitHubConfigUrl: c.set.Spec.GitHubConfigUrl,
		VolumeClaims: r.claims}}
	runner.Annotations = map[string]string{v1alpha1.AnnotationVolumeClaimSeed: r.seed}
	find := func(name string) *corev1.PersistentVolumeClaim { return seen[name] }
	for _, claim := range volumeclaims.Missing(c.set, runner, find) {
		switch existing := c.claims[claim.Name]; {
		case existing != nil && existing.DeletionTimestamp != nil:
			return r // tried again
		case existing != nil:
		case c.quota:
			if r.failure.Kind == "" {
				r.failure = volumeclaims.Failure{Kind: volumeclaims.Refused, Since: c.now}
				c.logf("refused %s", claim.Name)
			}
			return r
		default:
			c.names++
			claim.UID = types.UID(fmt.Sprint("uid-", c.names))
			claim.CreationTimestamp = metav1.NewTime(c.now)
			claim.Status.Phase = corev1.ClaimPending
			c.claims[claim.Name] = claim
			c.broken[claim.UID] = c.IntN(8) == 0
			c.logf("created %s for %s", claim.Name, r.name)
		}
	}
	r.pod, r.failure = true, volumeclaims.Failure{}
	return r
}

// live lets a runner with a pod go on: it gets a node, its container starts, its job ends.
func (c *cluster) live(r trueRunner) trueRunner {
	switch {
	case r.up && c.IntN(3) == 0:
		return c.end(r)
	case r.up:
	case r.placedAt.IsZero():
		return c.place(r)
	case c.unmountable(r):
		if r.failure.Kind == "" {
			r.failure = volumeclaims.Failure{Kind: volumeclaims.Unmounted, Since: c.now}
		}
	default:
		r.up, r.had, r.failure = true, true, volumeclaims.Failure{}
		for _, name := range r.names() {
			if claim := c.claims[name]; claim != nil && c.spoiled[claim.UID] {
				c.failf("%s got claim %s, which a job has spoiled", r.name, name)
			}
		}
	}
	return r
}

// place gives a pod a node in a zone that has room, where its bound volumes are.
func (c *cluster) place(r trueRunner) trueRunner {
	zone, bound := c.IntN(2), false
	for _, name := range r.names() {
		if claim := c.claims[name]; claim != nil && claim.Status.Phase == corev1.ClaimBound {
			zone, bound = c.zone[claim.UID], true
		}
	}
	if !bound && c.full[zone] {
		zone = 1 - zone
	}
	if c.full[zone] {
		if r.failure.Kind == "" {
			r.failure = volumeclaims.Failure{Kind: volumeclaims.Unplaced, Since: c.now}
		}
		return r
	}
	r.placedAt, r.failure = c.now, volumeclaims.Failure{}
	for _, name := range r.names() {
		if claim := c.claims[name]; claim != nil && claim.Status.Phase != corev1.ClaimBound {
			c.zone[claim.UID] = zone
			changed := claim.DeepCopy()
			changed.Status.Phase = corev1.ClaimBound
			c.claims[name] = changed
		}
	}
	return r
}

func (c *cluster) unmountable(r trueRunner) bool {
	for _, name := range r.names() {
		if name != "" && (c.claims[name] == nil || c.broken[c.claims[name].UID]) {
			return true
		}
	}
	return false
}

// end ends a runner's job, or its pod in another way; some runners stay for inspection.
func (c *cluster) end(r trueRunner) trueRunner {
	r.event, r.result = []string{"push", "pull_request", ""}[c.IntN(3)], []string{"succeeded", "failed", ""}[c.IntN(3)]
	r.done, r.pod, r.up = true, false, false
	keep := c.set.Spec.VolumeClaimPool.KeepAfter
	for _, name := range r.names() {
		claim := c.claims[name]
		kept := keep == nil || (slices.Contains(keep.Events, r.event) && slices.Contains(keep.Results, r.result))
		if claim != nil && !kept {
			c.spoiled[claim.UID] = true
		}
	}
	c.logf("%s ended: %q, %q", r.name, r.event, r.result)
	c.sweep()
	return r
}

// finalize ends a runner that is over, as its controller does: what must not be passed on is deleted before it goes.
func (c *cluster) finalize(r trueRunner) {
	view := view(r)
	if verdict, _, _ := volumeclaims.Returns(c.set, &view, c.now); verdict == volumeclaims.Spoiled {
		for _, name := range r.names() {
			if claim := c.claims[name]; claim != nil {
				c.deleteClaim(name, claim.UID, volumeclaims.NotKept)
			}
		}
	}
	delete(c.runners, r.name)
	c.sweep()
}

func view(r trueRunner) volumeclaims.Runner {
	return volumeclaims.Runner{
		Name: r.name, CreatedAt: r.created, Claims: r.claims, Seed: r.seed, Done: r.done, Deleting: r.deleting,
		PlacedAt: r.placedAt,
		Up:       r.up, Started: r.had, Failure: r.failure, Job: volumeclaims.Job{Event: r.event, Result: r.result},
	}
}
