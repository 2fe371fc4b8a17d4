package load

import (
	"fmt"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// manySets queues jobs for many scale sets at the same time, after it has measured as many jobs on a single set.
func manySets(t *testing.T, cluster *testkube.Cluster, s *settings, jobs int) Result {
	return inManySets(t, cluster, s, jobs, "", func(*rig.Rig) (int, func()) { return 0, func() {} })
}

// hangingSet is manySets beside one more set, whose GitHub no longer answers while that set's jobs wait for runners.
func hangingSet(t *testing.T, cluster *testkube.Cluster, s *settings, jobs int) Result {
	github := fakegithub.New(fakegithub.Options{PATs: []string{rig.PAT}})
	// The server is not closed: the rig uninstalls the set after this test's cleanup functions have run, and needs the
	// set's GitHub for that.
	address, err := github.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return inManySets(t, cluster, s, jobs, address, func(r *rig.Rig) (int, func()) {
		return hang(t, r, github, address)
	})
}

// inManySets calls disturb when all sets listen and the single set has been measured. other is the address of another
// GitHub, or empty. disturb returns the number of runners that it causes, and a function that ends the disturbance.
func inManySets(
	t *testing.T, cluster *testkube.Cluster, s *settings, jobs int, other string, disturb func(*rig.Rig) (int, func()),
) Result {
	total := jobs * s.sets
	result := newResult(s, total)
	options := s.rigOptions(total)
	if other != "" {
		options.AllowedAddresses = []string{other}
	}
	floor(t, cluster, warmUp, 0)
	before := floor(t, cluster, total, s.jit)
	r := rig.Start(t, cluster, options)
	names := make([]string, s.sets)
	for i := range names {
		names[i] = fmt.Sprintf("set-%03d", i)
		r.InstallSet(names[i], rig.Values{"maxRunners": jobs})
	}
	for _, name := range names {
		r.AwaitListening(name)
	}
	single := begin(t, r)
	r.QueueJobs(total, s.job)
	single.awaitJobs(total)
	alone := newResult(s, total)
	single.end(&alone)

	m := begin(t, r).profiled(s)
	others, heal := disturb(r)
	for _, name := range names {
		r.QueueJobsFor(name, jobs, s.job)
	}
	m.awaitCompleted(total)
	heal()
	m.awaitJobs(total)
	result.Jobs += others
	m.end(&result)
	after := floor(t, cluster, total, s.jit)
	alone.over(total, before, after)
	result.over(total, before, after)
	result.Single = &alone
	return result
}

// hang installs a set for a GitHub of its own, on which every call for a JIT config hangs, and queues more jobs for it
// than the manager makes calls at a time. It returns their number and a function that lets GitHub answer again.
func hang(t *testing.T, r *rig.Rig, github *fakegithub.Server, address string) (runners int, heal func()) {
	t.Helper()
	const set, jobs = "hanging", 200
	r.InstallSet(set, rig.Values{"githubConfigUrl": address + "/org", "maxRunners": jobs})
	g := gomega.NewWithT(t)
	g.Eventually(func() int { return len(github.Snapshot().Sessions) }, patience, look).
		Should(gomega.Equal(1), "sessions of the hanging set")
	fault, err := github.AddFault(fakegithub.Fault{Endpoint: "generate-jit-config", Hang: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := github.QueueJobs(fakegithub.JobRequest{
		Count:    jobs,
		ScaleSet: set,
		Duration: fakegithub.Duration(time.Second),
	}); err != nil {
		t.Fatal(err)
	}
	g.Eventually(func() int { return runnersIn(t, r) }, patience, look).
		Should(gomega.Equal(jobs), "runners that wait for GitHub")
	return jobs, func() { github.RemoveFault(fault) }
}

// runnersIn counts the runner objects of all sets.
func runnersIn(t *testing.T, r *rig.Rig) int {
	t.Helper()
	var runners v1alpha1.EphemeralRunnerList
	if err := r.Cluster.Client().List(t.Context(), &runners, client.InNamespace(r.RunnerNamespace)); err != nil {
		t.Fatal(err)
	}
	return len(runners.Items)
}
