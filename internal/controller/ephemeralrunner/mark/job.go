package mark

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/apiaccess"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/launch"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/phases"
)

const (
	// A pod that outlives its job by ResultGrace is given the result as well, and its runner the phase Running if it
	// has not got it yet. Nearly every pod ends within two seconds, and a runner's budget allows one patch of its pod.
	ResultGrace = 5 * time.Second
	// After the API server has forbidden it for a while, no pod of a namespace is patched for ForbiddenBackoff: the
	// Role that allows it comes with the chart, and plain manifests may lack it. A refusal that has not lasted may pass
	// within a second, see apiaccess.MayPass, and the running jobs need their protection: then the patch is tried again
	// every forbiddenRecheckInterval.
	ForbiddenBackoff         = 10 * time.Minute
	forbiddenRecheckInterval = time.Second
	// After a policy or webhook has denied it, a pod is not patched for deniedBackoff. The denial may be about this pod
	// alone, or the webhook may have failed briefly, and until the patch succeeds nothing protects the pod from node
	// autoscalers.
	deniedBackoff = time.Minute
)

// step says what to write on a pod about its job.
type step int

const (
	markNothing step = iota
	// markStart: that a job runs and which, and that the pod must not be evicted.
	markStart
	// markIdle: that the pod may be evicted, because it has been up for IdleAfter without a job.
	markIdle
	// markEnd: how the job ended, and that the pod may be evicted.
	markEnd
)

// Written remembers what has been written on one pod, in this order: a stale cache must not have any of it written
// again.
type Written struct{ Idle, Busy, Job, Result bool }

func (w *Written) add(what step, hadJob bool) {
	if what == markIdle {
		w.Idle = true
		return
	}
	w.Busy, w.Job, w.Result = true, w.Job || hadJob, w.Result || what == markEnd
}

// Job is a runner whose pod lives: neither its container has ended, nor is the pod being deleted.
type Job struct {
	Runner *v1alpha1.EphemeralRunner
	Pod    *corev1.Pod
	// Busy is set if the runner has a job, by whatever is known.
	Busy bool
	// StartedAt is the time at which the runner's container started, zero if it was not seen to run.
	StartedAt time.Time
	// Written and DeniedAt are remembered for the next pass. At DeniedAt a policy or webhook last denied patching the pod.
	Written  *Written
	DeniedAt *time.Time
}

// label returns the value of the pod's label LabelRunnerBusy: what was written last, or else what the cache shows.
func (j *Job) label() string {
	switch written := j.Written; {
	case written.Result:
		return ""
	case written.Busy:
		return v1alpha1.RunnerBusy
	case written.Idle:
		return ""
	default:
		return j.Pod.Labels[v1alpha1.LabelRunnerBusy]
	}
}

// Mark writes the job on the pod, as labels and annotations, and returns the time to reconcile the runner again.
// Nothing holds the start back: the pod may have been idle for long, and then it may be evicted until the start is
// written. Budgets of earlier charts, and of users, cover no pod before.
func (m *Marker) Mark(ctx context.Context, j *Job) (time.Time, error) {
	now := m.options.Clock.Now()
	what, requeueAt := plan(j, m.options.JobMetadata, now)
	if what == markNothing {
		return requeueAt, nil
	}
	if retryAt := m.refusedUntil(j, what); now.Before(retryAt) {
		return kube.EarlierOf(requeueAt, retryAt), nil
	}
	if what != markStart && m.options.Gate.Defers(j.Runner, now.Sub(j.StartedAt)) {
		return RecheckAt(j.Runner, now), nil
	}
	annotations, labels, err := m.metadata(ctx, j, what)
	if err != nil {
		return requeueAt, err
	}
	defer m.options.Gate.Enter()()
	err = m.patchPod(ctx, j.Pod, annotations, labels, what == markIdle)
	switch {
	case kube.IsRefused(err):
		m.recordRefused(ctx, j, err, now)
		return kube.EarlierOf(requeueAt, m.refusedUntil(j, what)), nil
	case what == markIdle && apierrors.IsConflict(err):
		return RecheckAt(j.Runner, now), nil // the cache was behind: it may have a job
	case err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err):
		return requeueAt, fmt.Errorf("write the job on pod: %w", err)
	case err == nil:
		m.permitted(j.Runner.Namespace)
	}
	j.Written.add(what, j.Runner.Status.HadJob())
	return requeueAt, nil
}

// metadata returns the annotations and labels to write; nil removes one.
func (m *Marker) metadata(ctx context.Context, j *Job, what step) (annotations, labels map[string]any, err error) {
	annotations, labels = map[string]any{}, map[string]any{}
	switch {
	case what == markIdle:
		asInTemplate(j, annotations)
	case m.options.JobMetadata:
		annotations, labels = jobMetadata(j.Runner)
		annotations[v1alpha1.AnnotationPhases] = phases.Text(phases.Of(j.Runner, j.Pod))
		if err := m.protect(ctx, j, what, annotations); err != nil {
			return nil, nil, err
		}
	}
	labels[v1alpha1.LabelRunnerBusy] = nil
	if what == markStart {
		labels[v1alpha1.LabelRunnerBusy] = v1alpha1.RunnerBusy
	}
	return annotations, labels, nil
}

func (m *Marker) patchPod(
	ctx context.Context, pod *corev1.Pod, annotations, labels map[string]any, onlyUnchanged bool,
) error {
	patch, err := podPatch(pod, annotations, labels, onlyUnchanged)
	if err != nil {
		return err
	}
	target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	return m.options.Client.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch))
}

// plan decides what to write now on a pod about its job. The pod of a busy runner may not be shown to run yet, because
// runners and pods arrive on separate watches. Without metadata only the label LabelRunnerBusy is written.
func plan(j *Job, metadata bool, now time.Time) (what step, requeueAt time.Time) {
	status := &j.Runner.Status
	if status.JobCompleted() {
		return planEnd(j, metadata, now)
	}
	shown := !metadata || !status.HadJob() || j.Written.Job || j.Pod.Annotations[v1alpha1.AnnotationJobID] != ""
	idleAt := j.StartedAt.Add(IdleAfter)
	switch {
	case j.Busy && (j.label() != v1alpha1.RunnerBusy || !shown):
		return markStart, time.Time{}
	case j.Busy || j.label() != v1alpha1.RunnerMayBeBusy || j.StartedAt.IsZero():
		return markNothing, time.Time{}
	case now.Before(idleAt):
		return markNothing, idleAt
	}
	return markIdle, time.Time{}
}

// planEnd decides what to write now on the pod of a completed job.
func planEnd(j *Job, metadata bool, now time.Time) (what step, requeueAt time.Time) {
	shown := !metadata || j.Pod.Annotations[v1alpha1.AnnotationJobResult] != ""
	switch due := PodDueToEnd(&j.Runner.Status); {
	case j.Written.Result || (shown && j.label() == ""):
		return markNothing, time.Time{}
	case now.Before(due):
		return markNothing, due
	}
	return markEnd, time.Time{}
}

// PodDueToEnd returns the time by which the pod of a completed job is expected to end: until then nothing is written
// about it. A report without a time, from ARC's listener, counts as old.
func PodDueToEnd(status *v1alpha1.EphemeralRunnerStatus) time.Time {
	if status.FinishedAt == nil {
		return time.Time{}
	}
	return status.FinishedAt.Add(ResultGrace)
}

// jobMetadata returns the annotations and labels that describe a pod's job. Empty values are left out, and so are
// labels that Kubernetes would refuse.
func jobMetadata(runner *v1alpha1.EphemeralRunner) (annotations, labels map[string]any) {
	status := &runner.Status
	workflow, ref, _ := strings.Cut(status.JobWorkflowRef, "@")
	runID := ""
	if status.WorkflowRunID != 0 {
		runID = strconv.FormatInt(status.WorkflowRunID, 10)
	}
	annotations, labels = map[string]any{}, map[string]any{}
	for key, value := range map[string]string{
		v1alpha1.AnnotationJobRepository: status.JobRepositoryName,
		v1alpha1.AnnotationJobWorkflow:   workflow,
		v1alpha1.AnnotationJobRef:        ref,
		v1alpha1.AnnotationJobRunID:      runID,
		v1alpha1.AnnotationJobID:         launch.JobID(status),
		v1alpha1.AnnotationJobName:       status.JobDisplayName,
		v1alpha1.AnnotationJobResult:     status.JobResult,
	} {
		if value != "" {
			annotations[key] = value
		}
	}
	for key, value := range map[string]string{
		v1alpha1.LabelJobRepository: strings.Replace(status.JobRepositoryName, "/", "_", 1),
		v1alpha1.LabelJobRunID:      runID,
		v1alpha1.LabelJobID:         launch.JobID(status),
	} {
		if value != "" && len(validation.IsValidLabelValue(value)) == 0 {
			labels[key] = value
		}
	}
	return annotations, labels
}

// refusedUntil returns the time before which this must not be written on the runner's pod; it has passed if nothing
// was refused.
func (m *Marker) refusedUntil(j *Job, what step) time.Time {
	backoff := deniedBackoff
	if what == markIdle {
		backoff = ForbiddenBackoff
	}
	return kube.LaterOf(m.forbiddenUntil(j.Runner.Namespace), j.DeniedAt.Add(backoff))
}

// forbidding remembers the time since which the API server has forbidden to patch any pod of a namespace, the time
// before which none is patched, and whether an Event has told that.
type forbidding struct {
	since, until time.Time
	told         bool
}

// forbiddenUntil returns the time before which no pod of the namespace must be patched; it has passed if that was not
// forbidden.
func (m *Marker) forbiddenUntil(namespace string) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.forbidden[namespace].until
}

// permitted remembers that a pod of the namespace could be patched.
func (m *Marker) permitted(namespace string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.forbidden, namespace)
}

// recordRefused records, a single time per namespace or runner, that pods can't be patched. Nothing else fails because
// of it.
func (m *Marker) recordRefused(ctx context.Context, j *Job, refusal error, now time.Time) {
	tell := j.DeniedAt.IsZero()
	m.mu.Lock()
	if apierrors.IsForbidden(refusal) {
		tell = m.rememberForbidden(j.Runner.Namespace, refusal, now)
	} else {
		*j.DeniedAt = now
		m.leaveUnprotected(j.Runner.Namespace, now)
	}
	m.mu.Unlock()
	if tell {
		// It names the ways out: the permission or the policy. The API server's words come last because they may be
		// long.
		report.RecordEvent(ctx, m.options.Recorder, j.Runner, nil,
			report.Warning("PodMetadataForbidden", "MarkPod", fmt.Sprintf(
				"running jobs of namespace %s are not protected from eviction, pods don't show their jobs, and those that "+
					"are idle may stay protected: the manager may not patch pods; grant it the verb, as the scale set chart's Role ending in "+
					"-pod-metadata does, or exempt it from the policy or webhook that is named here: %v",
				j.Runner.Namespace, refusal)))
	}
}

// rememberForbidden remembers that the API server has forbidden patching a pod of the namespace, and reports whether
// that has just lasted long enough to be told. m.mu is held.
func (m *Marker) rememberForbidden(namespace string, refusal error, now time.Time) (tell bool) {
	f := m.forbidden[namespace]
	kube.SetIfZero(&f.since, now)
	pause := forbiddenRecheckInterval
	if !apiaccess.MayPass(refusal, f.since, now) {
		tell = !f.told
		f.told, pause = true, ForbiddenBackoff
		m.leaveUnprotected(namespace, now)
	}
	f.until = now.Add(pause)
	m.forbidden[namespace] = f
	return tell
}
