package ephemeralrunnerset_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/registrations"
)

// What becomes of a runner whose job is cancelled.
const (
	staysIdle = iota
	exitsGone // exits with 0, and GitHub removes its record
	exitsKept // exits with 0, and GitHub keeps it
	hangs     // lives, registered, and takes no job any more
	hangsGone // lives, and GitHub has removed its record
	hangsBusy // lives, and GitHub says that it has a job
	ends
)

// matrices is GitHub, kubelets and listener around a set whose matrices of jobs are cancelled. A tick is a second.
type matrices struct {
	*fixture
	waiting, canceled int
	startedAt         map[string]time.Time // of real jobs, by runner
	records           map[int]string       // the names of registered runners, by id
	end               map[string]int       // what becomes of a runner, by name
}

const podStart = 20 * time.Second

// GetRunner and RemoveRunner are GitHub's answers.
func (m *matrices) GetRunner(_ context.Context, id int) (*actions.RunnerReference, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.records[id] == "" {
		return nil, errRunnerNotFound
	}
	return &actions.RunnerReference{ID: id, Name: m.records[id]}, nil
}

func (m *matrices) RemoveRunner(_ context.Context, id int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	name := m.records[id]
	switch {
	case name == "":
		return errRunnerNotFound
	case m.end[name] == hangsBusy || !m.startedAt[name].IsZero():
		return &actions.Error{StatusCode: 422, TypeName: "GitHub.Runners.JobStillRunningException"}
	}
	delete(m.records, id)
	return nil
}

// tick lets a second pass.
func (m *matrices) tick() {
	m.Helper()
	controllertest.Elapse(time.Second)
	m.comeUp()
	running := 0
	for _, r := range m.runners() {
		switch status := &r.Status; {
		case r.DeletionTimestamp != nil:
			r.Finalizers = nil // its own controller and its kubelet have done their work
			if err := m.api.Update(m.Context(), &r); err != nil {
				m.Fatal(err)
			}
		case status.JobID != "":
			running++
		case m.waiting > 0 && status.Phase == v1alpha1.EphemeralRunnerPhaseRunning && m.end[r.Name] == staysIdle &&
			m.records[status.RunnerID] != "":
			m.waiting--
			running++
			status.JobID, m.startedAt[r.Name] = r.Name, time.Now()
			if err := m.api.Status().Update(m.Context(), &r); err != nil {
				m.Fatal(err)
			}
		}
	}
	m.figure(m.waiting + running)
	m.reconcile()
	m.reconcile()
	for _, ok := range []string{v1alpha1.ConditionDegraded, v1alpha1.ConditionStatisticsDoubtful} {
		if meta.IsStatusConditionTrue(m.set().Status.Conditions, ok) {
			m.Fatalf("%s: %s", ok, meta.FindStatusCondition(m.set().Status.Conditions, ok).Message)
		}
	}
}

// figure is what the listener publishes.
func (m *matrices) figure(jobs int) {
	m.Helper()
	set := m.set()
	set.Spec.Replicas, set.Spec.AssignedJobs, set.Spec.CanceledJobs = jobs, jobs, m.canceled
	set.Spec.PatchID++
	if err := m.api.Update(m.Context(), set); err != nil {
		m.Fatal(err)
	}
}

// cancelMatrix queues a matrix of jobs, and cancels them when their runners are up. becomes says what becomes of the
// nth runner.
func (m *matrices) cancelMatrix(jobs int, becomes func(n int) int) {
	m.Helper()
	m.figure(jobs) // no runner takes one yet
	m.reconcile()
	for range podStart/time.Second + 1 {
		m.waiting = 0
		controllertest.Elapse(time.Second)
		m.figure(jobs)
		m.comeUp()
		m.reconcile()
	}
	m.canceled += jobs
	n := 0
	for _, r := range m.runners() {
		if r.Status.Phase != v1alpha1.EphemeralRunnerPhaseRunning || r.Status.JobID != "" || r.DeletionTimestamp != nil ||
			m.end[r.Name] != staysIdle || n == jobs {
			continue
		}
		m.mu.Lock()
		m.end[r.Name] = becomes(n)
		if m.end[r.Name] == exitsGone || m.end[r.Name] == hangsGone {
			delete(m.records, r.Status.RunnerID)
		}
		m.mu.Unlock()
		if n++; m.end[r.Name] == exitsGone || m.end[r.Name] == exitsKept {
			r.Status.Phase = v1alpha1.EphemeralRunnerPhaseSucceeded
			if err := m.api.Status().Update(m.Context(), &r); err != nil {
				m.Fatal(err)
			}
		}
	}
}

// comeUp registers and starts the runners whose pods have had the time.
func (m *matrices) comeUp() {
	m.Helper()
	for _, r := range m.runners() {
		if r.DeletionTimestamp != nil || r.Status.Phase != "" || time.Since(r.CreationTimestamp.Time) < podStart {
			continue
		}
		r.Status.Phase, r.Status.RunnerName = v1alpha1.EphemeralRunnerPhaseRunning, r.Name
		r.Status.RunnerID = len(m.end) + 1000
		m.mu.Lock()
		m.records[r.Status.RunnerID], m.end[r.Name] = r.Name, staysIdle
		m.mu.Unlock()
		if err := m.api.Status().Update(m.Context(), &r); err != nil {
			m.Fatal(err)
		}
	}
}

// runReal queues real jobs, and lets them end. It returns the time after which the last one has started.
func (m *matrices) runReal(jobs int) (took time.Duration) {
	m.Helper()
	m.waiting = jobs
	for began := time.Now(); m.waiting > 0; took = time.Since(began) {
		if time.Since(began) > 10*time.Minute {
			m.Fatalf("%d jobs have not started", m.waiting)
		}
		m.tick()
	}
	for _, r := range m.runners() {
		if r.Status.JobID == "" || r.Status.JobResult != "" {
			continue
		}
		r.Status.JobResult, r.Status.JobPatchID = "succeeded", m.set().Spec.PatchID
		r.Status.Phase = v1alpha1.EphemeralRunnerPhaseSucceeded
		if err := m.api.Status().Update(m.Context(), &r); err != nil {
			m.Fatal(err)
		}
		m.mu.Lock()
		delete(m.records, r.Status.RunnerID)
		m.mu.Unlock()
		if err := m.api.Delete(m.Context(), &r); err != nil {
			m.Fatal(err)
		}
	}
	return took
}

// A matrix that is cancelled is nobody's fault, whatever becomes of its runners: the set is neither Degraded nor does
// it doubt GitHub's figures, and real jobs start afterwards as they do on a quiet set.
func TestCancelledMatricesCostNothing(t *testing.T) {
	for name, becomes := range map[string]func(int) int{
		"runners stay idle":               func(int) int { return staysIdle },
		"runners exit, their records go":  func(int) int { return exitsGone },
		"runners exit, records stay":      func(int) int { return exitsKept },
		"runners hang":                    func(int) int { return hangs },
		"runners hang, their records go":  func(int) int { return hangsGone },
		"runners hang, GitHub says busy":  func(int) int { return hangsBusy },
		"a third exits, exits, and hangs": func(n int) int { return exitsGone + n%3 },
	} {
		for _, pause := range []int{0, 45} {
			t.Run(fmt.Sprintf("%s, %d s before the next", name, pause), func(t *testing.T) {
				cancelMatrices(t, 9, pause, becomes, false)
			})
		}
		t.Run(name+", and the manager restarts", func(t *testing.T) { cancelMatrices(t, 9, 5, becomes, true) })
	}
	t.Run("30 jobs, and their runners do all of that", func(t *testing.T) {
		cancelMatrices(t, 30, 5, func(n int) int { return n % ends }, false)
	})
}

// cancelMatrices cancels a matrix of so many jobs twice before real ones come, and once more.
func cancelMatrices(t *testing.T, jobs, pause int, becomes func(n int) int, restarts bool) {
	t.Helper()
	inBubble(t, func(f *fixture) {
		m := &matrices{
			fixture: f, startedAt: map[string]time.Time{}, records: map[int]string{}, end: map[string]int{},
		}
		f.github = func(credentials.Reference) registrations.GitHub { return m }
		m.cancelMatrix(jobs, becomes)
		m.pass()
		for range 2 {
			m.cancelMatrix(jobs, becomes)
			if restarts {
				f.restart()
			}
			for range pause {
				m.tick()
			}
			if took := m.runReal(jobs + jobs/3); took > 24*time.Second {
				t.Errorf("real jobs start within %s, want 24 s", took)
			}
		}
	}, newSet(0, func(set *v1alpha1.EphemeralRunnerSet) { set.Spec.MaxRunners = new(10 * jobs) }))
}
