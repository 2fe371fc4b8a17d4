package chaos

import (
	"context"
	"flag"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

const restoredIdle, restoredMax = 3, 20

// After a restore, GitHub must have no registration without a runner within strayPatience. The product promises 15 min
// and takes ten of them to be sure; too long for every day.
//
// A manager that lives through the restore may see the loss of a runner's pod before the loss of the runner, and then
// removes the registration immediately. So for this check the manager is killed.
var strayPatience = flag.Duration("chaos.strays", 0,
	"kill the manager and wait for so long until registrations that a restore has left are gone; 0: don't")

// restoration is a run in which the cluster is restored from a backup while jobs run.
type restoration struct {
	*rig.Rig
	*gomega.WithT
	t        *testing.T
	cluster  *testkube.Cluster
	observer *observer
	// saved are the runners of the backup, unsaved those that were registered since.
	saved, unsaved []string
	restoredAt     time.Time
}

// After a restore runners that ended since the backup are back, and those created since are unknown. New jobs run all
// the same, jobs on runners that the backup has go on, and the others' are told and leave nothing behind.
func TestRestore(t *testing.T) {
	options := rig.ClusterOptions()
	options.AuditLog = false
	cluster := testkube.Start(t, options)
	r := &restoration{t: t, WithT: gomega.NewWithT(t), cluster: cluster}
	r.Rig = rig.Start(t, cluster, rig.Options{
		MinRunners: restoredIdle, MaxRunners: restoredMax, NodeRestartBackOff: time.Second,
		GitHub: fakegithub.Options{
			JITLatency: jitLatency, PollLength: pollLength,
			Rules: fakegithub.Rules{SessionLifetime: sessionLifetime, RunnerLostAfter: runnerLostAfter},
		},
	})
	r.observer = &observer{rig: r.Rig, max: restoredMax}
	ctx, stop := context.WithCancel(context.Background())
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		r.observer.run(ctx)
	}()
	defer func() { stop(); <-watched }()

	running := r.restoreWhileJobsRun()
	r.awaitOffline(r.unsaved) // until then they could take the new jobs, and leave nothing to remove
	r.WaitDone(r.QueueJobs(2*restoredIdle, time.Second))
	t.Logf("new jobs were done %s after the restore", time.Since(r.restoredAt).Round(time.Second))
	r.checkJobs(running)
	r.checkRunners()
	if *strayPatience > 0 {
		r.checkNoStrays()
	}
	for _, violation := range r.observer.broken() {
		t.Error(violation)
	}
}

// restoreWhileJobsRun saves the cluster while six jobs run, lets them end, and restores the cluster while five others
// run: some on runners that were idle at the backup, the rest on later ones. It returns the jobs of the five.
func (r *restoration) restoreWhileJobsRun() []int64 {
	r.t.Helper()
	first := r.QueueJobs(2*restoredIdle, rig.Held)
	r.awaitRunners(restoredIdle, len(first))
	backup := filepath.Join(r.t.TempDir(), "backup")
	r.Expect(r.cluster.SaveEtcd(r.t.Context(), backup)).To(gomega.Succeed())
	r.saved = r.registered()
	r.EndJobs(first)
	running := r.QueueJobs(restoredIdle+2, rig.Held)
	r.awaitRunners(restoredIdle, len(running))
	r.unsaved = slices.DeleteFunc(r.registered(), func(name string) bool { return slices.Contains(r.saved, name) })
	r.Expect(r.unsaved).To(gomega.HaveLen(2 + restoredIdle))
	r.Expect(r.cluster.StopAPIServer()).To(gomega.Succeed())
	if *strayPatience > 0 {
		for _, pod := range r.observer.managerPods() {
			r.Expect(r.Node.Kill(pod, "manager")).To(gomega.Succeed())
		}
	}
	r.Expect(r.cluster.RestoreEtcd(r.t.Context(), backup)).To(gomega.Succeed())
	r.restoredAt = time.Now()
	return running
}

// awaitRunners waits until that many runners are idle and have a job, and the cluster says so.
func (r *restoration) awaitRunners(idle, busy int) {
	r.t.Helper()
	r.Eventually(func(g gomega.Gomega) {
		var runners v1alpha1.EphemeralRunnerList
		g.Expect(r.cluster.Client().List(r.t.Context(), &runners, client.InNamespace(r.RunnerNamespace))).
			To(gomega.Succeed())
		var up, working int
		for i := range runners.Items {
			switch status := &runners.Items[i].Status; {
			case status.HadJob() && !status.JobCompleted():
				working++
			case status.Phase == v1alpha1.EphemeralRunnerPhaseRunning:
				up++
			}
		}
		g.Expect([]int{len(runners.Items), up, working}).To(gomega.Equal([]int{idle + busy, idle, busy}))
	}, rig.Patience, lookInterval).Should(gomega.Succeed())
}

// awaitOffline waits until GitHub has noticed that these runners' pods are gone, or has no such runners any more.
func (r *restoration) awaitOffline(names []string) {
	r.t.Helper()
	r.Eventually(func() (online []string) {
		for _, runner := range r.GitHub.Snapshot().Runners {
			if runner.Online && slices.Contains(names, runner.Name) {
				online = append(online, runner.Name)
			}
		}
		return online
	}, rig.Patience, lookInterval).Should(gomega.BeEmpty())
}

// registered returns the names of all registrations.
func (r *restoration) registered() (names []string) {
	for _, runner := range r.GitHub.Snapshot().Runners {
		names = append(names, runner.Name)
	}
	slices.Sort(names)
	return names
}

// checkJobs checks that a job has gone on if its runner is in the backup, and that GitHub has given up the others.
func (r *restoration) checkJobs(running []int64) {
	r.t.Helper()
	r.Eventually(func() (waiting []fakegithub.Job) {
		r.GitHub.EndJobs()
		return slices.DeleteFunc(r.GitHub.Jobs(""), func(job fakegithub.Job) bool { return job.State == "completed" })
	}, rig.Patience, lookInterval).Should(gomega.BeEmpty())
	var lost []string
	for _, job := range r.GitHub.Jobs("") {
		unknown := slices.Contains(running, job.RequestID) && slices.Contains(r.unsaved, job.Runner)
		switch {
		case job.Result != "succeeded" && !unknown:
			r.t.Errorf("job %d on %s ended as %s", job.RequestID, job.Runner, job.Result)
		case job.Result != "succeeded":
			lost = append(lost, job.Runner)
		case unknown:
			r.t.Errorf("job %d on %s, whose pod is gone, ended as %s", job.RequestID, job.Runner, job.Result)
		}
	}
	r.Expect(lost).To(gomega.HaveLen(2))
	for _, runner := range lost {
		report := regexp.MustCompile(`could not be written, giving up.*` + runner)
		r.Eventually(func() bool { return report.MatchString(r.ListenerLog()) }, rig.Patience, lookInterval).
			Should(gomega.BeTrue(), runner)
	}
	r.Eventually(func() bool { return strings.Contains(r.ManagerLog(), "UnknownRunnerJob") }, rig.Patience,
		lookInterval).
		Should(gomega.BeTrue(), "no Event tells that jobs were lost")
	for _, anomaly := range r.GitHub.Anomalies() {
		if (anomaly.Kind != "RunnerLostBusy" && anomaly.Kind != "RunnerStoppedBusy") ||
			!slices.Contains(lost, anomaly.Runner) {
			r.t.Error(anomaly)
		}
	}
}

// runners returns the names of all runners but those that are kept because their job was lost: the backup says that
// they have one, and nobody can know any more what became of it.
func (r *restoration) runners(g gomega.Gomega) (names []string) {
	var runners v1alpha1.EphemeralRunnerList
	g.Expect(r.cluster.Client().List(r.t.Context(), &runners, client.InNamespace(r.RunnerNamespace))).
		To(gomega.Succeed())
	for i := range runners.Items {
		if runners.Items[i].Status.LostCause == "" {
			names = append(names, runners.Items[i].Name)
		}
	}
	return names
}

// checkRunners checks that there are soon the idle runners only, each with its pod and registration. Beside these,
// GitHub has the registrations of runners that were idle when they were forgotten.
func (r *restoration) checkRunners() {
	r.t.Helper()
	r.Eventually(func(g gomega.Gomega) {
		names, pods := r.runners(g), []string{}
		for _, pod := range r.RunnerPods() {
			pods = append(pods, pod.Name)
		}
		g.Expect(names).To(gomega.HaveLen(restoredIdle))
		g.Expect(pods).To(gomega.ConsistOf(names))
		for _, name := range r.registered() {
			g.Expect(slices.Concat(names, r.unsaved)).To(gomega.ContainElement(name))
		}
		g.Expect(r.registered()).To(gomega.ContainElements(names))
	}, rig.Patience, lookInterval).Should(gomega.Succeed())
	r.t.Logf("only idle runners were left %s after the restore; registrations: %v",
		time.Since(r.restoredAt).Round(time.Second), r.registered())
}

// checkNoStrays checks that in the end GitHub has no registration without a runner.
func (r *restoration) checkNoStrays() {
	r.t.Helper()
	r.Eventually(func(g gomega.Gomega) {
		g.Expect(r.registered()).To(gomega.ConsistOf(r.runners(g)))
	}, *strayPatience-time.Since(r.restoredAt), time.Second).Should(gomega.Succeed())
	r.t.Logf("no registration without a runner was left %s after the restore", time.Since(r.restoredAt).
		Round(time.Second))
	r.Expect(strings.Contains(r.ManagerLog(), "StraysRemoved")).
		To(gomega.BeTrue(), "no Event says that they were removed")
}
