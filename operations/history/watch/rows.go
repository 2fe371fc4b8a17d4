// Package watch makes rows of the ledger out of the cluster's objects: a job out of a runner and its pod, a sample out
// of a scale set. It follows the state and not its changes: whatever still exists after a restart or an outage is
// written as it is. It writes to nothing but the ledger.
package watch

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/phases"
	"github.com/harrier-ci/harrier/internal/podstatus"
	"github.com/harrier-ci/harrier/operations/history/ledger"
)

// JobOf returns the job of a runner, with the facts that the runner has and, if there is one, its pod, and what the pods
// request in which container hooks run the job. It returns false for a runner that has had no job.
func JobOf(cluster string, runner *v1alpha1.EphemeralRunner, pod *corev1.Pod, jobPods ...corev1.Pod) (ledger.Job, bool) {
	status := &runner.Status
	if !status.HadJob() {
		return ledger.Job{}, false
	}
	if pod != nil && !metav1.IsControlledBy(pod, runner) {
		pod = nil // anybody may create a pod of that name
	}
	workflow, ref, _ := strings.Cut(status.JobWorkflowRef, "@")
	job := ledger.Job{
		RunnerUID: string(runner.UID), Cluster: cluster, Namespace: runner.Namespace, Set: kube.ScaleSetOf(runner).Name,
		Runner: runner.Name, At: runner.CreationTimestamp.UTC(),
		Repository: status.JobRepositoryName, Workflow: workflow, Ref: ref, Name: status.JobDisplayName,
		RunID: known(status.WorkflowRunID), JobID: status.JobID, Event: status.Event,
		Result: status.JobResult, LostCause: string(status.LostCause), Finished: utc(phases.Finished(status)),
	}
	if rerun := status.Rerun; rerun != nil {
		job.Rerun, job.RerunReason = string(rerun.State), string(rerun.Reason)
		if rerun.State == v1alpha1.RerunDone {
			job.RerunAttempt = known(int64(rerun.Attempt))
		} else {
			job.Attempt = known(int64(rerun.Attempt))
		}
	}
	if job.JobNumber = known(status.JobNumber); job.JobNumber != nil && status.JobAttempt > 0 {
		job.Attempt = known(int64(status.JobAttempt))
	}
	if p := phases.Of(runner, pod); p != nil {
		job.Queued, job.Assigned, job.Registered = utc(p.Queued), utc(p.Assigned), utc(p.Registered)
		job.Placed, job.ImagePulled, job.ContainerUp = utc(p.Placed), utc(p.ImagePulled), utc(p.ContainerUp)
		job.Started = utc(p.Started)
	}
	job.Created = runner.CreationTimestamp.UTC()
	if !job.Started.IsZero() {
		job.At = job.Started
	}
	if pod != nil {
		addPod(&job, pod, jobPods)
	}
	return job, true
}

func known(number int64) *int64 {
	if number <= 0 {
		return nil
	}
	return &number
}

func utc(at *metav1.Time) time.Time {
	if at == nil {
		return time.Time{}
	}
	return at.UTC()
}

// addPod adds what only the pod knows, with what the largest of the job's other pods requests: one is there from the start
// to the end, and others for a step.
func addPod(job *ledger.Job, pod *corev1.Pod, jobPods []corev1.Pod) {
	job.Node = pod.Spec.NodeName
	if requested := together(pod, jobPods, corev1.ResourceCPU); !requested.IsZero() {
		job.CPURequestMillis = new(requested.MilliValue())
	}
	if requested := together(pod, jobPods, corev1.ResourceMemory); !requested.IsZero() {
		job.MemoryRequestBytes = new(requested.Value())
	}
	job.ExtendedResources = extendedResources(pod, jobPods)
	job.Elsewhere = elsewhere(&pod.Spec)
	status := kube.ContainerStatus(pod, v1alpha1.RunnerContainerName)
	if status == nil {
		return
	}
	for _, state := range []corev1.ContainerState{status.State, status.LastTerminationState} {
		if state.Terminated == nil {
			continue
		}
		if usage, _ := podstatus.UsageIn(state.Terminated.Message); usage != nil {
			job.PeakMemoryBytes, job.MemoryLimitBytes, job.OOMKills = usage.PeakMemoryBytes, usage.MemoryLimitBytes,
				usage.OOMKills
			job.CPUMicroseconds, job.CPUPeriods, job.ThrottledPeriods = usage.CPUMicroseconds, usage.CPUPeriods,
				usage.ThrottledPeriods
			return
		}
	}
}

// together returns what a pod requests of a resource, with the most that one of the job's other pods requests.
func together(pod *corev1.Pod, jobPods []corev1.Pod, of corev1.ResourceName) resource.Quantity {
	var largest resource.Quantity
	for i := range jobPods {
		if requested := requests(&jobPods[i].Spec, of); requested.Cmp(largest) > 0 {
			largest = requested
		}
	}
	largest.Add(requests(&pod.Spec, of))
	return largest
}

// Of the runner container's environment, by their names.
const envDocker = "DOCKER_HOST"

// dind is the container of the chart's containerMode dind.
const dind = "dind"

// elsewhere returns what does a job's work besides the runner's container, which alone is measured, or why its requests
// are not those of the pod; empty if nothing does.
func elsewhere(spec *corev1.PodSpec) string {
	var own corev1.Container
	docker := false
	for _, container := range slices.Concat(spec.InitContainers, spec.Containers) {
		docker = docker || container.Name == dind
		if container.Name == v1alpha1.RunnerContainerName {
			own = container
		}
	}
	has := func(name string) bool {
		return slices.ContainsFunc(own.Env, func(variable corev1.EnvVar) bool { return variable.Name == name })
	}
	same := func(of corev1.ResourceName) bool {
		requested := requests(spec, of)
		return requested.Cmp(own.Resources.Requests[of]) == 0
	}
	switch {
	case has(kube.EnvContainerHooks):
		return ledger.ElsewherePods
	case docker, has(envDocker):
		return ledger.ElsewhereDocker
	case !same(corev1.ResourceCPU), !same(corev1.ResourceMemory):
		return ledger.ElsewhereContainers
	}
	return ""
}

// requests returns the requests that the scheduler counts: those of all containers together, with init containers that
// keep running; or those of another init container if they are larger.
func requests(spec *corev1.PodSpec, of corev1.ResourceName) resource.Quantity {
	var together, before resource.Quantity
	for i := range spec.Containers {
		together.Add(spec.Containers[i].Resources.Requests[of])
	}
	for i := range spec.InitContainers {
		init := &spec.InitContainers[i]
		if init.RestartPolicy != nil && *init.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			together.Add(init.Resources.Requests[of])
		} else if alone := init.Resources.Requests[of]; alone.Cmp(before) > 0 {
			before = alone
		}
	}
	if before.Cmp(together) > 0 {
		return before
	}
	return together
}

// SampleOf returns the state of a scale set.
func SampleOf(cluster string, set *v1alpha1.AutoscalingRunnerSet, now time.Time) ledger.Sample {
	status := &set.Status
	sample := ledger.Sample{
		Cluster: cluster, Namespace: set.Namespace, Set: set.Name, At: now.UTC().Truncate(time.Minute),
		Running: int64(max(0, status.BusyRunners)), Idle: int64(max(0, status.IdleRunners)),
		Waiting: int64(max(0, status.AssignedJobs-status.BusyRunners) + max(0, status.AvailableJobs)),
	}
	if status.EffectiveMaxRunners != nil {
		sample.EffectiveMax = new(int64(*status.EffectiveMaxRunners))
	}
	if ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady); ready != nil &&
		ready.Status == metav1.ConditionFalse {
		sample.LimitedReason = ready.Reason
	}
	if status.LimitedBy != nil && sample.LimitedReason == "" {
		sample.LimitedReason = status.LimitedBy.Reason
	}
	return sample
}
