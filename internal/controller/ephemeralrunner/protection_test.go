package ephemeralrunner_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/mark"
	"github.com/harrier-ci/harrier/internal/listener/cluster"
	listener "github.com/harrier-ci/harrier/internal/listener/reports"
)

// covered reports whether the PodDisruptionBudget of the set's chart selects a pod of the set, by default.
func covered(pod *corev1.Pod) bool {
	busy := pod.Labels["actions.github.com/runner-busy"]
	return busy == "true" || busy == "unknown"
}

// Five hundred jobs start in one message, and each patch takes the API server 40 ms. The clock begins at the message:
// pods of runners that were made for the jobs are covered all the time, without a write for it; those of runners that
// have been idle are, two seconds later.
func TestJobsAreProtectedFromTheirMessageOn(t *testing.T) {
	const jobs, latency = 500, 40 * time.Millisecond
	for name, test := range map[string]struct {
		up, within time.Duration
		patches    int // of pods
	}{
		"runners that were made for them": {mark.IdleAfter / 2, 0, jobs},
		"runners that are being let go":   {mark.IdleAfter + 300*time.Millisecond, 2 * time.Second, 2 * jobs},
		"runners that have been idle":     {time.Minute, 2 * time.Second, 2 * jobs},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				h := newHistory(f, jobs, latency)
				f.elapse(test.up)
				message := time.Now()
				h.deliver()
				f.elapse(2 * time.Second)
				if within := h.uncovered(message); within > test.within {
					t.Errorf("the last pod is covered %s after the message, want %s", within, test.within)
				}
				if h.patches > test.patches {
					t.Errorf("%d patches of pods, want %d at most", h.patches, test.patches)
				}
			})
		})
	}
}

// history has what has become of the pods of a set whose runners are up, and have just been made. It writes the reports
// of their listener.
type history struct {
	cluster.Cluster
	client.Client
	f       *fixture
	started *controllertest.Started
	runners []*v1alpha1.EphemeralRunner
	latency time.Duration
	updates chan [2]*v1alpha1.EphemeralRunner

	mu sync.Mutex
	// coveredAt is the time since which a pod is covered, by name; none for one that is not.
	coveredAt map[string]time.Time
	patches   int
}

func newHistory(f *fixture, runners int, latency time.Duration) *history {
	h := &history{f: f, latency: latency, coveredAt: map[string]time.Time{},
		updates: make(chan [2]*v1alpha1.EphemeralRunner)}
	objects := []client.Object{newSet(), controllertest.Origin(newSet())}
	marker := mark.New(mark.Options{Clock: clock.RealClock{}, JobMetadata: true, JobProtection: true})
	for i := range runners {
		runner, pod := runningRunner(i)
		marker.Protect(f.Context(), &v1alpha1.AutoscalingRunnerSet{}, pod)
		h.coveredAt[pod.Name] = time.Now()
		h.runners, objects = append(h.runners, runner), append(objects, runner, pod)
	}
	f.api.WithWatch = controllertest.NewKubernetes().
		WithStatusSubresource(&v1alpha1.EphemeralRunner{}, &corev1.Pod{}).WithObjects(objects...).Build()
	f.api.latency, h.Client, f.cache.Client = latency, f.api, h
	f.configure(func(o *ephemeralrunner.Options) { o.Workers = 24 }) // as the manager has
	h.started = f.start()
	for _, runner := range h.runners {
		h.started.Added(runner)
	}
	h.started.Free("")
	return h
}

// Patch notes what a patch of a pod makes of it.
func (h *history) Patch(
	ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption,
) error {
	err := h.Client.Patch(ctx, object, patch, options...)
	pod, isPod := object.(*corev1.Pod)
	if !isPod {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.patches++
	_, before := h.coveredAt[pod.Name]
	switch {
	case err != nil:
	case !covered(pod):
		delete(h.coveredAt, pod.Name)
	case !before:
		h.coveredAt[pod.Name] = time.Now()
	}
	return err
}

// uncovered returns the time from a moment on after which all pods are covered, an hour if some aren't.
func (h *history) uncovered(since time.Time) (last time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.coveredAt) != len(h.runners) {
		return time.Hour
	}
	for _, at := range h.coveredAt {
		last = max(last, at.Sub(since))
	}
	return last
}

// deliver delivers the message that all jobs have started, and shows the manager what the listener writes.
func (h *history) deliver() {
	var starts []listener.Report
	for i, runner := range h.runners {
		start := listener.Report{Runner: runner.Name}
		start.Status.JobRequestID, start.Status.JobID = int64(i+1), "job"
		starts = append(starts, start)
	}
	reporter := listener.New(h, clock.RealClock{}, logr.Discard(), func(reason string) { h.f.Error(reason) })
	written := reporter.Deliver(h.f.Context(), starts)
	go func() {
		written()
		close(h.updates)
	}()
	for update := range h.updates {
		h.started.Updated(update[0], update[1])
	}
}

// ReportJob implements cluster.Cluster.
func (h *history) ReportJob(ctx context.Context, runner string, status v1alpha1.EphemeralRunnerStatus) error {
	<-time.After(h.latency)
	before, after := &v1alpha1.EphemeralRunner{}, &v1alpha1.EphemeralRunner{}
	key := types.NamespacedName{Namespace: namespace, Name: runner}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil || !controllertest.Read(h.f, h.f.api.WithWatch, key, before) {
		return errors.Join(err, errors.New("the runner is gone"))
	}
	before.DeepCopyInto(after)
	if err := h.f.api.WithWatch.Status().Patch(ctx, after, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return err
	}
	h.updates <- [2]*v1alpha1.EphemeralRunner{before, after}
	return nil
}

// idle brings a runner to where it has been up for so long without a job that its pod may be evicted.
func (f *fixture) idle() {
	f.settle()
	f.setPod(runs)
	f.settle()
	f.elapse(mark.IdleAfter)
	f.settle()
}

// A runner that gets no job is let go a single time, 15 s after its start. A job that comes later is protected again at
// once.
func TestAnIdleRunnerMayBeEvictedAfterAWhile(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		if pod := f.pod(); !covered(pod) || pod.Labels[v1alpha1.LabelRunnerBusy] == v1alpha1.RunnerBusy {
			t.Fatalf("a new pod has the labels %v, want it covered, but not busy", pod.Labels)
		}
		f.elapse(time.Minute) // its image is pulled
		f.setPod(runs)
		f.settle()
		f.api.sent()
		f.elapse(mark.IdleAfter - time.Second)
		f.settle()
		if sent := f.api.sent(); sent != "" || !covered(f.pod()) {
			t.Errorf("requests %q after 14 s, covered: %t", sent, covered(f.pod()))
		}
		f.elapse(time.Second)
		f.settle()
		if sent := f.api.sent(); sent != "patch Pod" || covered(f.pod()) {
			t.Errorf("requests %q after 15 s, covered: %t", sent, covered(f.pod()))
		}
		f.elapse(time.Hour)
		f.settle()
		f.restart()
		f.settle()
		if sent := f.api.sent(); sent != "" {
			t.Errorf("requests %q of an idle runner", sent)
		}
		f.setStatus(startJob)
		f.settle()
		if sent := f.api.sent(); sent != "patch Pod" {
			t.Errorf("requests %q at the start of a job, want one", sent)
		}
		f.wantBusy("with a job", true)
	}, newRunner())
}

// Another manager takes over at any moment: it lets the pod go when it is due by the pod's own start, and as long as
// the first one would have if the node's clock is wrong.
func TestAnotherManagerLetsAnIdleRunnerGo(t *testing.T) {
	for name, test := range map[string]struct{ before, clock, after time.Duration }{
		"at its start":                  {0, 0, mark.IdleAfter},
		"after a while":                 {10 * time.Second, 0, mark.IdleAfter - 10*time.Second},
		"when it is due":                {mark.IdleAfter, 0, 0},
		"long after":                    {time.Hour, 0, 0},
		"the node's clock is ahead":     {10 * time.Second, time.Hour, mark.IdleAfter},
		"the node's clock never worked": {10 * time.Second, -40 * 365 * 24 * time.Hour, mark.IdleAfter},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.settle()
				f.setPod(runs)
				f.setPod(func(pod *corev1.Pod) {
					started := metav1.NewTime(time.Now().Add(test.clock))
					pod.Status.ContainerStatuses[0].State.Running.StartedAt = started
				})
				f.elapse(test.before)
				f.restart()
				f.settle()
				if test.after > 0 {
					f.elapse(test.after - 1)
					f.settle()
					if !covered(f.pod()) {
						t.Errorf("let go before %s", test.after)
					}
					f.elapse(1)
					f.settle()
				}
				if covered(f.pod()) {
					t.Errorf("not let go after %s", test.after)
				}
			}, newRunner())
		})
	}
}

// A cache that is late shows a runner without a job that has one by now, as another manager has marked it.
func TestAJobIsNotLetGoByAManagerWithALateCache(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.setPod(runs)
		f.settle()
		late := staleCache{recordingAPI: f.api, runner: f.runner(), pod: f.pod()}
		f.setStatus(startJob)
		f.settle()
		f.wantBusy("with a job", true)
		f.restart()
		f.cache.Client = late
		f.reconcile()
		f.elapse(mark.IdleAfter)
		f.api.sent()
		if wait := f.reconcile().RequeueAfter; wait <= 0 || wait > 2*time.Second {
			t.Errorf("requeued after %s", wait)
		}
		f.wantBusy("after a write that came too late", true)
		if sent := f.api.sent(); sent != "patch Pod" {
			t.Errorf("requests %q, want one that is refused", sent)
		}
	}, newRunner())
}

// The report of a start that comes late, and GitHub's word without any, put the protection back.
func TestALateReportProtectsAgain(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.idle()
		f.elapse(time.Minute)
		f.setStatus(startJob)
		f.settle()
		f.wantBusy("with a job", true)
	}, newRunner())
}

// A job that has ended before its start was written leaves a pod that may be evicted, like any other.
func TestAPodThatOutlivesAShortJobIsLetGo(t *testing.T) {
	for _, metadata := range []bool{true, false} {
		inBubble(t, func(f *fixture) {
			f.configure(func(o *ephemeralrunner.Options) { o.JobMetadata = metadata })
			f.settle()
			f.setPod(runs)
			f.settle()
			f.api.sent()
			f.setStatus(func(r *v1alpha1.EphemeralRunner) {
				startJob(r)
				endJob(time.Now())(r)
			})
			f.settle()
			if sent := f.api.sent(); sent != "" || !covered(f.pod()) {
				t.Errorf("metadata %t: requests %q, covered: %t", metadata, sent, covered(f.pod()))
			}
			f.elapse(mark.ResultGrace)
			f.settle()
			if sent := f.api.sent(); sent != "patch Pod" || covered(f.pod()) {
				t.Errorf("metadata %t: requests %q after the job, covered: %t", metadata, sent, covered(f.pod()))
			}
			f.wantProtection("after the job", map[string]string{})
		}, newRunner())
	}
}

// A policy that refuses patches of pods costs a new pod its protection, which nobody could take off, and nothing else.
func TestNewPodsAreUnprotectedWherePodsCanNotBePatched(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.api.refuse = map[string]error{"patch Pod": deniedBy("validate.kyverno.svc", 400)}
		f.idle()
		if sent := f.api.sent(); strings.Count(sent, "patch Pod") != 1 {
			t.Errorf("requests %q, want one try", sent)
		}
		f.wantEvent("PodMetadataForbidden")
		for want, after := range []time.Duration{time.Minute, 25 * time.Minute} {
			want := want == 1
			f.elapse(after)
			second := newRunner(func(r *v1alpha1.EphemeralRunner) { r.Name, r.UID = "second", types.UID(after.String()) })
			key := client.ObjectKeyFromObject(second)
			f.create(second)
			controllertest.Reconcile(t, f.controller, key)
			f.elapse(0)
			pod := &corev1.Pod{}
			if !controllertest.Read(t, f.api.WithWatch, key, pod) || covered(pod) != want {
				t.Errorf("%s later a new pod has the labels %v, covered: %t wanted", after, pod.Labels, want)
			}
			for _, object := range []client.Object{pod, second} {
				object.SetFinalizers(nil)
				_ = f.api.WithWatch.Update(t.Context(), object)
				_ = f.api.WithWatch.Delete(t.Context(), object)
			}
		}
	}, newRunner())
}
