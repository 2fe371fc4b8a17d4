package ephemeralrunner_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

// happening is one thing that happens to a runner whose job runs. A pass follows it.
type happening func(f *fixture)

func podIs(change func(*corev1.Pod)) happening { return func(f *fixture) { f.setPod(change) } }

// podDeleted has somebody delete the pod; its kubelet removes it with podRemoved.
func podDeleted(f *fixture) { f.hang() }

func podRemoved(f *fixture) { f.hold() }

// podForced has somebody delete the pod without a grace period: no pass sees it being deleted.
func podForced(f *fixture) {
	f.Helper()
	if err := f.api.WithWatch.Delete(f.Context(), f.pod()); err != nil {
		f.Fatal(err)
	}
}

func podDisrupted(reason string) happening {
	return podIs(func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.Now()})
	})
}

// GitHub waits for a runner of which it does not hear any more for lostContact. It says then that its job has failed.
const lostContact = 10 * time.Minute

func evicted(p *corev1.Pod) { p.Status.Reason = "Evicted" }

func killedForMemory(p *corev1.Pod) {
	p.Status.ContainerStatuses[0].State.Terminated.Reason = "OOMKilled"
}

// reports writes the report of the listener at the end of a job.
func reports(result string) happening {
	return func(f *fixture) {
		if f.runner() == nil {
			return
		}
		f.setStatus(func(r *v1alpha1.EphemeralRunner) {
			r.Status.JobResult, r.Status.FinishedAt = result, new(metav1.Now())
		})
	}
}

func waits(d time.Duration) happening { return func(f *fixture) { f.elapse(d) } }

// away lets things happen while no manager leads.
func away(all ...happening) happening {
	return func(f *fixture) {
		for _, happens := range all {
			happens(f)
		}
		f.restart()
	}
}

// secretGone leaves the state of a manager that is killed before it deletes the pod, too.
func secretGone(f *fixture) {
	f.Helper()
	if err := f.api.WithWatch.Delete(f.Context(), f.secret()); err != nil {
		f.Fatal(err)
	}
}

// containerEnds is endsNow as a happening.
func containerEnds(code int32) happening { return func(f *fixture) { endsNow(f, code) } }

func outOfMemory(container string) happening {
	return podIs(func(p *corev1.Pod) {
		killed := corev1.ContainerStatus{Name: container, State: exited(137, "OOMKilled")}
		if container == v1alpha1.RunnerContainerName {
			p.Status.Phase, p.Status.ContainerStatuses = corev1.PodFailed, []corev1.ContainerStatus{killed}
			return
		}
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, killed)
	})
}

// endsNow ends the runner container at the present time.
func endsNow(f *fixture, code int32) {
	f.setPod(func(p *corev1.Pod) {
		exits(code)(p)
		p.Status.ContainerStatuses[0].State.Terminated.FinishedAt = metav1.Now()
	})
}

func runnerDeleted(f *fixture) { f.delete() }

func managerRestarts(f *fixture) { f.restart() }

const evictionAPI = "EvictionByEvictionAPI"

// wantLost fails the test unless the runner's job was lost to the cause, or was not lost if that is empty.
func (f *fixture) wantLost(cause v1alpha1.LostCause) {
	f.Helper()
	runner := f.runner()
	switch {
	case cause == "" && runner != nil &&
		(runner.Status.LostCause != "" || runner.Status.Phase == v1alpha1.EphemeralRunnerPhaseFailed):
		f.Errorf("status %+v, want no lost job", runner.Status)
	case cause != "" && (runner == nil || runner.Status.LostCause != cause || !runner.Status.Done() ||
		runner.Status.Message == ""):
		f.Errorf("runner %+v, want a job lost to %s", runner, cause)
	case cause != "" && (f.pod() != nil || f.secret() != nil):
		f.Error("pod or Secret is left")
	}
}

// losses has the events that befall runners whose jobs run, and the causes by which the jobs are lost.
type losses map[string]struct {
	happens []happening
	want    v1alpha1.LostCause
}

func (all losses) test(t *testing.T) {
	t.Helper()
	for name, test := range all {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.started().setStatus(hasReportedJob)
				f.settle()
				for _, happens := range test.happens {
					if f.pod() == nil && f.runner() == nil {
						break
					}
					happens(f)
					f.settle()
				}
				for range 2 {
					f.elapse(rules.SilentGrace)
					f.settle()
				}
				f.wantLost(test.want)
			}, newRunner())
		})
	}
}

func TestJobsThatAreLost(t *testing.T) {
	losses{
		"evicted":                            {[]happening{podDisrupted(evictionAPI), podDeleted, podRemoved}, "Evicted"},
		"evicted, told to stop":              {[]happening{podDisrupted(evictionAPI), podDeleted, reports("canceled"), podIs(exits(0)), podRemoved}, "Evicted"},
		"evicted, killed, canceled later":    {[]happening{podDisrupted(evictionAPI), podDeleted, podIs(exits(137)), reports("canceled"), podRemoved}, "Evicted"},
		"evicted, exits with 0, no report":   {[]happening{podDisrupted(evictionAPI), podDeleted, podIs(exits(0)), podRemoved}, "Evicted"},
		"evicted, seen after the report":     {[]happening{func(f *fixture) { podDeleted(f); reports("canceled")(f) }, podIs(exits(0)), podRemoved}, "PodDeleted"},
		"evicted by its kubelet":             {[]happening{podIs(evict)}, "Evicted"},
		"preempted":                          {[]happening{podDisrupted("PreemptionByScheduler"), podDeleted, podRemoved}, "Preempted"},
		"node removed":                       {[]happening{podDisrupted("DeletionByPodGC"), podDeleted, podRemoved}, "NodeLost"},
		"node silent":                        {[]happening{podDeleted, waits(podstatus.StuckTimeout), waits(rules.FailedGrace), podRemoved}, "NodeLost"},
		"out of memory":                      {[]happening{outOfMemory(v1alpha1.RunnerContainerName)}, "OOMKilled"},
		"Docker out of memory":               {[]happening{outOfMemory("dind"), podIs(func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State = exited(1, "Error") })}, "OOMKilled"},
		"deleted by hand":                    {[]happening{podDeleted, podRemoved}, "PodDeleted"},
		"deleted by force, seen by no pass":  {[]happening{podForced}, "Unknown"},
		"deleted while the manager was away": {[]happening{func(f *fixture) { podForced(f); f.restart() }}, "Unknown"},
		"drained while the manager was away": {[]happening{func(f *fixture) { podForced(f); reports("canceled")(f); f.restart() }}, "Unknown"},
		"manager restarts after the end":     {[]happening{podIs(exits(1)), managerRestarts}, "ContainerFailed"},
		"out of memory, canceled after that": {[]happening{outOfMemory(v1alpha1.RunnerContainerName), reports("canceled")}, "OOMKilled"},
		"killed, canceled after that":        {[]happening{podIs(exits(137)), reports("canceled")}, "ContainerFailed"},
		"killed, seen with the report":       {[]happening{func(f *fixture) { endsNow(f, 137); reports("canceled")(f) }}, "ContainerFailed"},
		"gone, canceled after that":          {[]happening{podForced, reports("canceled")}, "Unknown"},
		"failed":                             {[]happening{podIs(exits(1))}, "ContainerFailed"},
		"failed, GitHub gives up later":      {[]happening{podIs(exits(1)), waits(10 * time.Minute), reports("failed")}, "ContainerFailed"},
		"abandoned":                          {[]happening{podDeleted, reports("abandoned"), podRemoved}, "PodDeleted"},
		"exits with 7":                       {[]happening{podIs(exits(rules.ExitCodeOutdated))}, "ContainerFailed"},
		"deadline": {[]happening{podIs(func(p *corev1.Pod) {
			exits(0)(p)
			p.Status.Phase, p.Status.Reason = corev1.PodFailed, "DeadlineExceeded"
		})}, "ContainerFailed"},

		"works":                               {[]happening{podIs(exits(0)), reports("succeeded")}, ""},
		"works, report before the end":        {[]happening{reports("succeeded"), podIs(exits(0))}, ""},
		"works, no report":                    {[]happening{podIs(exits(0)), waits(time.Minute)}, ""},
		"fails by itself":                     {[]happening{reports("failed"), podIs(exits(0))}, ""},
		"fails by itself, runner fails, too":  {[]happening{podIs(exits(1)), waits(time.Second), reports("failed")}, ""},
		"canceled by a person":                {[]happening{reports("canceled"), podIs(exits(0))}, ""},
		"canceled by a person, runner fails":  {[]happening{reports("canceled"), podIs(exits(1))}, ""},
		"canceled, seen with a failed runner": {[]happening{func(f *fixture) { reports("canceled")(f); f.elapse(2 * time.Second); endsNow(f, 1) }}, ""},
		"canceled by a person, then evicted":  {[]happening{reports("canceled"), waits(time.Second), podDisrupted(evictionAPI), podDeleted, podRemoved}, ""},
		"evicted, ends in its grace period":   {[]happening{podDisrupted(evictionAPI), podDeleted, reports("succeeded"), podIs(exits(0)), podRemoved}, ""},
		"evicted, succeeds, report is late":   {[]happening{podDisrupted(evictionAPI), podDeleted, podIs(exits(0)), waits(rules.SilentGrace - time.Second), reports("succeeded")}, ""},
		"evicted, fails by itself":            {[]happening{podDisrupted(evictionAPI), podDeleted, reports("failed"), podIs(exits(0)), podRemoved}, ""},
		"evicted, eviction is withdrawn":      {[]happening{podDisrupted(evictionAPI), podIs(runs), reports("canceled"), podIs(exits(0))}, ""},
		"gone, the report was on its way":     {[]happening{podForced, waits(rules.SilentGrace - time.Second), reports("succeeded")}, ""},
		"gone, restart, report on its way":    {[]happening{podIs(exits(0)), managerRestarts, waits(time.Second), reports("succeeded")}, ""},
		"Docker out of memory, job goes on":   {[]happening{outOfMemory("dind"), reports("failed"), podIs(exits(0))}, ""},
		"canceled, manager restarts, removed": {[]happening{reports("canceled"), managerRestarts, podIs(exits(0)), podRemoved}, ""},
	}.test(t)
}

// A manager that was away when the pod ended, or when GitHub said what became of the job, decides as one does that was
// there. In doubt a job that failed is not lost.
func TestJobsThatAreLostWhileNoManagerLeads(t *testing.T) {
	losses{
		"evicted by its kubelet, GitHub fails it":             {[]happening{away(podDisrupted("TerminationByKubelet"), containerEnds(137), podIs(evicted), waits(lostContact), reports("failed"))}, "Evicted"},
		"evicted, undated":                                    {[]happening{away(podIs(evict), waits(lostContact), reports("failed"))}, "Evicted"},
		"out of memory, GitHub fails it":                      {[]happening{away(containerEnds(137), podIs(killedForMemory), waits(lostContact), reports("failed"))}, "OOMKilled"},
		"runner crashes, GitHub fails it":                     {[]happening{away(containerEnds(1), waits(lostContact), reports("failed"))}, "ContainerFailed"},
		"node silent, GitHub fails it":                        {[]happening{away(podDeleted, waits(lostContact), reports("failed")), waits(podstatus.StuckTimeout), podRemoved}, "NodeLost"},
		"node gone, GitHub fails it":                          {[]happening{away(podDisrupted("DeletionByPodGC"), podDeleted, waits(lostContact), reports("failed")), podRemoved}, "NodeLost"},
		"away when the pod ends, back before GitHub fails it": {[]happening{away(podDisrupted("TerminationByKubelet"), containerEnds(137), podIs(evicted)), waits(lostContact), reports("failed")}, "Evicted"},
		"there when the pod ends, away when GitHub fails it":  {[]happening{podDisrupted(evictionAPI), away(podDeleted, containerEnds(137), waits(lostContact), reports("failed")), podRemoved}, "Evicted"},
		"fails by itself":                                     {[]happening{away(reports("failed"), containerEnds(0), waits(lostContact))}, ""},
		"fails by itself, runner fails, too":                  {[]happening{away(reports("failed"), waits(time.Second), containerEnds(1), waits(lostContact))}, ""},
		"fails by itself, report is late":                     {[]happening{away(containerEnds(1), waits(2*time.Second), reports("failed"), waits(lostContact))}, ""},
		"fails by itself while it is evicted":                 {[]happening{away(podDisrupted(evictionAPI), podDeleted, waits(time.Second), reports("failed"), containerEnds(0), waits(lostContact)), podRemoved}, ""},
		"fails by itself on a silent node":                    {[]happening{away(podDeleted, waits(time.Second), reports("failed"), waits(lostContact)), podRemoved}, ""},
		"away after the exit, then canceled by a person":      {[]happening{podIs(exits(0)), away(reports("canceled"))}, ""},
		"canceled by a person, away before the runner goes":   {[]happening{away(reports("canceled"), podIs(exits(0)), secretGone, podForced)}, ""},
		"fails by itself while it is evicted, told late":      {[]happening{away(podDisrupted(evictionAPI), podDeleted, containerEnds(0), waits(lostContact), reports("failed")), podRemoved}, ""},
		"succeeds late":                                       {[]happening{away(containerEnds(1), waits(lostContact), reports("succeeded"))}, ""},
		"fails by itself, its pod is removed":                 {[]happening{away(reports("failed"), podForced)}, ""},
	}.test(t)
}

// The events of a pod that is deleted by force may all come before a pass, which then finds no pod. Its last state is
// in the last event.
func TestLastStateOfAPodThatIsGone(t *testing.T) {
	for name, test := range map[string]struct {
		last   func(*corev1.Pod)
		missed bool
		want   v1alpha1.LostCause
		done   bool
	}{
		"evicted": {last: func(p *corev1.Pod) { p.Status.Reason, p.Status.Phase = "Evicted", corev1.PodFailed }, want: "Evicted", done: true},
		"out of memory": {last: func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State = exited(137, "OOMKilled")
			p.Status.Phase = corev1.PodFailed
		}, want: "OOMKilled", done: true},
		"exited with 0": {last: exits(0), done: true},
		"deleted, which a pass has missed before": {last: func(p *corev1.Pod) {
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = new(metav1.Now()), new(int64)
		}, missed: true, want: "PodDeleted", done: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				started := f.start() // its own passes never get their turn
				f.started().setStatus(hasReportedJob)
				f.settle()
				last := f.pod()
				test.last(last)
				podForced(f)
				if test.missed {
					f.settle()
				}
				started.Deleted(last)
				f.settle()
				f.elapse(rules.SilentGrace)
				f.settle()
				if status := f.runner().Status; status.LostCause != test.want || status.Done() != test.done {
					t.Errorf("status %+v, want the job lost to %q", status, test.want)
				}
				started.Stop()
				f.delete()
				f.settle()
				f.elapse(30 * time.Second) // nobody plays the set, which would count the lost job
				f.settle()
				f.wantGone() // and nothing is kept of its pod, which the next one would be taken to have lost
			}, newRunner())
		})
	}
}

// A runner that somebody deletes waits for its job. If the pod takes the job along, the object stays until its set has
// counted that.
func TestLostJobOfARunnerThatIsBeingDeleted(t *testing.T) {
	for name, counts := range map[string]bool{"counted": true, "never counted": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.started().setStatus(hasReportedJob)
				f.settle()
				f.github.remove = actions.ErrJobStillRunning
				runnerDeleted(f)
				f.settle()
				podDisrupted(evictionAPI)(f)
				podDeleted(f)
				f.settle()
				f.elapse(time.Second)
				podRemoved(f)
				f.github.remove = nil
				f.settle()
				f.elapse(rules.FailedGrace)
				f.settle()
				if runner := f.runner(); runner == nil || runner.Status.LostCause != "Evicted" {
					t.Fatalf("runner %+v, want it to say that its job was lost", runner)
				}
				if counts {
					counted := &v1alpha1.EphemeralRunnerSet{}
					controllertest.Read(f, f.api.WithWatch, client.ObjectKeyFromObject(newSet()), counted)
					counted.Status.LostRunners = append(counted.Status.LostRunners, f.runner().UID)
					if err := f.api.WithWatch.Update(t.Context(), counted); err != nil {
						t.Fatal(err)
					}
				}
				f.elapse(2 * time.Second)
				f.settle()
				if gone := f.runner() == nil; gone != counts {
					t.Errorf("gone %t, want %t", gone, counts)
				}
				f.elapse(30 * time.Second)
				f.settle()
				f.wantGone()
			}, newRunner())
		})
	}
}

// The registration of a runner with a lost job goes, though the object stays.
func TestRegistrationOfARunnerWithALostJobIsRemoved(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.started().setStatus(hasReportedJob)
		f.settle()
		f.setPod(exits(137))
		f.settle()
		f.elapse(rules.FailedGrace)
		f.settle()
		f.wantCalls() // GitHub still counts the job: the set asks
		reports("canceled")(f)
		f.settle()
		f.wantCalls("remove 101")
		f.settle()
		f.wantCalls()
	}, newRunner())
}

// An idle runner that its liveness probe ends every hour has nothing wrong with it; one that can't live for long has.
func TestEndsOfARunnerThatWasUpForLongDoNotAddUp(t *testing.T) {
	for up, failed := range map[time.Duration]bool{time.Hour: false, rules.LongUpGrace: false,
		rules.LongUpGrace - time.Second: true} {
		inBubble(t, func(f *fixture) {
			for range 2 * len(rules.RetryBackoff) {
				f.settle()
				if f.runner().Status.Done() {
					break
				}
				f.setPod(runs)
				f.settle()
				f.elapse(up)
				f.setPod(exits(137))
				f.settle()
				f.elapse(rules.RetryBackoff[len(rules.RetryBackoff)-1])
			}
			f.settle()
			if status := f.runner().Status; (status.Phase == v1alpha1.EphemeralRunnerPhaseFailed) != failed {
				t.Errorf("up for %s each time: %s after %d failures in a row", up, status.Phase, len(status.Failures))
			}
		}, newRunner())
	}
}

// Pods of other owners of the same kind are nobody's last state.
func TestOnlyPodsOfRunnersAreKept(t *testing.T) {
	for version, want := range map[string]v1alpha1.LostCause{
		v1alpha1.GroupVersion.String(): "Evicted", "example.com/v1": v1alpha1.LostCauseUnknown,
	} {
		inBubble(t, func(f *fixture) {
			started := f.start() // its own passes never get their turn
			f.started().setStatus(hasReportedJob)
			f.settle()
			last := f.pod()
			last.Status.Reason, last.Status.Phase = "Evicted", corev1.PodFailed
			last.OwnerReferences[0].APIVersion = version
			podForced(f)
			started.Deleted(last)
			f.settle()
			f.elapse(rules.SilentGrace)
			f.settle()
			if got := f.runner().Status.LostCause; got != want {
				t.Errorf("%s: the job is lost to %q, want %q", version, got, want)
			}
		}, newRunner())
	}
}
