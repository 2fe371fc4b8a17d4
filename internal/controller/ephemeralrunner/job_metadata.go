package ephemeralrunner

import (
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
	"github.com/harrier-ci/harrier/internal/kube"
)

const (
	// resultAfter is how long a pod must outlive its job to be given the result as well, and its runner the phase Running if it
	// has not got it yet. Nearly every pod ends within two seconds, and a runner's budget allows one patch of its pod.
	resultAfter = 5 * time.Second
	// forbiddenRetryAfter is how long no pod of a namespace is patched after the API server has forbidden it: the Role that
	// allows it comes with the chart, and plain manifests may lack it.
	forbiddenRetryAfter = 10 * time.Minute
	// deniedRetryAfter is how long a pod is not patched after a policy or webhook has denied it. The denial may be about this
	// pod alone, or the webhook may have failed briefly, and until the patch succeeds nothing protects the pod from node
	// autoscalers.
	deniedRetryAfter = time.Minute
)

// annotateStep is what to write on a pod about its job.
type annotateStep int

const (
	annotateNothing annotateStep = iota
	// annotateStart: which job it runs, and that it must not be evicted.
	annotateStart
	// annotateResult: how the job ended, and that it may be evicted.
	annotateResult
)

// annotateJob writes the job on the pod, as annotations and labels, and returns when to reconcile the runner again.
func (c *Controller) annotateJob(ctx context.Context, p *pass) (time.Time, error) {
	now := c.options.Clock.Now()
	what, requeueAt := planAnnotate(p, now)
	if what == annotateNothing || !c.options.JobMetadata {
		return requeueAt, nil
	}
	if retryAt := c.refusedUntil(p); now.Before(retryAt) {
		return kube.EarlierOf(requeueAt, retryAt), nil
	}
	if c.deferStatus(p.EphemeralRunner, now.Sub(p.memory.startedAt)) {
		return statusRecheckAt(p.EphemeralRunner, now), nil
	}
	annotations, labels := jobMetadata(p.EphemeralRunner)
	c.protect(p, what, annotations)
	defer c.statusGate.enter()()
	err := c.patchPod(ctx, p.pod, annotations, labels)
	switch {
	case kube.IsRefused(err):
		c.recordRefused(ctx, p, err, now)
		return kube.EarlierOf(requeueAt, c.refusedUntil(p)), nil
	case err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err):
		return requeueAt, fmt.Errorf("write the job on pod: %w", err)
	}
	p.memory.pod.jobWritten = true
	p.memory.pod.resultWritten = p.memory.pod.resultWritten || what == annotateResult
	return requeueAt, nil
}

// planAnnotate decides what to write now on a pod about its job.
func planAnnotate(p *pass, now time.Time) (what annotateStep, requeueAt time.Time) {
	pod := p.pod
	if pod == nil || pod.DeletionTimestamp != nil || !p.Status.HadJob() || p.Status.Done() ||
		p.memory.pod.deleted || p.outcome.state != podRunning {
		return annotateNothing, time.Time{}
	}
	started := p.memory.pod.jobWritten || pod.Annotations[v1alpha1.AnnotationJobID] != ""
	ended := p.memory.pod.resultWritten || pod.Annotations[v1alpha1.AnnotationJobResult] != ""
	switch {
	case p.Status.JobCompleted() && ended:
		return annotateNothing, time.Time{}
	case p.Status.JobCompleted():
		if due := podDueToEnd(&p.Status); now.Before(due) {
			return annotateNothing, due
		}
		return annotateResult, time.Time{}
	case started:
		return annotateNothing, time.Time{}
	default:
		return annotateStart, time.Time{}
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
func (c *Controller) protect(p *pass, what annotateStep, annotations map[string]any) {
	if !c.options.JobProtection {
		return
	}
	template := kube.Annotations(p.Annotations, p.Spec.PodMetadata.Annotations)
	for key, value := range map[string]string{v1alpha1.AnnotationDoNotDisrupt: "true", v1alpha1.AnnotationSafeToEvict: "false"} {
		without, set := template[key]
		switch {
		case what == annotateStart:
			annotations[key] = value
		case set:
			annotations[key] = without
		default:
			annotations[key] = nil // removes it
		}
	}
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

// forbiddenUntil returns until when no pod of the namespace must be patched; a time in the past if that was not forbidden.
func (c *Controller) forbiddenUntil(namespace string) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.forbidden[namespace].Add(forbiddenRetryAfter)
}

// recordRefused records, once per namespace or runner, that pods can't be patched. Nothing else fails because of it.
func (c *Controller) recordRefused(ctx context.Context, p *pass, refusal error, now time.Time) {
	var recorded bool
	if apierrors.IsForbidden(refusal) {
		c.mu.Lock()
		_, recorded = c.forbidden[p.Namespace]
		c.forbidden[p.Namespace] = now
		c.mu.Unlock()
	} else {
		recorded, p.memory.deniedAt = !p.memory.deniedAt.IsZero(), now
	}
	if !recorded {
		c.record(ctx, p, podMetadataForbidden(p.Namespace, refusal))
	}
}
