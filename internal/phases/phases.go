// Package phases tells the phases of a job's wait, and the time that each took. The phases are reached one after the
// other: the job is queued and assigned by GitHub; its runner is created, registered, placed on a node, has its image
// pulled and its container up; and the job is started. The package is pure: it reads times from objects that have them,
// and knows the form in which a runner's pod carries them to the job's log.
package phases

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// Names of the phases, as in status.phases, metrics and the job's log.
const (
	queued      = "queued"
	assigned    = "assigned"
	created     = "created"
	registered  = "registered"
	placed      = "placed"
	imagePulled = "imagePulled"
	containerUp = "containerUp"
	started     = "started"
)

// phase is a phase's name and the time at which it was reached, nil if that is not known.
type phase struct {
	name string
	at   **metav1.Time
}

// Reached is a phase and the time at which it was reached.
type Reached struct {
	Phase string
	At    metav1.Time
}

// All returns the phases that are known, in the order in which a runner that is created for a job reaches them.
func All(p *v1alpha1.RunnerPhases) (known []Reached) {
	if p == nil {
		return nil
	}
	for _, phase := range all(p) {
		if at := *phase.at; at != nil {
			known = append(known, Reached{phase.name, *at})
		}
	}
	return known
}

// longestWait is longer than GitHub keeps a job that waits, 24 hours on its own runners. Anybody with rights in its
// namespace may write a status, and sums of its times must not overflow.
const longestWait = 35 * 24 * time.Hour

// all returns the phases in the order in which a runner that is created for a job reaches them.
func all(p *v1alpha1.RunnerPhases) []phase {
	return []phase{
		{queued, &p.Queued}, {assigned, &p.Assigned}, {created, &p.Created}, {registered, &p.Registered},
		{placed, &p.Placed}, {imagePulled, &p.ImagePulled}, {containerUp, &p.ContainerUp}, {started, &p.Started},
	}
}

// Of returns the phases of a runner as far as they are known: those of the job from the runner's status, where the
// listener has written them, and those of the runner from its pod, or from its status if there is no pod. It returns
// nil if none is known.
func Of(runner *v1alpha1.EphemeralRunner, pod *corev1.Pod) *v1alpha1.RunnerPhases {
	known := runner.Status.Phases
	if pod == nil {
		return known
	}
	p := ofPod(pod)
	p.Created = &runner.CreationTimestamp
	if known != nil {
		p.Queued, p.Assigned, p.Started, p.Finished = known.Queued, known.Assigned, known.Started, known.Finished
	}
	return p
}

// Finished returns when a runner's job ended: by GitHub's clock or, where GitHub gave no time, when the listener heard of
// it, which is later if the listener was away. It is nil while the job goes on. A grace that must not begin before
// somebody knew of the end counts from status.finishedAt.
func Finished(status *v1alpha1.EphemeralRunnerStatus) *metav1.Time {
	if status.FinishedAt == nil || status.Phases == nil || status.Phases.Finished == nil {
		return status.FinishedAt
	}
	return status.Phases.Finished
}

// OfPod returns the phases that a pod alone tells, for whoever can't read its runner: the pod's own, and those of its
// job when it has one.
func OfPod(pod *corev1.Pod) *v1alpha1.RunnerPhases {
	written, p := parse(pod.Annotations[v1alpha1.AnnotationPhases]), ofPod(pod)
	p.Queued, p.Assigned, p.Created, p.Started = written[queued], written[assigned], written[created], written[started]
	return p
}

// ofPod returns the phases that a runner's pod tells. Nobody dates the image: it is there when the first container that
// uses it has started, and at most a second earlier. What else that container waits for, such as volumes and the pod's
// network, counts as well.
func ofPod(pod *corev1.Pod) *v1alpha1.RunnerPhases {
	p := &v1alpha1.RunnerPhases{Registered: parse(pod.Annotations[v1alpha1.AnnotationPhases])[registered]}
	if condition := kube.PodCondition(pod, corev1.PodScheduled); condition != nil &&
		condition.Status == corev1.ConditionTrue {
		p.Placed = dated(condition.LastTransitionTime)
	}
	if status := kube.ContainerStatus(pod, v1alpha1.RunnerContainerName); status != nil {
		p.ContainerUp = startOf(status)
	}
	p.ImagePulled = p.ContainerUp
	image := kube.Image(&pod.Spec, v1alpha1.RunnerContainerName)
	for i := range pod.Status.InitContainerStatuses {
		init := &pod.Status.InitContainerStatuses[i]
		if at := startOf(init); at != nil && imageOf(pod.Spec.InitContainers, init.Name) == image &&
			(p.ImagePulled == nil || at.Before(p.ImagePulled)) {
			p.ImagePulled = at
		}
	}
	return p
}

func imageOf(containers []corev1.Container, name string) string {
	for i := range containers {
		if containers[i].Name == name {
			return containers[i].Image
		}
	}
	return ""
}

// startOf returns the time at which a container started, nil if it has not or nobody knows when. containerd dates
// containers that could not start to 1970.
func startOf(status *corev1.ContainerStatus) *metav1.Time {
	switch state := status.State; {
	case state.Running != nil:
		return dated(state.Running.StartedAt)
	case state.Terminated != nil:
		return dated(state.Terminated.StartedAt)
	default:
		return nil
	}
}

func dated(at metav1.Time) *metav1.Time {
	if at.Unix() <= 0 {
		return nil
	}
	return &at
}

// Wait is the time that a job waited to reach a phase, counted from the last known phase before it.
type Wait struct {
	Phase string
	Took  time.Duration
}

// Waits returns the parts of a job's wait, nil if nobody knows when it began. Phases that the runner reached before the
// job was queued took the job no time. The clocks of GitHub, the API server and the nodes differ, so a phase that seems
// to have come too early took none either; the times add up to the whole wait.
func Waits(p *v1alpha1.RunnerPhases) (waits []Wait) {
	if p == nil || (p.Queued == nil && p.Assigned == nil) {
		return nil
	}
	var last time.Time
	for _, phase := range all(p) {
		at := *phase.at
		switch {
		case at == nil:
			continue
		case last.IsZero():
			last = at.Time
			continue
		}
		took := min(max(0, at.Sub(last)), longestWait)
		waits = append(waits, Wait{Phase: phase.name, Took: took})
		last = last.Add(took)
	}
	return waits
}

// Limited is the part of a wait during which the job's scale set was at a limit, in the place of a phase.
const Limited = "limited"

// Apart returns the parts of a wait with the time during which the scale set was at a limit as a part of its own, the
// first: so much less was waited for each phase. The sum stays as it is.
func Apart(waits []Wait, limited map[string]time.Duration) []Wait {
	apart, whole := []Wait{{Phase: Limited}}, time.Duration(0)
	for _, wait := range waits {
		part := min(max(0, limited[wait.Phase]), wait.Took)
		whole += part
		apart = append(apart, Wait{wait.Phase, wait.Took - part})
	}
	if whole == 0 {
		return waits
	}
	apart[0].Took = whole
	return apart
}

// Text returns the phases in the form of the annotation AnnotationPhases, which a shell can compute with: NAME=SECONDS
// since 1970, with spaces between them.
func Text(p *v1alpha1.RunnerPhases) string {
	var words []string
	for _, reached := range All(p) {
		if reached.At.Unix() > 0 {
			words = append(words, fmt.Sprintf("%s=%d", reached.Phase, reached.At.Unix()))
		}
	}
	return strings.Join(words, " ")
}

const (
	// maxText bounds the part of an annotation that is read, in bytes: anybody who may write pods can set one. Eight
	// phases take about 160 bytes.
	maxText = 512
	// maxSeconds is in the year 3058: what is later was not written by Text.
	maxSeconds = 1 << 35
)

// parse reads what Text has written. It leaves out whatever can't be a time.
func parse(text string) map[string]*metav1.Time {
	at := map[string]*metav1.Time{}
	for word := range strings.FieldsSeq(text[:min(len(text), maxText)]) {
		name, seconds, _ := strings.Cut(word, "=")
		if unix, err := strconv.ParseInt(seconds, 10, 64); err == nil && unix > 0 && unix < maxSeconds {
			at[name] = new(metav1.Unix(unix, 0))
		}
	}
	return at
}
