// Package claims remembers what one runner may have made of the claims that it names: whether a container of its pods
// has started with them. Where keepAfter decides who gets them next, a runner of which that is so is spent
// (rules.World), and its claims wait for the report about its job (volumeclaims.Returns). That it had no job, nothing
// proves: not GitHub's answer about its registration, nor that no report has come.
package claims

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/podstatus"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

// Memory is the memory of one runner's claims. The zero value is that of a new runner.
type Memory struct {
	// started is set when one of the runner's pods was seen to have started its container, or has gone without a sign
	// of whether it had. It is never forgotten: all pods of the runner have the same claims.
	started bool
	// EndedAt is the time at which the runner was first seen to be about to go. Settled is set when it is certain that
	// nobody gets a claim that must not be passed on.
	EndedAt time.Time
	Settled bool
	// UsedPercent has how full the volumes of its last pod were at the end of its job, by their names.
	UsedPercent map[string]int
}

// See remembers what the states of a runner's pod say, whichever attempt it belongs to. vanished is set if the pod is
// gone and no state tells how it was at the end.
func (m *Memory) See(vanished bool, states ...podstatus.State) {
	m.started = m.started || vanished
	for _, state := range states {
		m.started = m.started || state.Started()
	}
}

// Fill remembers how full the volumes of a pod, nil if there is none, were at its end.
func (m *Memory) Fill(pod *corev1.Pod) {
	if pod == nil {
		return
	}
	if used := volumeclaims.UsedPercent(pod); used != nil {
		m.UsedPercent = used
	}
}

// Facts are what besides is known of a runner.
type Facts struct {
	Status *v1alpha1.EphemeralRunnerStatus
	// Hinted is set if a pod was created, or may have been, and has not been seen, or if GitHub has spoken of a job.
	Hinted bool
	// Inherited is set if another manager may have launched the runner, and this one has neither done that nor seen a pod.
	Inherited bool
}

// Used reports whether a container of one of the runner's pods has started, or may have under another manager, which
// died before it wrote that: there is no pod, and the status doesn't say that the runner waits.
func (m *Memory) Used(f Facts) bool {
	return m.started ||
		(f.Inherited && !meta.IsStatusConditionFalse(f.Status.Conditions, v1alpha1.ConditionPodStarted))
}

// MayHaveRun reports the same of a runner that goes, or whose attempt has ended: what nobody can have seen counts as if
// it had started.
func (m *Memory) MayHaveRun(f Facts) bool {
	status := f.Status
	return m.Used(f) || f.Hinted || status.HadJob() || status.JobCompleted() ||
		status.Phase == v1alpha1.EphemeralRunnerPhaseRunning || (status.Done() && !volumeclaims.NeverStarted(status))
}
