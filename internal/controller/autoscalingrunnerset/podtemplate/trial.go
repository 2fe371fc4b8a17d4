// Package podtemplate finds out whether the runners of a set could start, before the first job: the API server is sent
// one pod of the template as a dry run, which all of its checks and policies see and which creates nothing. That is one
// request for each template of a set, and after a restart of the manager; where container hooks run jobs as pods, a
// second one for such a pod. What real pods show counts more: it corrects the answer in both directions. What policies
// made of the pods is told, too.
package podtemplate

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/podtrial"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/reconcile"
)

const (
	// A set is stalled, which a tool such as Flux takes for a failure, after its pods have been refused for
	// refusedGrace. An API server that has just started forbids for seconds what it allows later, and a ServiceAccount
	// may be created after the set.
	refusedGrace = time.Minute
	// trialBasePause and trialLongestBackoff are the shortest and the longest pause before a dry run that failed is
	// repeated.
	trialBasePause, trialLongestBackoff = time.Minute, 5 * time.Minute
	// trialTimeout bounds a dry run: a webhook may take 30 s.
	trialTimeout = 30 * time.Second
	// The status stays as it was for the former template for holdTimeout, so that Ready doesn't flicker. A dry run
	// takes milliseconds unless a webhook is slow.
	holdTimeout = 5 * time.Second
)

// ReasonChecking is the reason of Ready until the first dry run of a template has been answered.
const ReasonChecking = "CheckingPodTemplate"

// errNoRunnerContainer is the outcome of a trial that needs no request.
var errNoRunnerContainer = errors.New(kube.NoRunnerContainer)

// Memory is what is remembered of pods of one template of a set. The zero value knows nothing.
type Memory struct {
	// tried is the hash of the pod that was tried last.
	tried string
	// settled is set when a dry run of it has been answered, or if the status was about it when the manager started.
	settled bool
	// newest is the time at which the newest real pod was created, by the API server's clock; at admittedAt a newer one
	// was first seen.
	newest     metav1.Time
	admittedAt time.Time
	// Since refusedSince runners have seen their pods forbidden and none was admitted, zero while there are no such
	// runners. At seenRefusedAt that was last seen. refusal is the report of the oldest of them.
	refusedSince, seenRefusedAt time.Time
	refusal                     string
	// newestJob and jobAdmittedAt are as newest and admittedAt, of pods of jobs.
	newestJob     metav1.Time
	jobAdmittedAt time.Time
}

// Verdict says whether a template's pods are admitted, as far as that is known.
type Verdict struct {
	// Reached is set if it was judged at all.
	Reached bool
	// Condition is PodTemplateRefused, nil if it stays as it was. Lasting is set if the refusal won't pass by itself.
	Condition *metav1.Condition
	Lasting   bool
	// Awaited is set until the first answer, and the status waits for it for HeldFor.
	Awaited bool
	HeldFor time.Duration
	// JobPod is JobPodRefused, and Altered is PodsAltered, each nil if it stays as it was.
	JobPod, Altered *metav1.Condition
	// JobPodOptional is set if jobs run without a pod of their own, too.
	JobPodOptional bool
}

// Trials makes the dry runs.
type Trials struct {
	client client.Client
	// reader reads ConfigMaps with templates of job pods, which no cache has.
	reader client.Reader
	// calls have the last dry run for each AutoscalingRunnerSet. An error is the API server's answer: about the runner's
	// pod, or, as a jobPodError, about the job's.
	calls *pool.Calls[types.NamespacedName, podtrial.Difference]
}

// NewTrials returns Trials that run in the pool. wake is called with the set's name when a dry run has ended.
func NewTrials(c client.Client, reader client.Reader, workers *pool.Pool, clk clock.PassiveClock,
	wake func(types.NamespacedName)) *Trials {
	return &Trials{client: c, reader: reader,
		calls: pool.NewCalls[types.NamespacedName, podtrial.Difference](workers, clk, wake)}
}

// Forget drops what is known of a set that is gone.
func (t *Trials) Forget(set types.NamespacedName) { t.calls.Forget(set) }

// Question asks whether the pods of a set's template would be admitted.
type Question struct {
	Set *v1alpha1.AutoscalingRunnerSet
	// Pod is a pod as one of its runners would get.
	Pod *corev1.Pod
	// SpecHash identifies the runner spec that the EphemeralRunnerSet has to have.
	SpecHash string
	// PodsForbidden is set while the set's runners report that their pods are forbidden.
	PodsForbidden bool
	Now           time.Time
}

// Try finds out whether the API server would admit the pod: from the last dry run, which it starts if one is due, and
// from what is seen of real pods. again is told when to ask next. It fails only if the cache does.
func (t *Trials) Try(ctx context.Context, q Question, m *Memory, again *reconcile.Earliest) (Verdict, error) {
	set := client.ObjectKeyFromObject(q.Set)
	if hash := kube.Hash(q.Pod); m.tried != hash {
		t.calls.Forget(set)
		isCurrent := q.Set.Status.ObservedGeneration == q.Set.Generation && q.Set.Status.RunnerSpecHash == q.SpecHash
		*m = Memory{tried: hash, settled: m.tried == "" && isCurrent && !WasChecking(q.Set)}
	}
	last, known := t.calls.Last(set)
	if known && !last.Running() {
		m.settled = true
	}
	if m.concernsPods(last.Err, q) {
		if err := t.lookAtPods(ctx, q, m, again); err != nil {
			return Verdict{}, err
		}
	}
	switch wait, due := m.trialDue(last, known, q.Now); {
	case due && wait > 0:
		again.After(wait)
	case due:
		t.calls.Go(set.String(), set, func(ctx context.Context) (podtrial.Difference, error) {
			return t.try(ctx, q.Pod)
		})
		last, _ = t.calls.Last(set)
	}
	verdict := m.judge(last, q.Set, q.Now)
	verdict.Reached = true
	hooks := podtrial.HooksOf(q.Pod)
	verdict.JobPodOptional = hooks == nil || !hooks.Required
	if !last.Running() {
		verdict.JobPod, verdict.Altered = m.judgeJob(last, q.Set), altered(last, q.Set)
	}
	return verdict, nil
}

// concernsPods reports whether real pods may correct what is known: something was refused, or is.
func (m *Memory) concernsPods(answer error, q Question) bool {
	_, refused := refusesRunner(answer)
	_, jobRefused := refusesJob(answer)
	return refused || jobRefused || !m.refusedSince.IsZero() || wasRefused(q.Set) != nil || q.PodsForbidden
}

// WasChecking reports whether the status waits for the first answer about a template.
func WasChecking(set *v1alpha1.AutoscalingRunnerSet) bool {
	ready := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionReady)
	return ready != nil && ready.Reason == ReasonChecking
}

// try sends the runner's pod as a dry run, and then the job's if it has one, and returns what became of them on their
// way.
func (t *Trials) try(ctx context.Context, pod *corev1.Pod) (podtrial.Difference, error) {
	if kube.Container(&pod.Spec, v1alpha1.RunnerContainerName) == nil {
		return podtrial.Difference{}, errNoRunnerContainer
	}
	ctx, cancel := context.WithTimeout(ctx, trialTimeout)
	defer cancel()
	hooks, answered := podtrial.HooksOf(pod), pod.DeepCopy()
	if err := t.send(ctx, answered); err != nil {
		return podtrial.Difference{}, err
	}
	difference, err := podtrial.Compare(pod, answered, hooks != nil)
	if err == nil {
		err = t.tryClaims(ctx, pod)
	}
	if err != nil || hooks == nil {
		return difference, err
	}
	ofJob, err := t.tryJob(ctx, hooks, pod)
	difference.Append("of the job's pod: ", ofJob)
	return difference, err
}

// send sends a pod as a dry run; the API server's answer replaces it. That a quota is full is the last thing an API
// server finds: everything else has admitted the pod.
func (t *Trials) send(ctx context.Context, pod client.Object) error {
	err := t.client.Create(ctx, pod, client.DryRunAll)
	if kube.IsQuotaExceeded(err) {
		return nil
	}
	return err
}

// refusesRunner returns the reason if the outcome of a trial means that no runner's pod is admitted until somebody
// changes something.
func refusesRunner(err error) (reason string, refuses bool) {
	var ofJob *jobPodError
	switch {
	case errors.Is(err, errNoRunnerContainer):
		return v1alpha1.ReasonInvalidPod, true
	case errors.As(err, &ofJob):
		return "", false
	}
	return podtrial.Refuses(err)
}

// trialDue reports whether another dry run is wanted, and after what time.
func (m *Memory) trialDue(last pool.Call[podtrial.Difference], known bool, now time.Time) (wait time.Duration, due bool) {
	switch {
	case !known:
		return 0, true
	case last.Running():
		return 0, false // its end brings a pass
	case m.doubts(last):
		return last.Finished.Add(trialBasePause).Sub(now), true
	case last.Err == nil, podtrial.WithoutDryRun(last.Err), m.admittedAt.After(last.Finished),
		m.jobAdmittedAt.After(last.Finished):
		return 0, false
	}
	return last.Finished.Add(reconcile.Backoff(trialBasePause, trialLongestBackoff, last.Failures)).Sub(now), true
}

// doubts reports whether runners have been refused since the last dry run, and none was admitted after that.
func (m *Memory) doubts(last pool.Call[podtrial.Difference]) bool {
	return m.seenRefusedAt.After(kube.LaterOf(last.Finished, m.admittedAt))
}

// lookAtPods remembers which runners of the template have seen their pods forbidden, and whether a pod has been
// admitted meanwhile. It reads the cache, and only while something looks refused.
func (t *Trials) lookAtPods(ctx context.Context, q Question, m *Memory, again *reconcile.Earliest) error {
	mine := client.MatchingLabels{v1alpha1.LabelScaleSetName: q.Set.Name,
		v1alpha1.LabelScaleSetNamespace: q.Set.Namespace}
	var pods corev1.PodList
	var runners v1alpha1.EphemeralRunnerList
	for _, list := range []client.ObjectList{&pods, &runners} {
		if err := t.client.List(ctx, list, client.InNamespace(q.Set.Namespace), mine,
			client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list pods and runners of the set: %w", err)
		}
	}
	template, first := q.Pod.Annotations[v1alpha1.AnnotationRunnerSpecHash], m.newest.IsZero()
	for i := range pods.Items {
		pod := &pods.Items[i]
		m.seeJobPod(pod, first, q.Now)
		if pod.Annotations[v1alpha1.AnnotationRunnerSpecHash] != template || !m.newest.Before(&pod.CreationTimestamp) {
			continue
		}
		m.newest = pod.CreationTimestamp
		if !first {
			m.admittedAt = q.Now
		}
	}
	if first && m.newest.IsZero() {
		m.newest = metav1.Unix(1, 0) // there are none: the first one counts
	}
	m.rememberRefused(runners.Items, template, q.Now)
	if wait := m.refusedSince.Add(refusedGrace).Sub(q.Now); wait > 0 {
		// from then on the next dry run brings a pass, and so does the runner set, which counts its runners
		again.After(wait)
	}
	return nil
}

// seeJobPod remembers when a pod of a job was first seen that is newer than all before. Those of the first look may be
// older than what refuses them now.
func (m *Memory) seeJobPod(pod *corev1.Pod, first bool, now time.Time) {
	if !kube.IsJobPod(pod) || !m.newestJob.Before(&pod.CreationTimestamp) {
		return
	}
	m.newestJob = pod.CreationTimestamp
	if !first {
		m.jobAdmittedAt = now
	}
}

// rememberRefused remembers the time since which runners of the template have been refused without one being admitted.
func (m *Memory) rememberRefused(runners []v1alpha1.EphemeralRunner, template string, now time.Time) {
	var oldest *v1alpha1.EphemeralRunner
	for i := range runners {
		r := &runners[i]
		refused := r.Status.Reason == v1alpha1.ReasonPodForbidden && !r.Status.Done() && r.DeletionTimestamp == nil
		if refused && r.Annotations[v1alpha1.AnnotationRunnerSpecHash] == template &&
			(oldest == nil || kube.NewestFirst(oldest, r) < 0) {
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
	if c := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionPodTemplateRefused); c != nil &&
		c.Status == metav1.ConditionTrue {
		return c
	}
	return nil
}

// judge returns the verdict that follows from the last dry run and from what was seen of real pods.
func (m *Memory) judge(last pool.Call[podtrial.Difference], set *v1alpha1.AutoscalingRunnerSet, now time.Time) Verdict {
	const conditionType = v1alpha1.ConditionPodTemplateRefused
	reason, refused := refusesRunner(last.Err)
	switch {
	case !m.refusedSince.IsZero() && now.Sub(m.refusedSince) >= refusedGrace:
		message := "for a minute or longer no runner has got a pod: " + report.Abridged(m.refusal)
		return Verdict{Condition: new(report.True(conditionType, v1alpha1.ReasonPodForbidden, message)), Lasting: true}
	case last.Running() && !m.settled:
		return Verdict{Awaited: true, HeldFor: last.Started.Add(holdTimeout).Sub(now)}
	case last.Running():
		return Verdict{}
	case refused && last.Finished.After(m.admittedAt):
		before := wasRefused(set)
		// The condition was written up to two seconds after the first refusal: the status is written every second at
		// most, and times of the API have whole seconds.
		lasting := IsStalled(set, reason) ||
			(before != nil && last.Finished.Sub(before.LastTransitionTime.Time) >= refusedGrace-2*time.Second)
		return Verdict{
			Condition: new(report.True(conditionType, reason, refusedMessage(last.Err, set.Namespace))),
			Lasting:   lasting,
		}
	case m.doubts(last), meta.FindStatusCondition(set.Status.Conditions, conditionType) == nil:
		return Verdict{}
	}
	return Verdict{Condition: new(report.False(conditionType, "PodsAdmitted",
		"nothing but a ResourceQuota keeps the API server from admitting the runners' pods"))}
}

// IsStalled reports whether the status says that the refusal won't pass by itself.
func IsStalled(set *v1alpha1.AutoscalingRunnerSet, reason string) bool {
	c := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionStalled)
	return wasRefused(set) != nil && c != nil && c.Status == metav1.ConditionTrue && c.Reason == reason
}

// refusedMessage says why no runner can start, and who can change that.
func refusedMessage(refusal error, namespace string) string {
	if errors.Is(refusal, errNoRunnerContainer) {
		return refusal.Error()
	}
	return fmt.Sprintf("no runner can start, as a dry run of its pod shows: %s: correct spec.template of the "+
		"AutoscalingRunnerSet, or have whoever administers namespace %s change what forbids it; it is tried again "+
		"every few minutes", report.Abridged(refusal.Error()), namespace)
}
