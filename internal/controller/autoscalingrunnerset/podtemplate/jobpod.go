package podtemplate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/podtrial"
	"github.com/harrier-ci/harrier/internal/pool"
)

// jobPodError is the API server's answer about the pod of a job. That of the runner was admitted. image is set if it is
// perhaps refused for its image alone, which is not the job's.
type jobPodError struct {
	answer error
	image  bool
}

func (e *jobPodError) Error() string { return e.answer.Error() }
func (e *jobPodError) Unwrap() error { return e.answer }

// refusesJob returns the reason if the outcome of a trial means that no pod of a job is admitted.
func refusesJob(err error) (reason string, refuses bool) {
	ofJob := (*jobPodError)(nil)
	if !errors.As(err, &ofJob) {
		return "", false
	}
	if reason, refuses = podtrial.Refuses(ofJob.answer); refuses && ofJob.image {
		reason = v1alpha1.ReasonJobImageRefused
	}
	return reason, refuses
}

// tryJob sends the pod that the hooks of a runner would make for a job as a dry run. Where the manager may not read the
// template of such pods, nobody knows what they will be.
func (t *Trials) tryJob(ctx context.Context, hooks *podtrial.Hooks, runner *corev1.Pod) (podtrial.Difference, error) {
	template := ""
	if from := hooks.Template; from.ConfigMap != "" {
		found := &corev1.ConfigMap{}
		err := t.reader.Get(ctx, types.NamespacedName{Namespace: runner.Namespace, Name: from.ConfigMap}, found)
		switch given, has := found.Data[from.Key]; {
		case apierrors.IsForbidden(err):
			return podtrial.Difference{}, nil
		case err != nil:
			return podtrial.Difference{}, &jobPodError{answer: fmt.Errorf("read the template of job pods: %w", err)}
		case !has: // no runner starts until it is there, and the kubelet says so
			return podtrial.Difference{}, &jobPodError{answer: fmt.Errorf("ConfigMap %s has no key %s", from.ConfigMap, from.Key)}
		default:
			template = given
		}
	}
	asked, err := hooks.JobPod(runner, template)
	if err != nil {
		return podtrial.Difference{}, &jobPodError{answer: err}
	}
	answered := asked.DeepCopy()
	if err := t.send(ctx, answered); err != nil {
		failure := &jobPodError{answer: err}
		if _, refused := podtrial.Refuses(err); refused {
			_, failure.image = podtrial.Refuses(t.send(ctx, podtrial.ImageProbe(runner, asked)))
		}
		return podtrial.Difference{}, failure
	}
	return podtrial.Compare(asked.Object, answered.Object, false)
}

// judgeJob returns what the last trial, which has ended, says of pods of jobs, nil if that stays as it was. A real pod
// counts more: a policy may decide by who makes it, and the hooks do that as the runner's account.
func (m *Memory) judgeJob(last pool.Call[podtrial.Difference], set *v1alpha1.AutoscalingRunnerSet) *metav1.Condition {
	const conditionType = v1alpha1.ConditionJobPodRefused
	reason, refused := refusesJob(last.Err)
	known := last.Err == nil && !last.Finished.IsZero()
	switch {
	case reason == v1alpha1.ReasonJobImageRefused && last.Finished.After(m.jobAdmittedAt):
		return new(report.True(conditionType, reason, fmt.Sprintf("a policy of namespace %s refuses the runner's image in the "+
			"pod of a job, where a dry run has it in place of the job's: %s: jobs start if it takes their images",
			set.Namespace, report.Abridged(last.Err.Error()))))
	case refused && last.Finished.After(m.jobAdmittedAt):
		return new(report.True(conditionType, reason, fmt.Sprintf("jobs with a container can't start, as a dry run of the "+
			"pod that the container hooks make shows, with the runner's image in place of the job's: %s: correct "+
			"containerMode.kubernetesModeHookTemplate, or have whoever administers namespace %s change what forbids it; it "+
			"is tried again every few minutes", report.Abridged(last.Err.Error()), set.Namespace)))
	case (refused || known) && meta.FindStatusCondition(set.Status.Conditions, conditionType) != nil:
		return new(report.False(conditionType, "PodsAdmitted",
			"nothing but a ResourceQuota keeps the API server from admitting the pods of jobs"))
	}
	return nil
}

// Lasts reports whether a refusal has been told for so long that it won't pass by itself. Times of the API have whole
// seconds, and the status is written up to two seconds later.
func Lasts(c *metav1.Condition, now time.Time) bool {
	return now.Sub(c.LastTransitionTime.Time) >= refusedGrace-2*time.Second
}

// altered returns what the last trial, which has ended, says of what becomes of pods, nil if that stays as it was.
func altered(last pool.Call[podtrial.Difference], set *v1alpha1.AutoscalingRunnerSet) *metav1.Condition {
	const conditionType = v1alpha1.ConditionPodsAltered
	_, ofRunner := refusesRunner(last.Err)
	difference := last.Result
	switch {
	case last.Finished.IsZero(), ofRunner:
		return nil
	case len(difference.Lost) > 0:
		return new(report.True(conditionType, v1alpha1.ReasonPodFieldsLost, fmt.Sprintf("a policy or webhook takes from "+
			"the pods what the template asks for: %s: have whoever administers namespace %s exempt them, or write the "+
			"template so that it agrees", report.Abridged(strings.Join(difference.Lost, "; ")), set.Namespace)))
	case last.Err != nil:
		return nil
	case len(difference.Added) > 0:
		return new(report.False(conditionType, "PodsExtended", "a policy or webhook adds to the pods or changes them, "+
			"and takes nothing that they need: "+report.Abridged(strings.Join(difference.Added, "; "))))
	case meta.FindStatusCondition(set.Status.Conditions, conditionType) != nil:
		return new(report.False(conditionType, "PodsAsWritten", "nothing changes the pods of the template"))
	}
	return nil
}
