package ephemeralrunner

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
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
	"github.com/harrier-ci/harrier/internal/kube"
)

const (
	// resultAfter is how long a pod must outlive its job to be given the result as well, and its runner the phase Running if it
	// has not got it yet. Nearly every pod ends within two seconds, and a runner's budget allows one patch of its pod.
	resultAfter = 5 * time.Second
	// forbiddenRetryAfter is how long no pod of a namespace is patched after the API server has forbidden it for a while: the Role that
	// allows it comes with the chart, and plain manifests may lack it. Until it has lasted it may pass within a second, see
	// apiaccess.MayPass, and the running jobs need their protection: then it is tried again after forbiddenRecheckAfter.
	forbiddenRetryAfter   = 10 * time.Minute
	forbiddenRecheckAfter = time.Second
	// deniedRetryAfter is how long a pod is not patched after a policy or webhook has denied it. The denial may be about this
	// pod alone, or the webhook may have failed briefly, and until the patch succeeds nothing protects the pod from node
	// autoscalers.
	deniedRetryAfter = time.Minute
)

// markStep is what to write on a pod about its job.
type markStep int

const (
	markNothing markStep = iota
	// markStart: that a job runs and which, and that the pod must not be evicted.
	markStart
	// markEnd: how the job ended, and that the pod may be evicted.
	markEnd
)

// markJob writes the job on the pod, as labels and annotations, and returns when to reconcile the runner again. Nothing holds the
// start back: the PodDisruptionBudget covers pods with the label LabelRunnerBusy, and until it is written the pod may be evicted.
func (c *Controller) markJob(ctx context.Context, p *pass) (time.Time, error) {
	now := c.options.Clock.Now()
	what, requeueAt := planMark(p, c.busy(p), c.options.JobMetadata, now)
	if what == markNothing {
		return requeueAt, nil
	}
	if retryAt := c.refusedUntil(p); now.Before(retryAt) {
		return kube.EarlierOf(requeueAt, retryAt), nil
	}
	if what == markEnd && c.deferStatus(p.EphemeralRunner, now.Sub(p.memory.startedAt)) {
		return statusRecheckAt(p.EphemeralRunner, now), nil
	}
	annotations, labels := map[string]any{}, map[string]any{}
	if c.options.JobMetadata {
		annotations, labels = jobMetadata(p.EphemeralRunner)
		if err := c.protect(ctx, p, what, annotations); err != nil {
			return requeueAt, err
		}
	}
	labels[v1alpha1.LabelRunnerBusy] = nil // removes it
	if what == markStart {
		labels[v1alpha1.LabelRunnerBusy] = v1alpha1.RunnerBusy
	}
	defer c.statusGate.enter()()
	err := c.patchPod(ctx, p.pod, annotations, labels)
	switch {
	case kube.IsRefused(err):
		c.recordRefused(ctx, p, err, now)
		return kube.EarlierOf(requeueAt, c.refusedUntil(p)), nil
	case err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err):
		return requeueAt, fmt.Errorf("write the job on pod: %w", err)
	case err == nil:
		c.permitted(p.Namespace)
	}
	p.memory.pod.busyWritten = true
	p.memory.pod.jobWritten = p.memory.pod.jobWritten || p.Status.HadJob()
	p.memory.pod.resultWritten = p.memory.pod.resultWritten || what == markEnd
	return requeueAt, nil
}

// busy reports whether the runner has a job: one was reported, or GitHub has refused to remove the registration because of one.
func (c *Controller) busy(p *pass) bool {
	return p.mayHaveJob() || c.removal(p).busy() || c.options.Removed.Busy(p.UID, p.memory.runnerID)
}

// planMark decides what to write now on a pod about its job. The pod of a busy runner may not be shown to run yet, because runners
// and pods arrive on separate watches. Without metadata only the label LabelRunnerBusy is written.
func planMark(p *pass, busy, metadata bool, now time.Time) (what markStep, requeueAt time.Time) {
	if !p.podLives() {
		return markNothing, time.Time{}
	}
	pod, written := p.pod, &p.memory.pod
	labelled := written.busyWritten || pod.Labels[v1alpha1.LabelRunnerBusy] == v1alpha1.RunnerBusy
	if p.Status.JobCompleted() {
		shown := !metadata || pod.Annotations[v1alpha1.AnnotationJobResult] != ""
		return planMarkEnd(&p.Status, written.resultWritten || shown && !labelled, now)
	}
	shown := !metadata || !p.Status.HadJob() || written.jobWritten || pod.Annotations[v1alpha1.AnnotationJobID] != ""
	if busy && (!labelled || !shown) {
		return markStart, time.Time{}
	}
	return markNothing, time.Time{}
}

// podLives reports whether the runner has a pod that nothing is about to end, as far as is seen.
func (p *pass) podLives() bool {
	return p.pod != nil && p.pod.DeletionTimestamp == nil && !p.Status.Done() && !p.memory.pod.deleted && !p.outcome.over()
}

// planMarkEnd decides about the pod of a runner whose job was reported completed; ended is set if the pod says so already.
func planMarkEnd(status *v1alpha1.EphemeralRunnerStatus, ended bool, now time.Time) (what markStep, requeueAt time.Time) {
	due := podDueToEnd(status)
	switch {
	case ended:
		return markNothing, time.Time{}
	case now.Before(due):
		return markNothing, due
	default:
		return markEnd, time.Time{}
	}
}

// podDueToEnd returns until when the pod of a completed job is expected to end, so that nothing is written about it. A report
// without a time, from ARC's listener, counts as old.
func podDueToEnd(status *v1alpha1.EphemeralRunnerStatus) time.Time {
	if status.FinishedAt == nil {
		return time.Time{}
	}
	return status.FinishedAt.Add(resultAfter)
}

// jobMetadata returns the annotations and labels that describe a pod's job. Empty values are left out, and so are labels that
// Kubernetes would refuse.
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
		v1alpha1.AnnotationJobID:         jobID(status),
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
		v1alpha1.LabelJobID:         jobID(status),
	} {
		if value != "" && len(validation.IsValidLabelValue(value)) == 0 {
			labels[key] = value
		}
	}
	return annotations, labels
}

// jobID returns GitHub's id of the job, or the number of its request if the server sends no id.
func jobID(status *v1alpha1.EphemeralRunnerStatus) string {
	if status.JobID == "" && status.JobRequestID != 0 {
		return strconv.FormatInt(status.JobRequestID, 10)
	}
	return status.JobID
}

// protect adds the annotations that keep node autoscalers away while the job runs, and restores the template's own when it
// has ended. Templates may mark idle runners safe to evict, because cluster-autoscaler by default keeps nodes whose pods
// belong to a custom controller; a running job is never safe to evict.
func (c *Controller) protect(ctx context.Context, p *pass, what markStep, annotations map[string]any) error {
	if !c.options.JobProtection {
		return nil
	}
	doNotDisrupt, err := c.doNotDisrupt(ctx, p)
	if err != nil {
		return err
	}
	template := kube.Annotations(p.Annotations, p.Spec.PodMetadata.Annotations)
	for key, value := range map[string]string{v1alpha1.AnnotationDoNotDisrupt: doNotDisrupt, v1alpha1.AnnotationSafeToEvict: "false"} {
		without, set := template[key]
		switch {
		case what == markStart:
			annotations[key] = value
		case set:
			annotations[key] = without
		default:
			annotations[key] = nil // removes it
		}
	}
	return nil
}

// doNotDisrupt returns what jobProtection of the runner's scale set means for its pod. It is read when the job starts, from the
// cache, and not from the runner: a change of it then needs no new runners.
func (c *Controller) doNotDisrupt(ctx context.Context, p *pass) (string, error) {
	set := &v1alpha1.AutoscalingRunnerSet{}
	err := c.options.Client.Get(ctx, kube.ScaleSetOf(p), set, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("get AutoscalingRunnerSet: %w", err)
	}
	return doNotDisruptFor(set.Spec.JobProtection, p.pod, c.options.Clock.Now()), nil
}

// doNotDisruptFor returns the value of AnnotationDoNotDisrupt for a job that starts now. Karpenter counts a duration from the
// pod's start, and an idle runner may have waited for hours before its job: the pod's age is added, in whole seconds, rounded up
// because the pod's start is given in whole seconds. What is not a positive duration is passed on; empty means "true".
func doNotDisruptFor(protection string, pod *corev1.Pod, now time.Time) string {
	duration, err := time.ParseDuration(protection)
	if err != nil || duration <= 0 {
		return cmp.Or(protection, "true")
	}
	started := pod.CreationTimestamp
	if pod.Status.StartTime != nil {
		started = *pod.Status.StartTime
	}
	protected := max(now.Sub(started.Time), 0) + duration
	return (protected + time.Second - 1).Truncate(time.Second).String()
}

func (c *Controller) patchPod(ctx context.Context, pod *corev1.Pod, annotations, labels map[string]any) error {
	patch, err := podPatch(pod, annotations, labels)
	if err != nil {
		return err
	}
	target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	return c.options.Client.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch))
}

// podPatch returns the merge patch. The UID makes the API server refuse a pod that only has the same name. managedFields are
// cleared in the same patch, because they make this write half as expensive again, and each later report of the kubelet twice
// as expensive. They stay if somebody uses server-side apply.
func podPatch(pod *corev1.Pod, annotations, labels map[string]any) ([]byte, error) {
	metadata := map[string]any{"uid": pod.UID}
	if annotations != nil {
		metadata["annotations"] = annotations // null would remove all
	}
	if labels != nil {
		metadata["labels"] = labels
	}
	if !slices.ContainsFunc(pod.ManagedFields, kube.IsApplied) {
		metadata["managedFields"] = kube.ClearedManagedFields()
	}
	return json.Marshal(map[string]any{"metadata": metadata})
}

// refusedUntil returns until when the runner's pod must not be patched; a time in the past if nothing was refused.
func (c *Controller) refusedUntil(p *pass) time.Time {
	return kube.LaterOf(c.forbiddenUntil(p.Namespace), p.memory.deniedAt.Add(deniedRetryAfter))
}

// forbidding is since when the API server has forbidden to patch any pod of a namespace, until when none is patched, and whether an
// Event has told it.
type forbidding struct {
	since, until time.Time
	told         bool
}

// forbiddenUntil returns until when no pod of the namespace must be patched; a time in the past if that was not forbidden.
func (c *Controller) forbiddenUntil(namespace string) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.forbidden[namespace].until
}

// permitted notes that a pod of the namespace could be patched.
func (c *Controller) permitted(namespace string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.forbidden, namespace)
}

// recordRefused records, once per namespace or runner, that pods can't be patched. Nothing else fails because of it.
func (c *Controller) recordRefused(ctx context.Context, p *pass, refusal error, now time.Time) {
	tell := p.memory.deniedAt.IsZero()
	if apierrors.IsForbidden(refusal) {
		tell = c.noteForbidden(p.Namespace, refusal, now)
	} else {
		p.memory.deniedAt = now
	}
	if tell {
		c.record(ctx, p, podMetadataForbidden(p.Namespace, refusal))
	}
}

// noteForbidden notes that the API server has forbidden patching a pod of the namespace, and reports whether that has just lasted long
// enough to be told.
func (c *Controller) noteForbidden(namespace string, refusal error, now time.Time) (tell bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.forbidden[namespace]
	kube.SetIfZero(&f.since, now)
	pause := forbiddenRecheckAfter
	if !apiaccess.MayPass(refusal, f.since, now) {
		tell = !f.told
		f.told, pause = true, forbiddenRetryAfter
	}
	f.until = now.Add(pause)
	c.forbidden[namespace] = f
	return tell
}
