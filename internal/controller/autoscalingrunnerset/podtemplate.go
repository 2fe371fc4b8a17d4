package autoscalingrunnerset

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/kube/requeue"
	"github.com/harrier-ci/harrier/internal/pool"
)

// Whether a runner could start is asked before the first job: the API server is sent one pod of the template as a dry run, which all
// of its checks and policies see and which creates nothing. That is one request for each template of a set, and after a restart of
// the manager. What real pods show counts more: it corrects the answer in both directions.

const (
	// refusedFor is how long pods must be refused before the set is stalled, which a tool such as Flux takes for a failure. An API
	// server that has just started forbids for seconds what it allows later, and a ServiceAccount may be created after the set.
	refusedFor = time.Minute
	// trialBasePause and trialMaxPause are the shortest and the longest pause before a dry run that failed is repeated.
	trialBasePause, trialMaxPause = time.Minute, 5 * time.Minute
	// trialTimeout bounds a dry run: a webhook may take 30 s.
	trialTimeout = 30 * time.Second
	// holdStatus is how long the status stays as it was for the former template, so that Ready doesn't flicker. A dry run takes
	// milliseconds unless a webhook is slow.
	holdStatus = 5 * time.Second
)

// reasonCheckingTemplate is the reason of Ready until the first dry run of a template has been answered.
const reasonCheckingTemplate = "CheckingPodTemplate"

// errNoRunnerContainer is the outcome of a trial that needs no request.
var errNoRunnerContainer = errors.New(kube.NoRunnerContainer)

// templateMemory is what is remembered of pods of one template.
type templateMemory struct {
	// tried is the hash of the pod that was tried last.
	tried string
	// settled is set once a dry run of it has been answered, or if the status was about it when the manager started.
	settled bool
	// newest is when the newest real pod was created, by the API server's clock; admittedAt is when a newer one was first seen.
	newest     metav1.Time
	admittedAt time.Time
	// refusedSince is since when runners have seen their pods forbidden and none was admitted, zero while there are none such.
	// seenRefusedAt is when that was last seen. refusal is what the oldest of them reports.
	refusedSince, seenRefusedAt time.Time
	refusal                     string
}

// templateVerdict is what a pass knows of the template.
type templateVerdict struct {
	// reached is set if the pass came so far.
	reached bool
	// condition is PodTemplateRefused, nil if it stays as it was. lasting is set if the refusal won't pass by itself.
	condition *metav1.Condition
	lasting   bool
	// awaited is set until the first answer, and heldFor is for how long the status waits for it.
	awaited bool
	heldFor time.Duration
}

// tryTemplate finds out whether the API server would admit the pod of a runner.
func (c *Controller) tryTemplate(ctx context.Context, p *pass) error {
	if !p.registeredHere() {
		return nil
	}
	pod := c.options.RunnerPod(p.set, c.runnerSet(p))
	m := &p.memory.template
	if hash := kube.Hash(pod); m.tried != hash {
		c.trials.Forget(p.key)
		told := p.set.Status.ObservedGeneration == p.set.Generation && p.set.Status.RunnerSpecHash == p.runnerSpecHash
		*m = templateMemory{tried: hash, settled: m.tried == "" && told && !p.wasChecking()}
	}
	last, known := c.trials.Last(p.key)
	if known && !last.Running() {
		m.settled = true
	}
	if p.looksRefused(last.Err) {
		if err := c.lookAtPods(ctx, p, pod.Annotations[v1alpha1.AnnotationRunnerSpecHash]); err != nil {
			return err
		}
	}
	switch wait, due := m.trialDue(last, known, p.now); {
	case due && wait > 0:
		p.requeue.After(wait)
	case due:
		c.trials.Go(p.group(), p.key, func(ctx context.Context) (struct{}, error) { return struct{}{}, c.try(ctx, pod) })
		last, _ = c.trials.Last(p.key)
	}
	p.template = m.judge(last, p.set, p.now)
	p.template.reached = true
	return nil
}

// untried reports whether the pass was cut short before it came to a template that has changed, or may have: a failure that passes by itself
// must not make the set ready with it.
func (p *pass) untried() bool {
	status := &p.set.Status
	switch {
	case !p.cutShort || p.template.reached:
		return false
	case p.wasChecking():
		return true
	case p.runnerSpecHash == "":
		return status.ObservedGeneration != p.set.Generation
	}
	return status.RunnerSpecHash != "" && status.RunnerSpecHash != p.runnerSpecHash
}

// wasChecking reports whether the status waits for the first answer about a template.
func (p *pass) wasChecking() bool {
	ready := meta.FindStatusCondition(p.set.Status.Conditions, v1alpha1.ConditionReady)
	return ready != nil && ready.Reason == reasonCheckingTemplate
}

// try sends the pod as a dry run. That a quota is full is the last thing an API server finds: everything else has admitted the pod.
func (c *Controller) try(ctx context.Context, pod *corev1.Pod) error {
	if kube.Container(&pod.Spec, v1alpha1.RunnerContainerName) == nil {
		return errNoRunnerContainer
	}
	ctx, cancel := context.WithTimeout(ctx, trialTimeout)
	defer cancel()
	err := c.options.Client.Create(ctx, pod.DeepCopy(), client.DryRunAll)
	if kube.IsQuotaExceeded(err) {
		return nil
	}
	return err
}

// refusesTemplate returns the reason if the answer to a dry run means that no pod of the template is admitted until somebody changes
// something. It means nothing if the API server, or a webhook, could not decide: it is away, busy or starts, the manager may not
// create pods, or a webhook can't do dry runs, which is the only bad request that says nothing about the pod.
func refusesTemplate(err error) (reason string, refuses bool) {
	var answer apierrors.APIStatus
	switch {
	case errors.Is(err, errNoRunnerContainer):
		return v1alpha1.ReasonInvalidPod, true
	case !errors.As(err, &answer), kube.IsNamespaceTerminating(err), kube.IsQuotaExceeded(err), kube.IsDeniedByAuthorizer(err), withoutDryRun(err):
		return "", false
	}
	switch status := answer.Status(); status.Code {
	case http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return "", false
	case http.StatusUnauthorized: // a policy may answer so, and then names the pod
		return v1alpha1.ReasonPodForbidden, status.Details != nil && status.Details.Name != ""
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return v1alpha1.ReasonInvalidPod, true
	default:
		return v1alpha1.ReasonPodForbidden, status.Code >= http.StatusBadRequest && status.Code < http.StatusInternalServerError
	}
}

// withoutDryRun reports whether a webhook can't do dry runs. A webhook that denies the pod may answer with the same code, but hardly
// with the same reason.
func withoutDryRun(err error) bool {
	return apierrors.ReasonForError(err) == metav1.StatusReasonBadRequest
}

// trialDue returns whether another dry run is wanted, and after what time.
func (m *templateMemory) trialDue(last pool.Call[struct{}], known bool, now time.Time) (wait time.Duration, due bool) {
	switch {
	case !known:
		return 0, true
	case last.Running():
		return 0, false // its end brings a pass
	case m.doubts(last):
		return last.Finished.Add(trialBasePause).Sub(now), true
	case last.Err == nil, withoutDryRun(last.Err), m.admittedAt.After(last.Finished):
		return 0, false
	}
	return last.Finished.Add(requeue.Backoff(trialBasePause, trialMaxPause, last.Failures)).Sub(now), true
}

// doubts reports whether runners have been refused since the last dry run, and none was admitted after that.
func (m *templateMemory) doubts(last pool.Call[struct{}]) bool {
	return m.seenRefusedAt.After(kube.LaterOf(last.Finished, m.admittedAt))
}

// looksRefused reports whether there is a reason to look at the set's pods.
func (p *pass) looksRefused(answer error) bool {
	_, refused := refusesTemplate(answer)
	pending := runnersCondition(p, v1alpha1.ConditionRunnersPending)
	return refused || !p.memory.template.refusedSince.IsZero() || wasRefused(p.set) != nil ||
		pending != nil && pending.Status == metav1.ConditionTrue && pending.Reason == v1alpha1.ReasonPodForbidden
}

// lookAtPods notes which runners of the template have seen their pods forbidden, and whether a pod has been admitted meanwhile. It
// reads the cache, and only while something looks refused.
func (c *Controller) lookAtPods(ctx context.Context, p *pass, template string) error {
	mine := client.MatchingLabels{v1alpha1.LabelScaleSetName: p.set.Name, v1alpha1.LabelScaleSetNamespace: p.set.Namespace}
	var pods corev1.PodList
	var runners v1alpha1.EphemeralRunnerList
	for _, list := range []client.ObjectList{&pods, &runners} {
		if err := c.options.Client.List(ctx, list, client.InNamespace(p.set.Namespace), mine, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list pods and runners of the set: %w", err)
		}
	}
	m := &p.memory.template
	first := m.newest.IsZero()
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Annotations[v1alpha1.AnnotationRunnerSpecHash] != template || !m.newest.Before(&pod.CreationTimestamp) {
			continue
		}
		m.newest = pod.CreationTimestamp
		if !first {
			m.admittedAt = p.now
		}
	}
	if first && m.newest.IsZero() {
		m.newest = metav1.Unix(1, 0) // there are none: the first one counts
	}
	m.noteRefused(runners.Items, template, p.now)
	if wait := m.refusedSince.Add(refusedFor).Sub(p.now); wait > 0 {
		p.requeue.After(wait) // from then on the next dry run brings a pass, and so does the runner set, which counts its runners
	}
	return nil
}

// noteRefused notes since when runners of the template have been refused without one being admitted.
func (m *templateMemory) noteRefused(runners []v1alpha1.EphemeralRunner, template string, now time.Time) {
	var oldest *v1alpha1.EphemeralRunner
	for i := range runners {
		r := &runners[i]
		refused := r.Status.Reason == v1alpha1.ReasonPodForbidden && !r.Status.Done() && r.DeletionTimestamp == nil
		if refused && r.Annotations[v1alpha1.AnnotationRunnerSpecHash] == template && (oldest == nil || kube.NewestFirst(oldest, r) < 0) {
			oldest = r
		}
	}
	if oldest == nil {
		m.refusedSince = time.Time{}
		return
	}
	if m.refusedSince.IsZero() || !m.admittedAt.Before(m.refusedSince) {
		m.refusedSince = now
	}
	m.seenRefusedAt, m.refusal = now, oldest.Status.Message
}

// wasRefused returns the condition that says that the template is refused, nil if it doesn't.
func wasRefused(set *v1alpha1.AutoscalingRunnerSet) *metav1.Condition {
	if c := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionPodTemplateRefused); c != nil && c.Status == metav1.ConditionTrue {
		return c
	}
	return nil
}

// judge returns what follows from the last dry run and from what was seen of real pods.
func (m *templateMemory) judge(last pool.Call[struct{}], set *v1alpha1.AutoscalingRunnerSet, now time.Time) templateVerdict {
	const conditionType = v1alpha1.ConditionPodTemplateRefused
	reason, refused := refusesTemplate(last.Err)
	var condition metav1.Condition
	switch {
	case !m.refusedSince.IsZero() && now.Sub(m.refusedSince) >= refusedFor:
		condition = report.True(conditionType, v1alpha1.ReasonPodForbidden, "for a minute or longer no runner has got a pod: "+abridged(m.refusal))
		return templateVerdict{condition: &condition, lasting: true}
	case last.Running() && !m.settled:
		return templateVerdict{awaited: true, heldFor: last.Started.Add(holdStatus).Sub(now)}
	case last.Running():
		return templateVerdict{}
	case refused && last.Finished.After(m.admittedAt):
		before := wasRefused(set)
		condition = report.True(conditionType, reason, refusedMessage(last.Err, set.Namespace))
		// The condition was written up to two seconds after the first refusal: see statusPeriod, and times of the API have whole seconds.
		lasting := isStalled(set, reason) || before != nil && last.Finished.Sub(before.LastTransitionTime.Time) >= refusedFor-2*time.Second
		return templateVerdict{condition: &condition, lasting: lasting}
	case m.doubts(last), meta.FindStatusCondition(set.Status.Conditions, conditionType) == nil:
		return templateVerdict{}
	}
	condition = report.False(conditionType, "PodsAdmitted", "nothing but a ResourceQuota keeps the API server from admitting the runners' pods")
	return templateVerdict{condition: &condition}
}

// isStalled reports whether the status says that the refusal won't pass by itself.
func isStalled(set *v1alpha1.AutoscalingRunnerSet, reason string) bool {
	c := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionStalled)
	return wasRefused(set) != nil && c != nil && c.Status == metav1.ConditionTrue && c.Reason == reason
}

// refusedSummary returns the summary of a set whose template is refused, as the condition says.
func (p *pass) refusedSummary(refused *metav1.Condition) []metav1.Condition {
	lasting := p.template.lasting || p.template.condition == nil && isStalled(p.set, refused.Reason)
	return report.Unready(refused.Reason, refused.Message, lasting)
}

// refusedMessage says why no runner can start, and who can change that.
func refusedMessage(refusal error, namespace string) string {
	if errors.Is(refusal, errNoRunnerContainer) {
		return refusal.Error()
	}
	return fmt.Sprintf("no runner can start, as a dry run of its pod shows: %s: correct spec.template of the AutoscalingRunnerSet, or have whoever administers namespace %s "+
		"change what forbids it; it is tried again every few minutes", abridged(refusal.Error()), namespace)
}
