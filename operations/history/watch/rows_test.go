package watch_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/operations/history/ledger"
	"github.com/harrier-ci/harrier/operations/history/watch"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func at(seconds int) *metav1.Time {
	return new(metav1.NewTime(noon.Add(time.Duration(seconds) * time.Second)))
}

// lost returns a runner whose job was lost and is to be run again, and its pod.
func lost() (*v1alpha1.EphemeralRunner, *corev1.Pod) {
	runner := &v1alpha1.EphemeralRunner{ObjectMeta: metav1.ObjectMeta{
		Name: "linux-1", Namespace: "team-a", UID: "uid", CreationTimestamp: *at(0),
		Labels: map[string]string{v1alpha1.LabelScaleSetName: "linux", v1alpha1.LabelScaleSetNamespace: "team-a"},
	}}
	runner.Status = v1alpha1.EphemeralRunnerStatus{
		JobID: "job", JobRepositoryName: "acme/app", JobWorkflowRef: "acme/app/.github/workflows/ci.yaml@refs/heads/main",
		WorkflowRunID: 7, JobDisplayName: "test", Event: "push", JobResult: "canceled", FinishedAt: at(100),
		LostCause: "Evicted",
		Rerun:     &v1alpha1.RerunStatus{State: v1alpha1.RerunAsked, Attempt: 2},
		Phases:    &v1alpha1.RunnerPhases{Queued: at(-5), Assigned: at(-4), Started: at(20)},
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "linux-1", Namespace: "team-a",
		Annotations:     map[string]string{v1alpha1.AnnotationPhases: "registered=1772625601"},
		OwnerReferences: []metav1.OwnerReference{{UID: "uid", Controller: new(true)}},
	}}
	request := func(cpu, memory string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
		}}
	}
	pod.Spec = corev1.PodSpec{
		NodeName: "node-1",
		InitContainers: []corev1.Container{
			{Name: "dind", RestartPolicy: new(corev1.ContainerRestartPolicyAlways), Resources: request("500m", "1Gi")},
			{Name: "first", Resources: request("1", "8Gi")},
		},
		Containers: []corev1.Container{{Name: "runner", Image: "runner:1", Resources: request("1500m", "2Gi")}},
	}
	pod.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: *at(2)},
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "runner", State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{StartedAt: *at(9),
			Message: "a line of the job\n" + `{"usage":1,"peakMemoryBytes":5,` +
				`"memoryLimitBytes":9,"oomKills":0,"cpuMicroseconds":7,"throttledMicroseconds":3,` +
				`"cpuPeriods":4,"throttledPeriods":2}` + "\n"},
	}}}
	return runner, pod
}

func TestARowHasWhatRunnerAndPodSay(t *testing.T) {
	runner, pod := lost()
	got, had := watch.JobOf("c", runner, pod)
	want := ledger.Job{
		RunnerUID: "uid", Cluster: "c", Namespace: "team-a", Set: "linux", Runner: "linux-1", At: at(20).Time,
		Repository: "acme/app", Workflow: "acme/app/.github/workflows/ci.yaml", Ref: "refs/heads/main", Name: "test",
		RunID: new(int64(7)), JobID: "job", Attempt: new(int64(2)), Event: "push",
		Queued: at(-5).Time, Assigned: at(-4).Time, Created: at(0).Time, Registered: at(1).Time, Placed: at(2).Time,
		ImagePulled: at(9).Time, ContainerUp: at(9).Time, Started: at(20).Time, Finished: at(100).Time,
		Result: "canceled", LostCause: "Evicted", Rerun: "Asked", Node: "node-1", Elsewhere: ledger.ElsewhereDocker,
		CPURequestMillis: new(int64(2000)), MemoryRequestBytes: new(int64(8 << 30)),
		PeakMemoryBytes: new(int64(5)), MemoryLimitBytes: new(int64(9)), OOMKills: new(int64(0)),
		CPUMicroseconds: new(int64(7)),
		CPUPeriods:      new(int64(4)), ThrottledPeriods: new(int64(2)),
	}
	if diff := cmp.Diff(want, got); diff != "" || !had {
		t.Errorf("the row is %t (-want +got):\n%s", had, diff)
	}
}

// The attempt in which a job was lost is not the one that has it again, and GitHub's own word counts most.
func TestARowTellsAttemptsApart(t *testing.T) {
	runner, _ := lost()
	runner.Status.Rerun = &v1alpha1.RerunStatus{State: v1alpha1.RerunDone, Attempt: 3}
	got, _ := watch.JobOf("c", runner, nil)
	if got.Attempt != nil || *got.RerunAttempt != 3 || got.JobNumber != nil {
		t.Errorf("run again: %+v", got)
	}
	runner.Status.JobNumber, runner.Status.JobAttempt = 501, 2
	runner.Status.Rerun = &v1alpha1.RerunStatus{State: v1alpha1.RerunGivenUp, Attempt: 3, Reason: v1alpha1.RerunNewerRun}
	got, _ = watch.JobOf("c", runner, nil)
	if *got.Attempt != 2 || got.RerunAttempt != nil || *got.JobNumber != 501 || got.RerunReason != "NewerRun" {
		t.Errorf("given up: %+v", got)
	}
}

// TestAJobEndsWhenGitHubSays, and not when the listener, which was away for five minutes, heard of it.
func TestAJobEndsWhenGitHubSays(t *testing.T) {
	runner, pod := lost()
	runner.Status.FinishedAt, runner.Status.Phases.Finished = at(400), at(100)
	for _, pod := range []*corev1.Pod{pod, nil} {
		if got, _ := watch.JobOf("c", runner, pod); got.RunTime() != 80*time.Second {
			t.Errorf("with pod %t it took %s", pod != nil, got.RunTime())
		}
	}
}

// TestWorkThatNothingMeasuresIsTold: only the runner's container is measured.
func TestWorkThatNothingMeasuresIsTold(t *testing.T) {
	for title, test := range map[string]struct {
		change func(*corev1.PodSpec)
		want   string
	}{
		"the runner alone": {func(*corev1.PodSpec) {}, ""},
		"beside what requests nothing": {func(s *corev1.PodSpec) {
			s.Containers = append(s.Containers, corev1.Container{Name: "log"})
		}, ""},
		"a daemon": {func(s *corev1.PodSpec) {
			s.Containers[0].Env = []corev1.EnvVar{{Name: "DOCKER_HOST", Value: "tcp://build:2375"}}
		}, "Docker"},
		"a sidecar of dind": {func(s *corev1.PodSpec) {
			s.InitContainers = []corev1.Container{{Name: "dind", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}}
		}, "Docker"},
		"hooks": {func(s *corev1.PodSpec) {
			s.Containers[0].Env = []corev1.EnvVar{{Name: "ACTIONS_RUNNER_CONTAINER_HOOKS", Value: "/k8s/index.js"}}
		}, "Pods"},
		"a database with requests": {func(s *corev1.PodSpec) {
			s.Containers = append(s.Containers, corev1.Container{Name: "db", Resources: s.Containers[0].Resources})
		}, "Containers"},
	} {
		runner, pod := lost()
		pod.Spec.InitContainers = nil
		test.change(&pod.Spec)
		if got, _ := watch.JobOf("c", runner, pod); got.Elsewhere != test.want {
			t.Errorf("%s: %q, want %q", title, got.Elsewhere, test.want)
		}
	}
}

// TestTheJobsPodsBelongToTheJob: container hooks run it in a pod of its own, which costs most.
func TestTheJobsPodsBelongToTheJob(t *testing.T) {
	runner, pod := lost()
	pod.Spec.InitContainers = nil
	jobPod := *pod.DeepCopy()
	jobPod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("30Gi")}
	step := *pod.DeepCopy()
	got, _ := watch.JobOf("c", runner, pod, step, jobPod)
	if *got.CPURequestMillis != 9500 || *got.MemoryRequestBytes != 32<<30 {
		t.Errorf("it requests %d and %d", *got.CPURequestMillis, *got.MemoryRequestBytes)
	}
}

func TestAPodOfAnotherOwnerSaysNothing(t *testing.T) {
	runner, pod := lost()
	pod.OwnerReferences[0].UID = "another"
	if got, _ := watch.JobOf("c", runner, pod); got.Node != "" || got.PeakMemoryBytes != nil || !got.Placed.IsZero() {
		t.Errorf("the row is %+v", got)
	}
}

func TestWhatAJobWritesIntoItsTerminationMessageIsNotBelieved(t *testing.T) {
	for _, message := range []string{"", "{", `{"usage":1`, `{"usage":1,"peakMemoryBytes":"5"}`,
		`{"usage":1,"peakMemoryBytes":1e99}`, `{"usage":2}`} {
		runner, pod := lost()
		pod.Status.ContainerStatuses[0].State.Terminated.Message = message
		if got, had := watch.JobOf("c", runner, pod); !had || got.PeakMemoryBytes != nil {
			t.Errorf("%s gives a peak memory of %d", message, *got.PeakMemoryBytes)
		}
	}
}

func TestARunnerWithoutAJobHasNoRow(t *testing.T) {
	if _, had := watch.JobOf("c", &v1alpha1.EphemeralRunner{}, nil); had {
		t.Error("it has one")
	}
}

func TestASampleHasWhatLimitsASet(t *testing.T) {
	yes, no := metav1.ConditionTrue, metav1.ConditionFalse
	set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{Name: "linux", Namespace: "team-a"}}
	set.Status.BusyRunners, set.Status.IdleRunners, set.Status.AssignedJobs = 3, 1, 5
	set.Status.EffectiveMaxRunners = new(10)
	set.Status.Conditions = []metav1.Condition{
		{Type: v1alpha1.ConditionReady, Status: yes, Reason: "Ready"},
	}
	set.Status.LimitedBy = &v1alpha1.Limit{Kind: "Nodes", Reason: "Unschedulable"}
	want := ledger.Sample{
		Cluster: "c", Namespace: "team-a", Set: "linux", At: noon, Running: 3, Idle: 1, Waiting: 2,
		EffectiveMax:  new(int64(10)),
		LimitedReason: "Unschedulable",
	}
	if diff := cmp.Diff(want, watch.SampleOf("c", set, noon.Add(59*time.Second))); diff != "" {
		t.Errorf("the sample (-want +got):\n%s", diff)
	}
	set.Status.Conditions[0].Status, set.Status.Conditions[0].Reason = no, "CredentialsInvalid"
	if got := watch.SampleOf("c", set, noon).LimitedReason; got != "CredentialsInvalid" {
		t.Errorf("a set that isn't ready shows as %q", got)
	}
}

// TestARowHasWhatIsRequestedBesides: the GPUs of the runner's pod and the most of the job's pods, and no huge pages.
func TestARowHasWhatIsRequestedBesides(t *testing.T) {
	runner, pod := lost()
	request := func(name, number string) corev1.Container {
		return corev1.Container{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceName(name): resource.MustParse(number)}}}
	}
	pod.Spec.Containers = append(pod.Spec.Containers, request("nvidia.com/gpu", "1"), request("hugepages-2Mi", "4Mi"))
	job, _ := watch.JobOf("c", runner, pod)
	if job.ExtendedResources != "nvidia.com/gpu=1" {
		t.Errorf("without pods of its own it is %q", job.ExtendedResources)
	}
	var own corev1.Pod
	own.Spec.Containers = []corev1.Container{request("nvidia.com/gpu", "2"), request("example.com/fpga", "1")}
	if job, _ = watch.JobOf("c", runner, pod, own, corev1.Pod{}); job.ExtendedResources != "nvidia.com/gpu=1" {
		t.Errorf("with one that waits it is %q", job.ExtendedResources)
	}
	own.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	if job, _ = watch.JobOf("c", runner, pod, own, corev1.Pod{}); job.ExtendedResources != "example.com/fpga=1,nvidia.com/gpu=3" {
		t.Errorf("with one it is %q", job.ExtendedResources)
	}
}
