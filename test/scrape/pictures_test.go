package scrape

import (
	"hash/fnv"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/testkube/fakenode"
	"github.com/harrier-ci/harrier/test/rig"
)

// day is what a picture shows: waves of jobs for three scale sets, the first of which is the rig's own and wants more
// runners than it may have; pods that start slowly, some that fit no node, runners and jobs that fail.
type day struct {
	// waves are how many jobs each wave has for the first set; the others get parts of it.
	waves []int
	// shortest and longest are the durations of jobs.
	shortest, longest time.Duration
}

var (
	// short is enough to see that drawing works; long takes about four minutes.
	short = day{waves: []int{4}, shortest: 100 * time.Millisecond, longest: time.Second}
	long  = day{waves: []int{6, 14, 30, 44, 30, 18, 8, 4, 12, 26, 34, 20, 10, 4}, shortest: 3 * time.Second, longest: 14 * time.Second}
)

// The scale sets beside the rig's own.
const (
	gpuSet    = "gpu"
	deploySet = "deploy"
)

func TestDashboardsAreDrawnFromWhatPrometheusSaw(t *testing.T) {
	directory, today := t.TempDir(), short
	if *pictures != "" {
		directory, today = *pictures, long
	}
	s := start(t, rig.Options{
		MaxRunners: 30, MinRunners: 2,
		GitHub: fakegithub.Options{JITLatency: 150 * time.Millisecond, Latency: 40 * time.Millisecond},
	})
	s.Node.OnStart(slowly)
	s.InstallSet(gpuSet, rig.Values{"maxRunners": 10, "minRunners": 0})
	s.InstallSet(deploySet, rig.Values{"minRunners": 1})
	s.AwaitListening(gpuSet)
	s.AwaitListening(deploySet)
	targets := s.targets(t)
	p := startPrometheus(t, s.monitored(t, targets, nil), len(targets))
	if p == nil {
		t.Log("Prometheus is not installed; there is nothing to draw")
		return
	}
	if _, err := s.GitHub.AddFault(fakegithub.Fault{Endpoint: "simulated-runner/connect", Status: http.StatusGone, Probability: 0.03}); err != nil {
		t.Fatal(err)
	}
	shown := span{start: time.Now()}
	s.live(t, today)
	shown.end = time.Now()
	p.draw(t, directory, shown, map[string]string{"__rate_interval": "20s", "namespace": s.RunnerNamespace, "name": rig.DefaultSet})
}

// slowly delays pods by up to three seconds, and finds no node for some of the gpu set.
func slowly(pod *corev1.Pod) fakenode.Fault {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(pod.Name))
	chance := hash.Sum32()
	switch {
	case pod.Labels[v1alpha1.LabelComponent] != v1alpha1.ComponentRunner:
		return fakenode.Fault{}
	case pod.Labels[v1alpha1.LabelScaleSetName] == gpuSet && chance%8 == 0:
		return fakenode.Fault{Unschedulable: "0/12 nodes are available: 12 Insufficient nvidia.com/gpu."}
	}
	return fakenode.Fault{Delay: time.Duration(chance%30) * 100 * time.Millisecond}
}

// live queues a wave when two thirds of the one before are done, and ends when all jobs are that can be.
func (s *site) live(t *testing.T, today day) {
	t.Helper()
	var queued []int64
	for i, count := range today.waves {
		wave := s.Queue(today.jobs(rig.DefaultSet, count, "succeeded"))
		wave = append(wave, s.Queue(today.jobs(deploySet, 1+count/5, "succeeded"))...)
		wave = append(wave, s.Queue(today.jobs(rig.DefaultSet, 1+count/10, []string{"failed", "canceled"}[i%2]))...)
		queued = append(queued, wave...)
		if i%4 == 1 {
			s.Queue(today.jobs(gpuSet, 5, "succeeded")) // some of them wait for a node to the end
		}
		s.AwaitCompleted(wave, len(wave)*2/3)
	}
	s.AwaitCompleted(queued, len(queued))
	for _, job := range s.GitHub.Jobs("") {
		if job.Result == "" {
			// Runners without a node would wait for it until the test ends. A job that has ended meanwhile can't be canceled.
			_ = s.GitHub.CancelJob(job.RequestID)
		}
	}
}

func (d day) jobs(set string, count int, result string) fakegithub.JobRequest {
	return fakegithub.JobRequest{
		ScaleSet: set, Count: count, Result: result,
		MinDuration: fakegithub.Duration(d.shortest), MaxDuration: fakegithub.Duration(d.longest),
	}
}
