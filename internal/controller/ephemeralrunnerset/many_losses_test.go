package ephemeralrunnerset_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/github/rest"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/feedback"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/setmetrics"
)

// goneZone is a GitHub with many runs, all of whose jobs were lost.
type goneZone struct {
	*endedRun
	jobs map[int64][]string // the runners of a run's jobs
	// asked has the runs in the order in which they were asked for, reads and writes the times of the calls.
	asked         []int64
	reads, writes []time.Time
	// Of every lost-th request to run jobs again the answer is lost; 0: of none.
	lost int
}

func (z *goneZone) CallREST(_ context.Context, call actions.RESTRequest, result any) error {
	z.mu.Lock()
	defer z.mu.Unlock()
	run, err := strconv.ParseInt(call.Path[slices.Index(call.Path, "actions")+2], 10, 64)
	if err != nil {
		return err
	}
	attempt, status, conclusion := 1, "completed", "failure"
	if slices.Contains(z.asked, run) {
		attempt, status, conclusion = 2, "in_progress", ""
	}
	if result == nil {
		z.writes = append(z.writes, time.Now())
		if attempt != 1 {
			z.Errorf("run %d is asked for twice", run)
		}
		z.asked = append(z.asked, run)
		if z.lost > 0 && len(z.asked)%z.lost == 0 {
			return io.ErrUnexpectedEOF
		}
		return nil
	}
	z.reads = append(z.reads, time.Now())
	jobs := []map[string]any{}
	for i, runner := range z.jobs[run] {
		if attempt > 1 {
			runner = ""
		}
		jobs = append(jobs, map[string]any{"id": i + 1, "status": status, "conclusion": conclusion, "runner_name": runner})
	}
	text, err := json.Marshal(map[string]any{"id": run, "run_attempt": attempt, "status": status, "conclusion": conclusion,
		"workflow_id": 3, "workflow_runs": []any{}, "total_count": len(jobs), "jobs": jobs})
	if err != nil {
		return err
	}
	return json.Unmarshal(text, result)
}

// mostWithin returns the largest number of calls within a period.
func mostWithin(calls []time.Time, period time.Duration) (most int) {
	from := 0
	for to := range calls {
		for !calls[to].Before(calls[from].Add(period)) {
			from++
		}
		most = max(most, to-from+1)
	}
	return most
}

// zoneSets are the scale sets that lose their nodes.
const zoneSets = 3

func zoneKey(set int) types.NamespacedName {
	return types.NamespacedName{Namespace: setKey.Namespace, Name: fmt.Sprint("zone-", set)}
}

// zoneObjects are those sets, with a runner each whose job was lost for each losses.
func zoneObjects(losses, runs int) (objects []client.Object, jobs map[int64][]string) {
	var sets []*v1alpha1.EphemeralRunnerSet
	for i := range zoneSets {
		set := newSet(0)
		set.Name, set.UID = zoneKey(i).Name, types.UID(zoneKey(i).Name)
		set.Labels = map[string]string{v1alpha1.LabelScaleSetName: set.Name, v1alpha1.LabelScaleSetNamespace: set.Namespace}
		set.Spec.EphemeralRunnerSpec.GitHubConfigUrl = "https://github.com/acme"
		origin := controllertest.Origin(set)
		origin.Spec.Feedback = reruns()
		origin.Spec.Feedback.RerunLostJobs.Causes = v1alpha1.LostCauses
		objects, sets = append(objects, set, origin), append(sets, set)
	}
	jobs = map[int64][]string{}
	for i := range losses {
		run := int64(1 + i*runs/losses)
		set := sets[run%zoneSets]
		r := &v1alpha1.EphemeralRunner{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: fmt.Sprintf("lost-%04d", i),
			UID: types.UID(fmt.Sprint("lost-", i)), Labels: set.Labels, OwnerReferences: kube.OwnedBy(set),
			CreationTimestamp: metav1.NewTime(zoneBegan.Add(-time.Hour + time.Duration(i)*time.Millisecond))}}
		r.Spec = set.Spec.EphemeralRunnerSpec
		r.Status = v1alpha1.EphemeralRunnerStatus{Phase: v1alpha1.EphemeralRunnerPhaseFailed, LostCause: "NodeLost", RunnerName: r.Name,
			JobID: fmt.Sprint(i), JobDisplayName: "build", JobRepositoryName: "acme/web", WorkflowRunID: run}
		objects, jobs[run] = append(objects, r), append(jobs[run], r.Name)
	}
	return objects, jobs
}

// zoneBegan is the time at which bubbles begin.
var zoneBegan = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// zoneManager is a manager whose watch shows what changes, and which looks at each set when that asks for it.
type zoneManager struct {
	*fixture
	shown   map[types.NamespacedName]*v1alpha1.EphemeralRunner
	changes changes
	due     [zoneSets]time.Time
	// decided has the last state of each lost job's rerun that the watch has shown.
	decided map[types.NamespacedName]v1alpha1.RerunState
}

// changes has the runners that a client has changed, and that the watch is to show.
type changes struct {
	mu      sync.Mutex
	runners []types.NamespacedName
}

func (c *changes) note(object client.Object) {
	if _, is := object.(*v1alpha1.EphemeralRunner); is {
		c.mu.Lock()
		c.runners = append(c.runners, client.ObjectKeyFromObject(object))
		c.mu.Unlock()
	}
}

// of returns a client whose changes are noted.
func (c *changes) of(api client.WithWatch) client.Client {
	return interceptor.NewClient(api, interceptor.Funcs{
		Delete: func(ctx context.Context, api client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			c.note(object)
			return api.Delete(ctx, object, options...)
		},
		Patch: func(ctx context.Context, api client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			c.note(object)
			return api.Patch(ctx, object, patch, options...)
		},
		SubResourcePatch: func(ctx context.Context, api client.Client, resource string, object client.Object, patch client.Patch,
			options ...client.SubResourcePatchOption) error {
			c.note(object)
			return api.SubResource(resource).Patch(ctx, object, patch, options...)
		},
	})
}

// begin starts a manager that knows nothing, and has spent nothing of what GitHub allows.
func (m *zoneManager) begin(github *goneZone) {
	m.configure(func(o *ephemeralrunnerset.Options) {
		o.Client, o.Budget = m.changes.of(m.cache), &feedback.Budget{}
		o.REST = func(context.Context, credentials.Reference) (*rest.Client, error) { return rest.New(github), nil }
	})
	m.shown = map[types.NamespacedName]*v1alpha1.EphemeralRunner{}
	for _, r := range m.runners() {
		m.show(client.ObjectKeyFromObject(&r), &r)
	}
	m.due = [zoneSets]time.Time{}
}

// show has the controller see a runner as it is now, nil if it is gone.
func (m *zoneManager) show(key types.NamespacedName, now *v1alpha1.EphemeralRunner) {
	handler, queue := m.controller.RunnerEvents(), &controllertest.Queue{}
	before := m.shown[key]
	if now != nil && now.Status.Rerun != nil {
		m.decided[key] = now.Status.Rerun.State
	}
	switch {
	case now == nil && before != nil:
		handler.Delete(m.Context(), event.DeleteEvent{Object: before}, queue)
	case now == nil:
	case before == nil:
		handler.Create(m.Context(), event.CreateEvent{Object: now}, queue)
	default:
		handler.Update(m.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: now}, queue)
	}
	if m.shown[key] = now; now == nil {
		delete(m.shown, key)
	}
	for _, request := range queue.Requests {
		for i := range zoneSets {
			if request.NamespacedName == zoneKey(i) {
				m.due[i] = time.Now()
			}
		}
	}
}

// showChanges shows the runners that were changed since the last time.
func (m *zoneManager) showChanges() {
	changed := m.changes.runners
	m.changes.runners = nil
	for _, key := range changed {
		runner := &v1alpha1.EphemeralRunner{}
		if err := m.api.Get(m.Context(), key, runner); apierrors.IsNotFound(err) {
			runner = nil
		} else if err != nil {
			m.Fatal(err)
		}
		m.show(key, runner)
	}
}

// pass looks at the sets that are due, and lets the time pass until the next one is. It returns how many lost jobs wait.
func (m *zoneManager) pass() (waiting int) {
	next := time.Now().Add(time.Minute)
	for i := range zoneSets {
		if !time.Now().Before(m.due[i]) {
			result, err := m.controller.Reconcile(m.Context(), ctrl.Request{NamespacedName: zoneKey(i)})
			if err != nil {
				m.Fatal(err)
			}
			m.due[i] = time.Now().Add(min(max(result.RequeueAfter, time.Second), time.Minute))
			synctest.Wait()
			m.showChanges()
		}
		if m.due[i].Before(next) {
			next = m.due[i]
		}
		set := &v1alpha1.EphemeralRunnerSet{}
		if err := m.api.Get(m.Context(), zoneKey(i), set); err != nil {
			m.Fatal(err)
		}
		waiting += set.Status.RerunsWaiting
	}
	controllertest.Elapse(max(time.Until(next), time.Second))
	return waiting
}

// A zone goes, and with it 3,000 jobs of 900 runs on three sets. The manager is killed in the middle, and GitHub's answers are
// lost now and then. Each run is asked for once, the oldest of a set first, as GitHub's limits allow, and meanwhile the
// operator sees how many wait.
func TestAllJobsOfAZoneAreDecidedAbout(t *testing.T) {
	const losses, runs = 3000, 900 // more runs than an hour allows
	for i := range zoneSets {
		setmetrics.Delete(zoneKey(i))
	}
	objects, jobs := zoneObjects(losses, runs)
	inBubble(t, func(f *fixture) {
		f.ownOrigin = true
		zone := &goneZone{endedRun: &endedRun{fixture: f}, jobs: jobs, lost: 7}
		manager := &zoneManager{fixture: f, decided: map[types.NamespacedName]v1alpha1.RerunState{}}
		manager.begin(zone)
		highest, restarted, began := 0, false, time.Now()
		for waiting := losses; waiting > 0 || highest == 0; highest = max(highest, waiting) {
			if time.Since(began) > 24*time.Hour {
				t.Fatalf("after %s %d runs are asked for, %d jobs wait", time.Since(began), len(zone.asked), waiting)
			}
			waiting = manager.pass()
			if !restarted && len(zone.asked) >= runs/2 {
				zone.checkReads()
				restarted = true
				manager.begin(zone)
			}
		}
		zone.checkReads()
		zone.checkOrder()
		if len(zone.asked) != runs || highest != losses || !restarted {
			t.Errorf("%d runs were asked for, want %d; %d jobs waited", len(zone.asked), runs, highest)
		}
		if minute, hour := mostWithin(zone.writes, time.Minute), mostWithin(zone.writes, time.Hour); minute > 80 || hour > 500 {
			t.Errorf("%d reruns in a minute, %d in an hour", minute, hour)
		}
		manager.checkDecided(losses)
		if !f.tells("workflow runs wait to be run again, the oldest first") {
			t.Error("no Event says how many wait")
		}
	}, objects...)
}

// checkReads fails the test if a manager has read more than it may, and forgets what it has read.
func (z *goneZone) checkReads() {
	z.Helper()
	if most := mostWithin(z.reads, time.Hour); most > 1000 {
		z.Errorf("%d answers were read in an hour", most)
	}
	z.reads = nil
}

// checkOrder fails the test unless the oldest run of a set was asked for first, a few at a time. Which set comes first, nobody
// orders.
func (z *goneZone) checkOrder() {
	z.Helper()
	var asked [zoneSets]int64
	for _, run := range z.asked {
		set := run % zoneSets
		if asked[set]++; run/zoneSets < asked[set]-16 || run/zoneSets > asked[set]+16 {
			z.Errorf("run %d was asked for as number %d of its set, want the oldest first", run, asked[set])
		}
	}
}

// checkDecided fails the test unless it was written down of every lost job that it runs again.
func (m *zoneManager) checkDecided(losses int) {
	m.Helper()
	done := 0
	for _, state := range m.decided {
		if state == v1alpha1.RerunDone {
			done++
		}
	}
	if done != losses {
		m.Errorf("%d of %d lost jobs are run again", done, losses)
	}
}

// tells reports whether an Event has some words.
func (f *fixture) tells(words string) bool {
	f.Helper()
	var events eventsv1.EventList
	if err := f.api.List(f.Context(), &events); err != nil {
		f.Fatal(err)
	}
	return slices.ContainsFunc(events.Items, func(event eventsv1.Event) bool { return strings.Contains(event.Note, words) })
}
