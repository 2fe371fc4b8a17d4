package mark

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/hooktemplate"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

const (
	// IdleAfter is the time for which a runner must have been up without a job before its pod may be evicted. Nearly
	// every runner is made for a job that waits, and takes it within seconds: a pod that is protected from its creation
	// on needs no write for that, however many start at once and however busy the API server is.
	IdleAfter = 15 * time.Second
	// While the API server refuses that pods are patched, or created with protection, new pods of the namespace have
	// none: nobody could take it off again. It is longer than ForbiddenBackoff, after which a patch is tried again.
	unprotectedFor = 2 * ForbiddenBackoff
)

// Protect keeps a new pod from being evicted until it has been up for IdleAfter without a job, and the pods of its job
// for as long as they run, if they are pods of their own.
func (m *Marker) Protect(ctx context.Context, set *v1alpha1.AutoscalingRunnerSet, pod *corev1.Pod) bool {
	m.mu.Lock()
	until := m.unprotected[pod.Namespace]
	m.mu.Unlock()
	if m.options.Clock.Now().Before(until) {
		return false
	}
	pod.Labels[v1alpha1.LabelRunnerBusy] = v1alpha1.RunnerMayBeBusy
	var annotations map[string]string
	if m.options.JobMetadata && m.options.JobProtection {
		annotations = protection(set, 0)
		maps.Copy(pod.Annotations, annotations)
	}
	if _, hooks := kube.RunnerEnv(&pod.Spec, kube.EnvContainerHooks); hooks &&
		hooktemplate.Needed(ctx, m.options.Reader, pod) {
		hooktemplate.Add(pod, map[string]string{
			v1alpha1.LabelScaleSetName:      pod.Labels[v1alpha1.LabelScaleSetName],
			v1alpha1.LabelScaleSetNamespace: pod.Labels[v1alpha1.LabelScaleSetNamespace],
			v1alpha1.LabelRunnerBusy:        v1alpha1.RunnerBusy,
		}, annotations, ptr.Deref(set.Spec.JobGracePeriod, metav1.Duration{}).Duration)
	}
	return true
}

// Refused remembers, and says a single time, that pods of a namespace can't be created with protection.
func (m *Marker) Refused(ctx context.Context, runner *v1alpha1.EphemeralRunner, refusal error) {
	now := m.options.Clock.Now()
	m.mu.Lock()
	tell := !now.Before(m.unprotected[runner.Namespace])
	m.leaveUnprotected(runner.Namespace, now)
	m.mu.Unlock()
	if tell {
		report.RecordEvent(ctx, m.options.Recorder, runner, nil,
			report.Warning("PodMetadataForbidden", "CreatePod", fmt.Sprintf(
				"jobs of namespace %s are not protected from eviction in their first seconds: a policy or webhook takes "+
					"no runner pod with the label %s, the annotations of node autoscalers and, for container hooks, a file "+
					"that has these for job pods; exempt runner pods from what is named here: %v",
				runner.Namespace, v1alpha1.LabelRunnerBusy, refusal)))
	}
}

// leaveUnprotected remembers that new pods of a namespace are to have no protection. m.mu is held.
func (m *Marker) leaveUnprotected(namespace string, now time.Time) {
	maps.DeleteFunc(m.unprotected, func(_ string, until time.Time) bool { return !now.Before(until) })
	m.unprotected[namespace] = now.Add(unprotectedFor)
}

// protect adds the annotations that keep node autoscalers away while the job runs, or has them as in the template when
// it has ended.
func (m *Marker) protect(ctx context.Context, j *Job, what step, annotations map[string]any) error {
	switch {
	case !m.options.JobProtection:
		return nil
	case what == markEnd:
		asInTemplate(j, annotations)
		return nil
	}
	// The scale set is read when the job starts, from the cache: a change of its jobProtection then needs no new
	// runners.
	set := &v1alpha1.AutoscalingRunnerSet{}
	err := m.options.Client.Get(ctx, kube.ScaleSetOf(j.Runner), set, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get AutoscalingRunnerSet: %w", err)
	}
	for key, value := range protection(set, m.options.Clock.Now().Sub(podstatus.AcceptedAt(j.Pod))) {
		annotations[key] = value
	}
	return nil
}

// asInTemplate has the annotations of node autoscalers as the runner's template has them. Templates may mark idle
// runners safe to evict, because cluster-autoscaler by default keeps nodes whose pods belong to a custom controller; a
// running job is never safe to evict.
func asInTemplate(j *Job, annotations map[string]any) {
	template := kube.Annotations(j.Runner.Annotations, j.Runner.Spec.PodMetadata.Annotations)
	for _, key := range []string{v1alpha1.AnnotationDoNotDisrupt, v1alpha1.AnnotationSafeToEvict} {
		annotations[key] = nil // removes it
		if value, has := template[key]; has {
			annotations[key] = value
		}
	}
}

// protection returns the annotations that keep node autoscalers away from a pod of that age. Karpenter counts a
// duration from the pod's start, and an idle runner may have waited for hours before its job: the pod's age is added,
// in whole seconds, rounded up because the pod's start is given in whole seconds. What is not a positive duration is
// passed on; empty means "true".
func protection(set *v1alpha1.AutoscalingRunnerSet, age time.Duration) map[string]string {
	doNotDisrupt := cmp.Or(set.Spec.JobProtection, "true")
	if duration, err := time.ParseDuration(doNotDisrupt); err == nil && duration > 0 {
		protected := max(age, 0) + duration
		doNotDisrupt = (protected + time.Second - 1).Truncate(time.Second).String()
	}
	return map[string]string{
		v1alpha1.AnnotationDoNotDisrupt: doNotDisrupt,
		v1alpha1.AnnotationSafeToEvict:  "false",
	}
}
