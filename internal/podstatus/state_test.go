package podstatus_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/internal/podstatus"
	"github.com/harrier-ci/harrier/internal/testkube/runnerpods"
)

// Pods and their states, as the tests name them.
var (
	noon, running                   = runnerpods.Noon, runnerpods.Running
	podWith, deletedAt, unscheduled = runnerpods.With, runnerpods.DeletedAt, runnerpods.Unscheduled
	exited, unstarted, waitingFor   = runnerpods.Exited, runnerpods.Unstarted, runnerpods.WaitingFor
	initWaits                       = runnerpods.InitWaits
)

var (
	noStatus = func(p *corev1.Pod) { p.Status.ContainerStatuses = nil }
	evicted  = func(p *corev1.Pod) { p.Status.Reason, p.Status.Message = "Evicted", "no memory" }
	deadline = func(p *corev1.Pod) { p.Status.Reason, p.Status.Message = "DeadlineExceeded", "6 h" }
)

// grace sets a pod's grace period, in seconds: so long before its deletionTimestamp it was deleted.
func grace(seconds int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = new(seconds) }
}

// disrupted sets who has ended the pod.
func disrupted(reason string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
			Reason: reason, Message: "why"}}
	}
}

// failedInit adds an init container that failed; with restart it is a sidecar, which the kubelet restarts.
func failedInit(restart *corev1.ContainerRestartPolicy, rules ...corev1.ContainerRestartRule) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{Name: "init", RestartPolicy: restart, RestartPolicyRules: rules}}
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "init", State: exited(1, "Error")}}
	}
}

var anyRule = corev1.ContainerRestartRule{Action: corev1.ContainerRestartRuleActionRestart}

func TestOutcomeOf(t *testing.T) {
	for title, test := range map[string]struct {
		pod    *corev1.Pod
		want   podstatus.Phase
		reason string
	}{
		"no pod":                             {nil, podstatus.Missing, ""},
		"pod without statuses":               {podWith(corev1.PodPending, running, noStatus), podstatus.Pending, "Pending"},
		"unschedulable":                      {podWith(corev1.PodPending, corev1.ContainerState{}, noStatus, unscheduled), podstatus.Pending, "Unschedulable"},
		"being created":                      {podWith(corev1.PodPending, waitingFor("ContainerCreating")), podstatus.Pending, "ContainerCreating"},
		"first failure to pull":              {podWith(corev1.PodPending, waitingFor("ErrImagePull")), podstatus.Pending, "ErrImagePull"},
		"image can't be pulled":              {podWith(corev1.PodPending, waitingFor("ImagePullBackOff")), podstatus.Blocked, "ImagePullBackOff"},
		"container can't be configured":      {podWith(corev1.PodPending, waitingFor("CreateContainerConfigError")), podstatus.Blocked, "CreateContainerConfigError"},
		"runs":                               {podWith(corev1.PodRunning, running), podstatus.Running, ""},
		"runs, its node says no more":        {podWith(corev1.PodRunning, corev1.ContainerState{}, noStatus), podstatus.Running, ""},
		"runs, without a state":              {podWith(corev1.PodRunning, corev1.ContainerState{}), podstatus.Running, ""},
		"waits while a sidecar runs":         {podWith(corev1.PodRunning, waitingFor("ContainerCreating")), podstatus.Pending, "ContainerCreating"},
		"waits to start again":               {podWith(corev1.PodRunning, waitingFor("CrashLoopBackOff")), podstatus.Pending, "CrashLoopBackOff"},
		"exit 0":                             {podWith(corev1.PodSucceeded, exited(0, "Completed")), podstatus.Succeeded, ""},
		"exit 0 though the pod failed":       {podWith(corev1.PodFailed, exited(0, "Completed")), podstatus.Succeeded, ""},
		"exit 0 after an eviction":           {podWith(corev1.PodSucceeded, exited(0, "Completed"), disrupted("EvictionByEvictionAPI")), podstatus.Succeeded, "EvictionByEvictionAPI"},
		"exit 0 after the pod was deleted":   {podWith(corev1.PodRunning, exited(0, "Completed"), deletedAt(noon.Add(90*time.Second)), grace(30)), podstatus.Succeeded, ""},
		"exit 0 before the pod was deleted":  {podWith(corev1.PodRunning, exited(0, "Completed"), deletedAt(noon.Add(91*time.Second)), grace(30)), podstatus.Succeeded, ""},
		"exit 0 while a sidecar runs":        {podWith(corev1.PodRunning, exited(0, "Completed")), podstatus.Succeeded, ""},
		"exit 7":                             {podWith(corev1.PodFailed, exited(7, "Error")), podstatus.Failed, "Error"},
		"exit 7 without a time of start":     {podWith(corev1.PodFailed, unstarted(7, "", time.Time{})), podstatus.Failed, "PodFailed"},
		"exit 1 without a time of start":     {podWith(corev1.PodFailed, unstarted(1, "Error", time.Time{})), podstatus.Failed, "Error"},
		"code without a reason or time":      {podWith(corev1.PodFailed, unstarted(1, "", time.Time{})), podstatus.Failed, "PodFailed"},
		"out of memory without a time":       {podWith(corev1.PodFailed, unstarted(137, "OOMKilled", time.Time{})), podstatus.Failed, "OOMKilled"},
		"forgotten by containerd":            {podWith(corev1.PodFailed, unstarted(255, "Unknown", time.Unix(0, 0))), podstatus.Failed, "Unknown"},
		"exit 1":                             {podWith(corev1.PodFailed, exited(1, "Error")), podstatus.Failed, "Error"},
		"out of memory":                      {podWith(corev1.PodFailed, exited(137, "OOMKilled")), podstatus.Failed, "OOMKilled"},
		"evicted while it ran":               {podWith(corev1.PodFailed, exited(137, "Error"), evicted), podstatus.Failed, "Evicted"},
		"evicted, statuses still running":    {podWith(corev1.PodFailed, running, evicted), podstatus.Failed, "Evicted"},
		"past its deadline":                  {podWith(corev1.PodFailed, exited(143, "Error"), deadline), podstatus.Failed, "DeadlineExceeded"},
		"evicted before it started":          {podWith(corev1.PodFailed, corev1.ContainerState{}, noStatus, evicted), podstatus.NeverStarted, "Evicted"},
		"evicted by request while it ran":    {podWith(corev1.PodFailed, exited(143, "Error"), disrupted("EvictionByEvictionAPI")), podstatus.Failed, "EvictionByEvictionAPI"},
		"preempted before it started":        {podWith(corev1.PodFailed, waitingFor("ContainerCreating"), disrupted("PreemptionByScheduler")), podstatus.NeverStarted, "PreemptionByScheduler"},
		"node gone, last heard of starting":  {podWith(corev1.PodFailed, waitingFor("ContainerCreating"), disrupted("DeletionByPodGC")), podstatus.Failed, "DeletionByPodGC"},
		"runtime can't start it":             {podWith(corev1.PodFailed, unstarted(128, "StartError", time.Unix(0, 0))), podstatus.NeverStarted, "StartError"},
		"ended without a time of start":      {podWith(corev1.PodFailed, unstarted(127, "ContainerCannotRun", time.Time{})), podstatus.NeverStarted, "ContainerCannotRun"},
		"ran, the kubelet lost it":           {podWith(corev1.PodFailed, unstarted(137, "ContainerStatusUnknown", time.Time{})), podstatus.Failed, "ContainerStatusUnknown"},
		"init container failed":              {podWith(corev1.PodPending, waitingFor("PodInitializing"), failedInit(nil)), podstatus.NeverStarted, "InitContainerFailed"},
		"init container has rules":           {podWith(corev1.PodPending, waitingFor("PodInitializing"), failedInit(new(corev1.ContainerRestartPolicyNever), anyRule)), podstatus.Pending, "PodInitializing"},
		"init container starts again":        {podWith(corev1.PodPending, waitingFor("PodInitializing"), failedInit(new(corev1.ContainerRestartPolicyOnFailure))), podstatus.Pending, "PodInitializing"},
		"init container starts once":         {podWith(corev1.PodPending, waitingFor("PodInitializing"), failedInit(new(corev1.ContainerRestartPolicyNever))), podstatus.NeverStarted, "InitContainerFailed"},
		"native sidecar can't be pulled":     {podWith(corev1.PodPending, waitingFor("PodInitializing"), initWaits("ImagePullBackOff")), podstatus.Blocked, "ImagePullBackOff"},
		"native sidecar can't be configured": {podWith(corev1.PodPending, waitingFor("PodInitializing"), initWaits("CreateContainerConfigError")), podstatus.Blocked, "CreateContainerConfigError"},
		"native sidecar crashes":             {podWith(corev1.PodPending, waitingFor("PodInitializing"), initWaits("CrashLoopBackOff")), podstatus.Pending, "CrashLoopBackOff"},
		"native sidecar, runner goes on":     {podWith(corev1.PodRunning, running, initWaits("ImagePullBackOff")), podstatus.Running, ""},
		"native sidecar starts again":        {podWith(corev1.PodPending, waitingFor("PodInitializing"), failedInit(new(corev1.ContainerRestartPolicyAlways))), podstatus.Pending, "PodInitializing"},
		"being deleted":                      {podWith(corev1.PodRunning, running, deletedAt(noon.Add(-podstatus.StuckTimeout+time.Second))), podstatus.Running, ""},
		"node lost":                          {podWith(corev1.PodRunning, running, deletedAt(noon.Add(-podstatus.StuckTimeout))), podstatus.Failed, "NodeLost"},
		"node lost, which said no more":      {podWith(corev1.PodRunning, corev1.ContainerState{}, noStatus, deletedAt(noon.Add(-podstatus.StuckTimeout))), podstatus.Failed, "NodeLost"},
		"node lost before it started":        {podWith(corev1.PodPending, waitingFor("ContainerCreating"), deletedAt(noon.Add(-podstatus.StuckTimeout))), podstatus.Failed, "NodeLost"},
		"sidecar has failed, runner goes on": {podWith(corev1.PodRunning, running, func(p *corev1.Pod) { p.Status.ContainerStatuses[1].State = exited(1, "Error") }), podstatus.Running, ""},
	} {
		t.Run(title, func(t *testing.T) {
			got := podstatus.Of(test.pod, "runner", noon)
			if got.Phase != test.want || got.Reason != test.reason {
				t.Errorf("state %d, reason %q, want %d, %q", got.Phase, got.Reason, test.want, test.reason)
			}
		})
	}
}

func TestDeadSidecarIsFound(t *testing.T) {
	last := corev1.ContainerStatus{Name: "dind", State: running, LastTerminationState: exited(137, "OOMKilled")}
	for title, test := range map[string]struct {
		change func(*corev1.PodStatus)
		want   bool
	}{
		"nobody died":                 {func(*corev1.PodStatus) {}, false},
		"a sidecar ran out of memory": {func(s *corev1.PodStatus) { s.ContainerStatuses[1].State = exited(137, "OOMKilled") }, true},
		"a sidecar has finished":      {func(s *corev1.PodStatus) { s.ContainerStatuses[1].State = exited(0, "Completed") }, false},
		"an init container has finished": {func(s *corev1.PodStatus) {
			s.InitContainerStatuses = []corev1.ContainerStatus{{Name: "init", State: exited(0, "")}}
		}, false},
		"a native one was started again": {func(s *corev1.PodStatus) { s.InitContainerStatuses = []corev1.ContainerStatus{last} }, true},
	} {
		pod := podWith(corev1.PodRunning, running)
		test.change(&pod.Status)
		if got := podstatus.Of(pod, "runner", noon); got.Phase != podstatus.Running || (got.Sidecar != "") != test.want {
			t.Errorf("%s: found %q, state %d", title, got.Sidecar, got.Phase)
		}
	}
}

func TestAnInitContainersOwnMessageIsReportedAlone(t *testing.T) {
	pod := podWith(corev1.PodPending, waitingFor("PodInitializing"), failedInit(nil))
	if got, want := podstatus.Of(pod, "runner",
		noon).Message, "init container init exited with code 1: Error"; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
	pod.Status.InitContainerStatuses[0].State.Terminated.Message = "no space left"
	if got, want := podstatus.Of(pod, "runner",
		noon).Message, "init container init exited with code 1: no space left"; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
}

// The API server says only that there are gates; each has somebody who removes it.
func TestSchedulingGatesAreNamed(t *testing.T) {
	gated := func(names ...string) *corev1.Pod {
		p := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "SchedulingGated",
			Message: "Scheduling is blocked due to non-empty scheduling gates"}}}}
		for _, name := range names {
			p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: name})
		}
		return p
	}
	for _, test := range []struct {
		pod  *corev1.Pod
		says string
	}{
		{gated("kueue.x-k8s.io/admission"), "gate kueue.x-k8s.io/admission"},
		{gated("a", "b"), "gate a, b"},
		{gated("a", "b", "c", "d", "e"), "gate a, b, c, 2 more"},
		{gated(), "non-empty scheduling gates"},
	} {
		state := podstatus.Of(test.pod, "runner", noon)
		reason, message := podstatus.WhyUnable(test.pod)
		if state.Phase != podstatus.Pending || state.Reason != "SchedulingGated" || reason != state.Reason ||
			message != state.Message || !strings.Contains(message, test.says) {
			t.Errorf("%+v and %s: %s, want SchedulingGated and %q", state, reason, message, test.says)
		}
	}
}

// A pod whose claim has no volume waits for no node, whatever the scheduler calls it.
func TestUnboundVolumesAreTold(t *testing.T) {
	for message, want := range map[string]string{
		"0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. preemption: 0/3 nodes are available: 3 " +
			"Preemption is not helpful for scheduling.": "VolumeUnbound",
		`0/3 nodes are available: waiting for ephemeral volume controller to create the persistentvolumeclaim "r-work".`: "VolumeUnbound",
		"0/3 nodes are available: 3 Insufficient cpu.":                                                                   "Unschedulable",
		"0/3 nodes are available: 3 node(s) had volume node affinity conflict.":                                          "Unschedulable",
	} {
		pod := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: message}}}}
		if reason, told := podstatus.WhyUnable(pod); reason != want || told != message {
			t.Errorf("%s: %s, %s", message, reason, told)
		}
	}
}

// A Docker daemon that can't start says why in the last line of its log, which the kubelet keeps; no more than a line of
// it is passed on, and not without end.
func TestLastWordsOfAContainerThatCrashes(t *testing.T) {
	for title, test := range map[string]struct{ said, want string }{
		"nothing":     {"", "; it last ended with code 1"},
		"its log":     {"starting\nfailed to start daemon: iptables: nf_tables: not found\n\n", "; it last ended with code 1: failed to start daemon: iptables: nf_tables: not found"},
		"without end": {strings.Repeat("x", 5000), "; it last ended with code 1: " + strings.Repeat("x", 300)},
	} {
		pod := podWith(corev1.PodPending, waitingFor("PodInitializing"), initWaits("CrashLoopBackOff"))
		pod.Status.InitContainerStatuses[1].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
			ExitCode: 1, Message: test.said}
		got := podstatus.Of(pod, "runner", time.Now()).Message
		if want := "init container dind: why" + test.want; got != want {
			t.Errorf("%s: %q, want %q", title, got, want)
		}
	}
}
