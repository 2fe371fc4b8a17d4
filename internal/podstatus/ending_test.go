package podstatus

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

var noon = time.Date(2000, 1, 1, 12, 0, 0, 0, time.UTC)

type change func(*corev1.Pod)

// pod returns a pod whose containers run.
func pod(changes ...change) *corev1.Pod {
	p := &corev1.Pod{
		Spec: corev1.PodSpec{NodeName: "worker-3"},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{
				{Name: "runner", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
				{Name: "log-shipper", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
			},
			InitContainerStatuses: []corev1.ContainerStatus{{Name: "dind",
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
		},
	}
	for _, c := range changes {
		c(p)
	}
	return p
}

func target(reason string) change { return targetAt(reason, noon) }

func targetAt(reason string, at time.Time) change {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.NewTime(at),
		})
	}
}

// says sets a condition that is no DisruptionTarget.
func says(about corev1.PodConditionType, status corev1.ConditionStatus, reason, message string) change {
	return func(p *corev1.Pod) {
		p.Status.Conditions = slices.DeleteFunc(p.Status.Conditions,
			func(c corev1.PodCondition) bool { return c.Type == about })
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: about, Status: status, Reason: reason,
			Message: message, LastTransitionTime: metav1.NewTime(noon)})
	}
}

func unready(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }

// deleted has the deletion begin at noon.
func deleted(p *corev1.Pod) {
	grace := int64(30)
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: noon.Add(30 * time.Second)}, &grace
}

func failedFor(reason string) change {
	return func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = corev1.PodFailed, reason }
}

func exit(code int32, reason string, at time.Time) change {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: code, Reason: reason, FinishedAt: metav1.NewTime(at),
		}}
	}
}

func dindKilled(p *corev1.Pod) {
	p.Status.InitContainerStatuses[0].LastTerminationState = corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}}
}

func hasDeadline(p *corev1.Pod) {
	seconds := int64(60)
	p.Spec.ActiveDeadlineSeconds, p.Status.StartTime = &seconds, &metav1.Time{Time: noon.Add(-time.Minute)}
}

func noStatus(p *corev1.Pod) { p.Status.ContainerStatuses = nil }

func TestEndingOf(t *testing.T) {
	before, after := noon.Add(-time.Second), noon.Add(10*time.Second)
	for name, test := range map[string]struct {
		pod     *corev1.Pod
		seen    Seen
		want    v1alpha1.LostCause
		outside bool
		says    string
	}{
		"runs":                             {pod: pod()},
		"exited with 0":                    {pod: pod(exit(0, "Completed", after))},
		"evicted":                          {pod: pod(target("EvictionByEvictionAPI")), want: "Evicted", outside: true, says: "worker-3"},
		"evicted, killed":                  {pod: pod(target("EvictionByEvictionAPI"), deleted, exit(137, "Error", after)), want: "Evicted", outside: true},
		"evicted, exited with 0":           {pod: pod(target("EvictionByEvictionAPI"), deleted, exit(0, "Completed", after)), want: "Evicted", outside: true},
		"evicted after it exited with 0":   {pod: pod(target("EvictionByEvictionAPI"), deleted, exit(0, "Completed", before))},
		"deleted after it exited with 0":   {pod: pod(deleted, exit(0, "Completed", before))},
		"deleted in the same second":       {pod: pod(deleted, exit(0, "Completed", noon)), want: "PodDeleted", outside: true},
		"preempted":                        {pod: pod(target("PreemptionByScheduler")), want: "Preempted", outside: true},
		"preempted by its kubelet":         {pod: pod(target("TerminationByKubelet"), failedFor("Preempting"), exit(137, "Error", before)), want: "Preempted", outside: true},
		"tainted, node silent":             {pod: pod(unready, target("DeletionByTaintManager"), deleted), want: "NodeLost", outside: true},
		"tainted, node answers":            {pod: pod(target("DeletionByTaintManager"), deleted), want: "Evicted", outside: true, says: "taint"},
		"node removed":                     {pod: pod(target("DeletionByPodGC"), failedFor("")), want: "NodeLost", outside: true},
		"out of disk":                      {pod: pod(target("TerminationByKubelet"), failedFor("Evicted"), exit(137, "Error", before)), want: "Evicted", outside: true},
		"out of disk, no condition":        {pod: pod(failedFor("Evicted"), noStatus), want: "Evicted", outside: true},
		"kubelet, nothing more yet":        {pod: pod(target("TerminationByKubelet")), want: "Evicted", outside: true},
		"node shuts down":                  {pod: pod(target("TerminationByKubelet"), failedFor("Terminated"), exit(143, "Error", after)), want: "NodeLost", outside: true},
		"node lost":                        {pod: pod(failedFor("NodeLost")), want: "NodeLost", outside: true},
		"deletion hangs":                   {pod: pod(deleted), seen: Seen{NodeSilent: true}, want: "NodeLost", outside: true},
		"deleted by hand":                  {pod: pod(deleted), want: "PodDeleted", outside: true},
		"deleted on a node that goes":      {pod: pod(deleted), seen: Seen{Departure: "is cordoned"}, want: "Evicted", outside: true, says: "is cordoned"},
		"deleted by us on such a node":     {pod: pod(deleted), seen: Seen{DeletedByUs: true, Departure: "is cordoned"}},
		"deleted by us":                    {pod: pod(deleted), seen: Seen{DeletedByUs: true}},
		"deleted by us, exited with 1":     {pod: pod(deleted, exit(1, "Error", after)), seen: Seen{DeletedByUs: true}, want: "ContainerFailed"},
		"out of memory":                    {pod: pod(exit(137, "OOMKilled", after)), want: "OOMKilled", says: "runner"},
		"out of memory, then deleted":      {pod: pod(exit(137, "OOMKilled", before), deleted), want: "OOMKilled"},
		"Docker out of memory":             {pod: pod(exit(1, "Error", after), dindKilled), want: "OOMKilled", says: "dind"},
		"Docker out of memory, works on":   {pod: pod(dindKilled)},
		"Docker out of memory, ended":      {pod: pod(dindKilled, exit(0, "Completed", after))},
		"failed":                           {pod: pod(exit(2, "Error", after)), want: "ContainerFailed", says: "code 2"},
		"failed, then deleted":             {pod: pod(exit(2, "Error", before), deleted), want: "ContainerFailed"},
		"deadline":                         {pod: pod(hasDeadline, failedFor("DeadlineExceeded"), exit(0, "Completed", after)), want: "ContainerFailed", outside: true},
		"deadline after a good end":        {pod: pod(hasDeadline, failedFor("DeadlineExceeded"), exit(0, "Completed", before))},
		"lost by its kubelet":              {pod: pod(exit(137, "ContainerStatusUnknown", time.Time{}), failedFor("")), want: "Unknown"},
		"failed, nothing known":            {pod: pod(failedFor(""), noStatus), want: "Unknown"},
		"eviction withdrawn":               {pod: pod(target("EvictionByEvictionAPI"), func(p *corev1.Pod) { p.Status.Conditions[1].Status = corev1.ConditionFalse })},
		"Kueue preempts":                   {pod: pod(says("TerminationTarget", "True", "WorkloadEvictedDueToPreempted", "a higher priority Workload"), deleted, exit(143, "Error", after)), want: "Preempted", outside: true, says: "a higher priority Workload"},
		"Kueue 0.7 preempts":               {pod: pod(says("TerminationTarget", "True", "StoppedByKueue", "Preempted"), deleted, exit(143, "Error", after)), want: "Preempted", outside: true, says: "Kueue"},
		"Kueue, not deleted yet":           {pod: pod(says("TerminationTarget", "True", "StoppedByKueue", "Preempted")), want: "Preempted", outside: true},
		"Kueue, the node failed":           {pod: pod(says("TerminationTarget", "True", "WorkloadEvictedDueToNodeFailures", ""), deleted), want: "NodeLost", outside: true},
		"Kueue stops a queue":              {pod: pod(says("TerminationTarget", "True", "WorkloadEvictedDueToClusterQueueStopped", ""), deleted), want: "Evicted", outside: true, says: "QueueStopped"},
		"Kueue took it back":               {pod: pod(says("TerminationTarget", "False", "StoppedByKueue", ""))},
		"Volcano preempts":                 {pod: pod(says("Ready", "False", "Evict", "because of preempt"), deleted), want: "Preempted", outside: true, says: "because of preempt"},
		"not ready by itself, deleted":     {pod: pod(says("Ready", "False", "ContainersNotReady", ""), deleted), want: "PodDeleted", outside: true},
		"disruption of a kind yet to come": {pod: pod(target("DisruptionBySomethingNew")), want: "Evicted", outside: true, says: "SomethingNew"},
	} {
		got := EndingOf(test.pod, "runner", test.seen)
		if got.Cause != test.want || got.Outside != test.outside || !strings.Contains(got.Message, test.says) {
			t.Errorf("%s: %+v, want %q, outside %t, a message with %q", name, got, test.want, test.outside, test.says)
		}
	}
}

// What came from outside is dated by its first sign: a result that GitHub had before that came from the job itself.
func TestEndingIsDatedByItsFirstSign(t *testing.T) {
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want time.Time
	}{
		"deletion":                {pod(deleted), noon},
		"condition before":        {pod(deleted, targetAt("EvictionByEvictionAPI", noon.Add(-2*time.Second))), noon.Add(-2 * time.Second)},
		"Kueue's condition":       {pod(deleted, says("TerminationTarget", "True", "StoppedByKueue", "")), noon},
		"condition after":         {pod(deleted, targetAt("EvictionByEvictionAPI", noon.Add(2*time.Second))), noon},
		"deadline":                {pod(hasDeadline, failedFor("DeadlineExceeded")), noon},
		"evicted, nobody says so": {pod(failedFor("Evicted")), time.Time{}},
	} {
		if got := EndingOf(test.pod, "runner", Seen{}).At; !got.Equal(test.want) {
			t.Errorf("%s: at %s, want %s", name, got, test.want)
		}
	}
}

func TestOnlyADeletionIsExplainedLater(t *testing.T) {
	evicted := EndingOf(pod(target("EvictionByEvictionAPI"), deleted), "runner", Seen{})
	hangs := EndingOf(pod(deleted), "runner", Seen{NodeSilent: true})
	byHand := EndingOf(pod(deleted), "runner", Seen{})
	failed := EndingOf(pod(exit(1, "Error", noon)), "runner", Seen{})
	for name, test := range map[string]struct {
		now, first Ending
		want       bool
	}{
		"first": {byHand, Ending{}, true}, "nothing": {Ending{}, Ending{}, false}, "node lost after a deletion": {hangs, byHand, true},
		"deleted after an eviction": {byHand, evicted, false}, "node lost after an eviction": {hangs, evicted, false},
		"failed after a deletion": {failed, byHand, false}, "deleted after a failure": {byHand, failed, false},
	} {
		if got := test.now.Clearer(test.first); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
