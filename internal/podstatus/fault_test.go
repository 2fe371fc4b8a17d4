package podstatus

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// unstarted has the containers wait to be created, as they are until their kubelet has started them.
func unstarted(p *corev1.Pod) {
	p.Status.Phase, p.Status.Conditions[0].Status = corev1.PodPending, corev1.ConditionFalse
	for _, statuses := range [][]corev1.ContainerStatus{p.Status.ContainerStatuses, p.Status.InitContainerStatuses} {
		for i := range statuses {
			statuses[i].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
		}
	}
}

// pulls has the runner's image be one that can't be pulled.
func pulls(p *corev1.Pod) {
	unstarted(p)
	p.Status.ContainerStatuses[0].State.Waiting.Reason = "ImagePullBackOff"
}

// initFailed has an init container fail at that time.
func initFailed(at time.Time) change {
	return func(p *corev1.Pod) {
		unstarted(p)
		p.Spec.InitContainers = []corev1.Container{{Name: "dind"}}
		p.Status.InitContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: 143, Reason: "Error", FinishedAt: metav1.NewTime(at)}}
	}
}

func hasStorageLimit(p *corev1.Pod) {
	p.Spec.Containers = []corev1.Container{{Name: "runner", Resources: corev1.ResourceRequirements{
		Limits: corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("1Gi")}}}}
}

func hasVolumeLimit(p *corev1.Pod) {
	p.Spec.Volumes = []corev1.Volume{{Name: "work", VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse("1Gi"))}}}}
}

// What kubelets, schedulers, controllers, runtimes and people leave on a pod whose runner had no job, by whose fault it
// is. The time that it ran says nothing: each end is the same for a container that started this second and for one that
// ran for a day.
func TestFault(t *testing.T) {
	before, after := noon.Add(-time.Second), noon.Add(10*time.Second)
	const template, cluster, disruption = FaultTemplate, FaultCluster, FaultDisruption
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		seen Seen
		want Fault
	}{
		"preempted before its start":           {pod: pod(unstarted, target("PreemptionByScheduler"), deleted), want: disruption},
		"preempted, as older schedulers say":   {pod: pod(unstarted, target("PreemptionByKubeScheduler"), failedFor("")), want: disruption},
		"preempted while it can't be pulled":   {pod: pod(pulls, target("PreemptionByScheduler"), deleted), want: disruption},
		"preempted while it runs":              {pod: pod(target("PreemptionByScheduler"), deleted, exit(143, "Error", after)), want: disruption},
		"made room for a critical pod":         {pod: pod(unstarted, failedFor("Preempting")), want: disruption},
		"drained before its start":             {pod: pod(unstarted, target("EvictionByEvictionAPI"), deleted), want: disruption},
		"drained, exits with 0":                {pod: pod(target("EvictionByEvictionAPI"), deleted, exit(0, "Completed", after)), want: disruption},
		"tainted, node silent":                 {pod: pod(unready, target("DeletionByTaintManager"), deleted), want: disruption},
		"tainted before its start":             {pod: pod(unstarted, target("DeletionByTaintManager"), deleted), want: disruption},
		"node removed before its start":        {pod: pod(unstarted, target("DeletionByPodGC"), failedFor("")), want: disruption},
		"node removed while it ran":            {pod: pod(target("DeletionByPodGC"), failedFor("")), want: disruption},
		"node shuts down":                      {pod: pod(target("TerminationByKubelet"), failedFor("Terminated"), exit(143, "Error", after)), want: disruption},
		"node is shutting down already":        {pod: pod(unstarted, noStatus, failedFor("NodeShutdown")), want: disruption},
		"node shut down, as older ones say":    {pod: pod(unstarted, failedFor("Shutdown")), want: disruption},
		"node lost":                            {pod: pod(failedFor("NodeLost")), want: disruption},
		"deletion hangs before its start":      {pod: pod(unstarted, deleted), seen: Seen{NodeSilent: true}, want: disruption},
		"node short of memory":                 {pod: pod(target("TerminationByKubelet"), failedFor("Evicted"), exit(137, "Error", before)), want: disruption},
		"node short of memory, no condition":   {pod: pod(failedFor("Evicted"), exit(137, "Error", before)), want: disruption},
		"node under pressure refuses it":       {pod: pod(unstarted, noStatus, hasStorageLimit, failedFor("Evicted")), want: disruption},
		"node short of disk, pod has a limit":  {pod: pod(hasStorageLimit, target("TerminationByKubelet"), failedFor("Evicted")), want: disruption},
		"deleted by hand":                      {pod: pod(deleted), want: disruption},
		"deleted before its start":             {pod: pod(unstarted, deleted), want: disruption},
		"deleted, its init container gives up": {pod: pod(initFailed(after), deleted), want: disruption},
		"lost by its kubelet":                  {pod: pod(exit(137, "ContainerStatusUnknown", time.Time{}), failedFor("")), want: disruption},
		"lost by its kubelet, was preempted":   {pod: pod(target("PreemptionByScheduler"), exit(137, "ContainerStatusUnknown", time.Time{}), failedFor("")), want: disruption},
		"lost by its runtime":                  {pod: pod(exit(255, "Unknown", time.Unix(0, 0)), failedFor("")), want: disruption},
		"disruption of a kind yet to come":     {pod: pod(unstarted, target("DisruptionBySomethingNew")), want: disruption},

		"out of processors":        {pod: pod(unstarted, noStatus, failedFor("OutOfcpu")), want: cluster},
		"out of pods":              {pod: pod(unstarted, failedFor("OutOfpods")), want: cluster},
		"out of memory to request": {pod: pod(unstarted, failedFor("OutOfmemory")), want: cluster},
		"out of GPUs":              {pod: pod(unstarted, failedFor("OutOfnvidia.com/gpu")), want: cluster},
		"device plugin fails":      {pod: pod(unstarted, failedFor("UnexpectedAdmissionError")), want: cluster},
		"no NUMA node":             {pod: pod(unstarted, failedFor("TopologyAffinityError")), want: cluster},
		"labels changed":           {pod: pod(unstarted, failedFor("NodeAffinity")), want: cluster},
		"taint came first":         {pod: pod(unstarted, failedFor("TaintToleration")), want: cluster},
		"refused, then deleted":    {pod: pod(unstarted, failedFor("OutOfcpu"), deleted), want: cluster},

		"runs":                               {pod: pod(), want: template},
		"can't be pulled":                    {pod: pod(pulls), want: template},
		"fails":                              {pod: pod(exit(2, "Error", after)), want: template},
		"exits with 0":                       {pod: pod(exit(0, "Completed", after)), want: template},
		"fails, then deleted":                {pod: pod(exit(2, "Error", before), deleted), want: template},
		"fails, then evicted":                {pod: pod(exit(2, "Error", before), target("EvictionByEvictionAPI"), deleted), want: template},
		"out of memory":                      {pod: pod(exit(137, "OOMKilled", after)), want: template},
		"out of memory, node short of it":    {pod: pod(exit(137, "OOMKilled", before), failedFor("Evicted"), target("TerminationByKubelet")), want: template},
		"Docker out of memory":               {pod: pod(exit(1, "Error", after), dindKilled), want: template},
		"can't be started":                   {pod: pod(exit(128, "StartError", after), failedFor("")), want: template},
		"init container fails":               {pod: pod(initFailed(before)), want: template},
		"init container fails, then deleted": {pod: pod(initFailed(before), deleted), want: template},
		"init container fails, pod, too":     {pod: pod(initFailed(before), failedFor("")), want: template},
		"deadline":                           {pod: pod(hasDeadline, failedFor("DeadlineExceeded"), exit(143, "Error", after)), want: template},
		"deadline before its start":          {pod: pod(unstarted, hasDeadline, failedFor("DeadlineExceeded")), want: template},
		"over its own limit":                 {pod: pod(hasStorageLimit, failedFor("Evicted"), exit(137, "Error", before)), want: template},
		"over the limit of a volume":         {pod: pod(hasVolumeLimit, failedFor("Evicted")), want: template},
		"forbidden sysctl":                   {pod: pod(unstarted, failedFor("SysctlForbidden")), want: template},
		"other operating system":             {pod: pod(unstarted, failedFor("PodOSNotSupported")), want: template},
		"failed, nothing known":              {pod: pod(unstarted, failedFor(""), noStatus), want: template},
		"deleted by us":                      {pod: pod(deleted), seen: Seen{DeletedByUs: true}, want: template},
	} {
		if got := EndingOf(test.pod, "runner", test.seen).Fault; got != test.want {
			t.Errorf("%s: fault %d, want %d", name, got, test.want)
		}
	}
}

// A container that was lost has no date, and doesn't hide what had befallen its pod before.
func TestLostContainerDoesNotHideADisruption(t *testing.T) {
	lost := pod(target("EvictionByEvictionAPI"), exit(137, "ContainerStatusUnknown", time.Time{}), failedFor(""))
	if got := EndingOf(lost, "runner", Seen{}); got.Cause != "Evicted" || !got.Outside {
		t.Errorf("%+v, want the eviction", got)
	}
}
