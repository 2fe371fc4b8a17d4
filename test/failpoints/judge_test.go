package failpoints

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/test/failpoints/apiserver"
)

// judge knows what must hold at every moment, and at rest. It asks the API server and GitHub, and nothing of the
// product.
type judge struct {
	world *world

	mu sync.Mutex
	// maximum is how many runners may be at a time.
	maximum int
	// live are the pods of runners that have not ended, with the claims that they mount.
	live       map[string][]string
	violations []string
	rests      [][]string
	// allowed are anomalies that the scenario itself causes.
	allowed []fakegithub.AnomalyKind
	// forgive are beginnings of what may be left.
	forgive []string
	// attempts is how many jobs there are at the end when one is run again; 0 if none may be.
	attempts int
	// unseen is how many jobs nobody could see who keeps the ledger.
	unseen int
	// results are those that jobs may have; succeeded if there is none.
	results []string
}

// result is what came of a run.
type result struct {
	// effects are those that are tried, total how many there were.
	effects    []effect
	total      int
	reached    []fault
	violations []string
	// rests are what was said at each rest.
	rests [][]string
	took  time.Duration
}

func (j *judge) begin(w *world) {
	j.world, j.maximum, j.live = w, 1<<30, map[string][]string{}
	w.server.Observe(j.observe)
}

func (j *judge) violate(format string, values ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.note(format, values...)
}

func (j *judge) note(format string, values ...any) {
	if text := fmt.Sprintf(format, values...); !slices.Contains(j.violations, text) {
		j.violations = append(j.violations, text)
	}
}

// allow sets how many runners may be at a time from now on. Those that are there already may end in peace.
func (j *judge) allow(maximum int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.maximum = maximum
}

// observe follows the pods of runners.
func (j *judge) observe(c apiserver.Change) {
	if c.Resource != "pods" {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if c.After == nil || ended(c.After) {
		delete(j.live, string(c.Before.GetUID()))
		return
	}
	if c.Before != nil || !isRunner(c.After) {
		return
	}
	claims := claimsOf(c.After)
	for _, others := range j.live {
		for _, claim := range claims {
			if slices.Contains(others, claim) {
				j.note("claim %s is mounted by two pods at a time", claim)
			}
		}
	}
	j.live[string(c.After.GetUID())] = claims
	if len(j.live) > j.maximum {
		j.note("%d runners at a time, of at most %d", len(j.live), j.maximum)
	}
}

func isRunner(pod *unstructured.Unstructured) bool {
	containers, _, _ := unstructured.NestedSlice(pod.Object, "spec", "containers")
	return slices.ContainsFunc(containers, func(c any) bool {
		container, _ := c.(map[string]any)
		return container["name"] == "runner"
	})
}

func ended(pod *unstructured.Unstructured) bool {
	phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase")
	return phase == string(corev1.PodSucceeded) || phase == string(corev1.PodFailed)
}

func claimsOf(pod *unstructured.Unstructured) (claims []string) {
	volumes, _, _ := unstructured.NestedSlice(pod.Object, "spec", "volumes")
	for _, v := range volumes {
		volume, _ := v.(map[string]any)
		if claim, found, _ := unstructured.NestedString(volume, "persistentVolumeClaim", "claimName"); found {
			claims = append(claims, claim)
		}
	}
	return claims
}

func (e *effects) sum() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.total
}

func (e *effects) latest() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last
}

// jobsDone reports whether all jobs have ended.
func (w *world) jobsDone() bool {
	return !slices.ContainsFunc(w.github.Jobs(""), func(job fakegithub.Job) bool { return job.State != "completed" })
}

// nothingLeft reports whether everything is gone that the product has made, in the cluster and at GitHub.
func (w *world) nothingLeft() bool { return len(w.left()) == 0 }

func (w *world) left() (left []string) {
	for resource, objects := range w.server.Objects() {
		for _, object := range objects {
			if resource != "events" && object.GetName() != leaseName {
				left = append(left, resource+" "+object.GetNamespace()+"/"+object.GetName())
			}
		}
	}
	slices.Sort(left)
	seen := w.github.Snapshot()
	for _, set := range seen.ScaleSets {
		left = append(left, "scale set "+set.Name+" at GitHub")
	}
	for _, runner := range seen.Runners {
		left = append(left, "registration "+runner.Name)
	}
	for _, session := range seen.Sessions {
		left = append(left, "session of "+session.Owner)
	}
	return slices.DeleteFunc(left, func(what string) bool {
		return slices.ContainsFunc(w.forgive, func(beginning string) bool { return strings.HasPrefix(what, beginning) })
	})
}

// result judges what is left of a scenario at its end.
func (w *world) result() result {
	for _, job := range w.github.Jobs("") {
		switch {
		case job.State != "completed":
			w.violate("job %d is %s", job.RequestID, job.State)
		case job.Result != "succeeded" && !slices.Contains(w.results, job.Result):
			w.violate("job %d has %s", job.RequestID, job.Result)
		}
	}
	if jobs := len(w.github.Jobs("")); w.attempts > 0 && jobs > w.attempts {
		w.violate("%d jobs, of which at most %d may be", jobs, w.attempts)
	}
	for _, anomaly := range w.github.Anomalies() {
		if !slices.Contains(w.allowed, anomaly.Kind) {
			w.violate("anomaly %s: %s", anomaly.Kind, anomaly.Detail)
		}
	}
	for _, check := range w.github.CheckRuns() {
		if check.Status != "completed" {
			w.violate("check run %d is %s", check.ID, check.Status)
		}
	}
	if w.ledger != "" {
		w.judgeLedger()
	}
	tried := w.effects.tried()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.effects.mu.Lock()
	defer w.effects.mu.Unlock()
	return result{
		effects: tried, total: w.effects.total, reached: w.effects.reached, violations: w.violations,
		rests: w.rests, took: time.Since(w.begun),
	}
}
