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
	// outliving is how long after its job's end a pod has to live to be told the result, too. Nearly every pod ends within
	// two seconds, and a runner's budget has one patch of its pod.
	outliving = 5 * time.Second
	// refusedPause is how long pods of a namespace are left alone after the API server has refused a patch: the Role that
	// allows it is the chart's, and plain manifests may lack it.
	refusedPause = 10 * time.Minute
)

// markings is what a pod was told about its job, by the pod's UID: a late cache must not have it told again.
type markings struct {
	start, result types.UID
}

// marking is what a pod is to be told.
type marking int

const (
	markNothing marking = iota
	// markStart: whose job it runs, and that it is not to be evicted.
	markStart
	// markResult: how the job ended, and that it may be evicted.
	markResult
)

// mark tells the pod of its job, and returns when to look again.
func (c *Controller) mark(ctx context.Context, p *pass) (time.Time, error) {
	now := c.options.Clock.Now()
	what, again := planMarking(p, now)
	if what == markNothing || c.options.NoJobMetadata || c.refusedLately(p.Namespace, now) {
		return again, nil
	}
	if c.crowded(p.EphemeralRunner) && now.Before(p.memory.up.Add(crowdPatience)) {
		return now.Add(crowdPause), nil
	}
	annotations, labels := jobMetadata(p.EphemeralRunner)
	c.protect(p, what, annotations)
	defer c.urgencies.telling()()
	err := c.patchPod(ctx, p.pod, annotations, labels)
	switch {
	case apierrors.IsForbidden(err):
		c.tellRefused(ctx, p, now)
		return again, nil
	case err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err):
		return again, fmt.Errorf("write the job on pod: %w", err)
	}
	p.memory.marked.start = p.pod.UID
	if what == markResult {
		p.memory.marked.result = p.pod.UID
	}
	return again, nil
}

// planMarking decides what a pod has to be told about its job now.
func planMarking(p *pass, now time.Time) (what marking, again time.Time) {
	pod := p.pod
	if pod == nil || pod.DeletionTimestamp != nil || !p.Status.HasJob() || p.Status.Done() ||
		p.memory.podDeleted == pod.UID || outcomeOf(pod, p.memory.clockOf(pod, now)).state != podRunning {
		return markNothing, time.Time{}
	}
	started := p.memory.marked.start == pod.UID || pod.Annotations[v1alpha1.AnnotationJobID] != ""
	ended := p.memory.marked.result == pod.UID || pod.Annotations[v1alpha1.AnnotationJobResult] != ""
	switch {
	case p.Status.JobCompleted() && ended:
		return markNothing, time.Time{}
	case p.Status.JobCompleted():
		if due := endOfJob(&p.Status).Add(outliving); now.Before(due) {
			return markNothing, due
		}
		return markResult, time.Time{}
	case started:
		return markNothing, time.Time{}
	default:
		return markStart, time.Time{}
	}
}

// endOfJob is when the job was reported completed; a report without a time, from ARC's listener, counts as old.
func endOfJob(status *v1alpha1.EphemeralRunnerStatus) time.Time {
	if status.FinishedAt == nil {
		return time.Time{}
	}
	return status.FinishedAt.Time
}

// jobMetadata returns what a pod is told about its job. Empty fields are left out.
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

// jobID is GitHub's id of the job; the number of the request stands for it where a server sends none.
func jobID(status *v1alpha1.EphemeralRunnerStatus) string {
	if status.JobID == "" && status.JobRequestID != 0 {
		return strconv.FormatInt(status.JobRequestID, 10)
	}
	return status.JobID
}

// protect keeps node autoscalers away while the job runs, and lets them come again when it has ended. What the template
// says about that stays.
func (c *Controller) protect(p *pass, what marking, annotations map[string]any) {
	if c.options.NoJobProtection {
		return
	}
	for key, value := range map[string]string{v1alpha1.AnnotationDoNotDisrupt: "true", v1alpha1.AnnotationSafeToEvict: "false"} {
		_, ofRunner := p.Annotations[key]
		_, ofTemplate := p.Spec.PodMetadata.Annotations[key]
		switch {
		case ofRunner || ofTemplate:
		case what == markStart:
			annotations[key] = value
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

// podPatch returns the one merge patch. The UID in it has the API server refuse a namesake. With the record of who wrote which
// field a pod costs the API server half as much again now, and twice as much each time its kubelet reports; it stays where
// somebody has applied something (server-side apply), who needs it.
func podPatch(pod *corev1.Pod, annotations, labels map[string]any) ([]byte, error) {
	metadata := map[string]any{"uid": pod.UID, "annotations": annotations, "labels": labels}
	if !slices.ContainsFunc(pod.ManagedFields, kube.IsApplied) {
		metadata["managedFields"] = kube.ClearedManagedFields()
	}
	return json.Marshal(map[string]any{"metadata": metadata})
}

func (c *Controller) refusedLately(namespace string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, refused := c.refused[namespace]
	return refused && now.Before(last.Add(refusedPause))
}

// tellRefused says once for a namespace that pods stay without their jobs. Nothing else is lost by that.
func (c *Controller) tellRefused(ctx context.Context, p *pass, now time.Time) {
	c.mu.Lock()
	_, told := c.refused[p.Namespace]
	c.refused[p.Namespace] = now
	c.mu.Unlock()
	if !told {
		c.tell(ctx, p, podMetadataForbidden(p.Namespace))
	}
}
