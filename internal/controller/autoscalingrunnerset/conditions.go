package autoscalingrunnerset

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
)

// Reasons of conditions.
const (
	reasonReady                = "Ready"
	reasonRegistered           = "Registered"
	reasonRegistering          = "Registering"
	reasonAccepted             = "Accepted"
	reasonRead                 = "Read"
	reasonLabelsAccepted       = "LabelsAccepted"
	reasonListening            = "Listening"
	reasonListenerStarting     = "ListenerStarting"
	reasonWaitingForScaleSet   = "WaitingForScaleSet"
	reasonWaitingForRunnerSets = "WaitingForRunnerSets"
)

// conditionsOf returns what the pass can tell. What it can't tell stays as it was, so that a look at GitHub every few
// minutes, or one that fails, doesn't make the status flicker.
func conditionsOf(p *pass, version string) []kube.Condition {
	conditions := []kube.Condition{versionCondition(p.set.Labels, version), listenerCondition(p)}
	for _, optional := range []*kube.Condition{
		credentialsCondition(p), registeredCondition(p), labelsCondition(p),
		runnersCondition(p, v1alpha1.ConditionDegraded), runnersCondition(p, v1alpha1.ConditionRunnerOutdated),
		runnersCondition(p, v1alpha1.ConditionQuotaExceeded), runnersCondition(p, v1alpha1.ConditionRunnersPending),
	} {
		if optional != nil {
			conditions = append(conditions, *optional)
		}
	}
	return conditions
}

// answered says that GitHub has answered what the present spec and credentials ask for.
func (p *pass) answered() bool { return p.asked && !p.enrolment.Running() }

// credentialsCondition tells reading the credentials, which is Kubernetes' part, from having them accepted, which is
// GitHub's. It returns nil while neither has been tried.
func credentialsCondition(p *pass) *kube.Condition {
	const about = v1alpha1.ConditionCredentialsValid
	var missing *credentials.MissingError
	var unsupported *credentials.UnsupportedError
	var condition kube.Condition
	switch {
	case errors.As(p.obstacle, &missing):
		condition = kube.False(about, v1alpha1.ReasonCredentialsMissing, p.obstacle.Error())
	case errors.As(p.obstacle, &unsupported):
		condition = kube.False(about, v1alpha1.ReasonVaultUnsupported, p.obstacle.Error())
	case p.obstacle != nil && credentials.IsVerdict(p.obstacle):
		condition = kube.False(about, v1alpha1.ReasonCredentialsInvalid, p.obstacle.Error())
	case p.answered() && errors.Is(p.enrolment.Err, actions.ErrUnauthorized):
		condition = kube.False(about, v1alpha1.ReasonUnauthorized, p.enrolment.Err.Error())
	case p.answered() && (p.enrolment.Err == nil || isAboutTheWish(p.enrolment.Err)):
		condition = kube.True(about, reasonAccepted, "")
	case p.question != "" && p.unreadBefore():
		condition = kube.Unknown(about, reasonRead, "the credentials were read; GitHub has not judged them yet")
	default:
		return nil
	}
	return &condition
}

// isAboutTheWish says that GitHub has let the credentials pass and refused what was asked for with them.
func isAboutTheWish(err error) bool {
	reason := failureReason(err)
	return reason == v1alpha1.ReasonRunnerGroupNotFound || reason == v1alpha1.ReasonScaleSetInUse || reason == v1alpha1.ReasonRefusedByGitHub
}

// unreadBefore says that the status tells of credentials that could not be read, which is over when they are.
func (p *pass) unreadBefore() bool {
	said := meta.FindStatusCondition(p.set.Status.Conditions, v1alpha1.ConditionCredentialsValid)
	return said != nil && slices.Contains([]string{
		v1alpha1.ReasonCredentialsMissing, v1alpha1.ReasonCredentialsInvalid, v1alpha1.ReasonVaultUnsupported}, said.Reason)
}

// registeredCondition returns nil while there is no news about a registration that stands.
func registeredCondition(p *pass) *kube.Condition {
	const about = v1alpha1.ConditionScaleSetRegistered
	var tooLong *NameTooLongError
	var condition kube.Condition
	switch {
	case p.deleting() && p.registration == nil && !p.searching:
		condition = kube.False(about, "Deregistered", "the scale set is gone from GitHub, or was given up")
	case p.deleting():
		return nil
	case errors.As(p.obstacle, &tooLong):
		condition = kube.False(about, v1alpha1.ReasonNameTooLong, p.obstacle.Error())
	case p.wish.URL == "" && p.obstacle != nil:
		condition = kube.False(about, v1alpha1.ReasonInvalidConfigURL, p.obstacle.Error())
	case p.answered():
		return answerCondition(p)
	case p.registration == nil && !p.refusedBefore():
		condition = unanswered(p)
	default:
		return nil
	}
	return &condition
}

// silentAfter is how long GitHub may take to answer a first call before that is told. The call is given up after 30 s, by
// when a user wants to have read what to look at; an answer that is on its way takes a second or two, and a connection that
// is refused five times about 15 s.
const silentAfter = 20 * time.Second

// unanswered is what there is to say before GitHub's first answer.
func unanswered(p *pass) kube.Condition {
	const about, reason = v1alpha1.ConditionScaleSetRegistered, v1alpha1.ReasonGitHubUnavailable
	if !p.asked && p.failure != nil {
		return kube.Unknown(about, v1alpha1.ReasonReconcileFailed, "GitHub could not be asked: "+kube.WithAdvice(p.failure))
	}
	if p.asked && p.now.Sub(p.enrolment.Started) >= silentAfter {
		return kube.False(about, reason, fmt.Sprintf("%s has not answered for %s%s", p.wish.URL, silentAfter, nextSteps[reason]))
	}
	if p.obstacle != nil {
		return kube.Unknown(about, reasonRegistering, "GitHub can't be asked without credentials: see CredentialsValid")
	}
	return kube.Unknown(about, reasonRegistering, "GitHub has not answered yet")
}

// refusedBefore says that the present spec failed to be registered before: asking again is no news until there is an answer.
func (p *pass) refusedBefore() bool {
	said := meta.FindStatusCondition(p.set.Status.Conditions, v1alpha1.ConditionScaleSetRegistered)
	return said != nil && said.Status == metav1.ConditionFalse && said.ObservedGeneration == p.set.Generation
}

// answerCondition is what GitHub's answer says about the registration.
func answerCondition(p *pass) *kube.Condition {
	err := p.enrolment.Err
	condition := kube.True(v1alpha1.ConditionScaleSetRegistered, reasonRegistered, "")
	switch {
	case err == nil:
		condition.Message = fmt.Sprintf("scale set %d in runner group %q", p.registration.ID, p.registration.Group)
	case p.asWished() && !isFinal(err):
		return nil
	default:
		reason := failureReason(err)
		condition = kube.False(v1alpha1.ConditionScaleSetRegistered, reason, abridged(err.Error())+nextSteps[reason])
	}
	return &condition
}

// quoted is how many characters of what others wrote a message repeats: half of what a message may have, so that the next
// step, which comes last, is never cut off.
const quoted = 512

// abridged leaves out the middle of a text that is too long: what was done is at its beginning, what came of it at its end.
func abridged(text string) string {
	runes := []rune(text)
	if len(runes) <= quoted {
		return text
	}
	return string(runes[:quoted/2]) + "…" + string(runes[len(runes)-quoted/2:])
}

// nextSteps follow GitHub's words where those don't say what to do.
var nextSteps = map[string]string{
	v1alpha1.ReasonRunnerGroupNotFound: "; create it on GitHub, or correct runnerGroup",
	v1alpha1.ReasonGitHubUnavailable: "; it is tried again at least once a minute; check githubConfigUrl, proxy and githubServerTLS, " +
		"and that the cluster's network lets manager and listener reach it",
	v1alpha1.ReasonRefusedByGitHub: "; correct what GitHub names",
}

func (p *pass) deleting() bool { return p.set.DeletionTimestamp != nil }

// asWished says that the scale set was as the spec wants it when GitHub last said so: then a look that fails is no news
// about the registration, and the listener tells whether GitHub can be reached.
func (p *pass) asWished() bool {
	r, w := p.registration, p.wish
	return r != nil && sameURL(r.URL, w.URL) && strings.EqualFold(r.Name, w.Name) && (w.Group == "" || strings.EqualFold(r.Group, w.Group))
}

// isFinal tells failures that only a user can end.
func isFinal(err error) bool {
	var inUse *InUseError
	return errors.As(err, &inUse) || errors.Is(err, actions.ErrRunnerGroupNotFound)
}

// failureReason sums an error up in a word that scripts and alerts can go by.
func failureReason(err error) string {
	var inUse *InUseError
	var limited *actions.RateLimitedError
	var refused *actions.Error
	switch {
	case errors.As(err, &inUse):
		return v1alpha1.ReasonScaleSetInUse
	case errors.Is(err, actions.ErrRunnerGroupNotFound):
		return v1alpha1.ReasonRunnerGroupNotFound
	case errors.As(err, &limited):
		return v1alpha1.ReasonRateLimited
	case errors.Is(err, actions.ErrUnauthorized):
		return v1alpha1.ReasonUnauthorized
	case errors.As(err, &refused) && refused.StatusCode < 500 && !errors.Is(err, actions.ErrForeignAnswer):
		return v1alpha1.ReasonRefusedByGitHub
	}
	return v1alpha1.ReasonGitHubUnavailable
}

// labelsCondition goes by what GitHub answered: it drops labels without a word.
func labelsCondition(p *pass) *kube.Condition {
	if !p.answered() || p.enrolment.Err != nil {
		return nil
	}
	condition := kube.True(v1alpha1.ConditionLabelsInSync, reasonLabelsAccepted, "")
	if dropped := missingLabels(p.enrolment.Result.set, p.wish.Labels); len(dropped) > 0 {
		condition = kube.False(v1alpha1.ConditionLabelsInSync, v1alpha1.ReasonLabelsDropped, droppedMessage(dropped))
	}
	return &condition
}

// droppedMessage names the versions from which scale sets have several labels.
func droppedMessage(labels []string) string {
	return fmt.Sprintf("GitHub did not take the labels %s; scale sets have one label before GitHub Enterprise Server 3.18, "+
		"and up to 3.20 unless DistributedTask.AllowRunnerScaleSetCustomLabels is enabled", someOf(labels))
}

// someOf lists as many names as there is room for, one at least.
func someOf(names []string) string {
	text, shown := "", 0
	for _, name := range names {
		if shown > 0 && len(text)+len(name) > quoted {
			return fmt.Sprintf("%s and %d more", text, len(names)-shown)
		}
		if shown++; shown > 1 {
			text += ", "
		}
		text += name
	}
	return text
}

// listenerCondition is the pod's trouble where there is some, else what the listener says of itself.
func listenerCondition(p *pass) kube.Condition {
	const about = v1alpha1.ConditionListenerReady
	listener, runnerSet := p.listener(), p.runnerSet()
	if listener == nil || runnerSet == nil {
		return kube.False(about, reasonWaitingForScaleSet, "there is no listener while there is no scale set on GitHub; see ScaleSetRegistered")
	}
	pod := meta.FindStatusCondition(listener.Status.Conditions, v1alpha1.ConditionReady)
	said := runnerSet.Status.Listener
	switch {
	case pod == nil:
		return kube.Unknown(about, reasonListenerStarting, "the listener pod is being made")
	case pod.Status != metav1.ConditionTrue && (said == nil || said.State == v1alpha1.ListenerStateListening || said.State == v1alpha1.ListenerStateStopped):
		return kube.False(about, pod.Reason, pod.Message)
	case said == nil:
		return kube.Unknown(about, reasonListenerStarting, "the listener has not reported yet")
	case said.State == v1alpha1.ListenerStateListening:
		return kube.True(about, reasonListening, said.Message)
	}
	reason := said.Reason
	if reason == "" {
		reason = string(said.State)
	}
	return kube.False(about, reason, said.Message+nextSteps[reason])
}

// runnersCondition repeats a condition of the EphemeralRunnerSet.
func runnersCondition(p *pass, about string) *kube.Condition {
	runnerSet := p.runnerSet()
	if runnerSet == nil {
		return nil
	}
	found := meta.FindStatusCondition(runnerSet.Status.Conditions, about)
	if found == nil {
		return nil
	}
	return &kube.Condition{Type: about, Status: found.Status, Reason: found.Reason, Message: found.Message}
}

// summary sums up as kstatus understands it: Ready, or on the way there, or stuck until somebody changes something. The
// first thing in the order of the flow that isn't as it should be names the reason.
func summary(p *pass, conditions []metav1.Condition) []kube.Condition {
	if p.deleting() {
		reason, message := p.stage()
		return p.waiting(reason, message)
	}
	if c := unregistered(conditions); c != nil {
		return kube.UnreadyStates(c.Reason, c.Message, needsUser(c.Reason))
	}
	if !p.registeredHere() || !p.hasRunnerSet() {
		return p.waiting(reasonWaitingForRunnerSets, p.awaitedRunnerSet())
	}
	return p.runs(conditions)
}

// awaitedRunnerSet says what stands before the EphemeralRunnerSet, which can be a job of hours.
func (p *pass) awaitedRunnerSet() string {
	deleted := p.runnerSet()
	if !p.registeredHere() || deleted == nil {
		return "the EphemeralRunnerSet is being made"
	}
	return fmt.Sprintf("EphemeralRunnerSet %s was deleted; no runner is made until %d busy runners of it have finished their jobs (of %d that are left)",
		deleted.Name, deleted.Status.BusyRunners, deleted.Status.CurrentReplicas)
}

// unregistered is what keeps the set from being on GitHub; what is known comes before what is not.
func unregistered(conditions []metav1.Condition) *metav1.Condition {
	for _, status := range []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionUnknown} {
		for _, about := range []string{v1alpha1.ConditionCredentialsValid, v1alpha1.ConditionScaleSetRegistered} {
			if c := meta.FindStatusCondition(conditions, about); c != nil && c.Status == status {
				return c
			}
		}
	}
	return nil
}

// runs sums up a set whose parts are all there.
func (p *pass) runs(conditions []metav1.Condition) []kube.Condition {
	if message := p.refusal(); message != "" {
		return kube.UnreadyStates(v1alpha1.ReasonReconcileFailed, message, false)
	}
	for _, about := range []string{v1alpha1.ConditionRunnerOutdated, v1alpha1.ConditionDegraded} {
		if c := meta.FindStatusCondition(conditions, about); c != nil && c.Status == metav1.ConditionTrue {
			// A new image ends the one, the runners' own luck may end the other.
			return kube.UnreadyStates(c.Reason, c.Message, about == v1alpha1.ConditionRunnerOutdated)
		}
	}
	if c := meta.FindStatusCondition(conditions, v1alpha1.ConditionListenerReady); c != nil && c.Status != metav1.ConditionTrue {
		return p.waiting(c.Reason, c.Message)
	}
	return kube.ReadyStates(p.unhindered(conditions))
}

// refusal says what the API server refuses, and will refuse again: what runs is not what the spec asks for. It is empty where
// a request just failed, which passes. A pass that didn't come as far as the refused request takes nothing back.
func (p *pass) refusal() string {
	said := meta.FindStatusCondition(p.set.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case apierrors.HasStatusCause(p.failure, corev1.NamespaceTerminatingCause):
		return "" // all of the namespace goes
	case apierrors.IsInvalid(p.failure), apierrors.IsBadRequest(p.failure), apierrors.IsForbidden(p.failure):
		return kube.WithAdvice(p.failure)
	case p.cutShort && said != nil && said.Reason == v1alpha1.ReasonReconcileFailed:
		return said.Message
	}
	return ""
}

// unhindered returns reason and message of a set that is ready: why there are not more runners, where that is not for
// want of jobs.
func (p *pass) unhindered(conditions []metav1.Condition) (reason, message string) {
	for _, about := range []string{v1alpha1.ConditionQuotaExceeded, v1alpha1.ConditionRunnersPending} {
		if c := meta.FindStatusCondition(conditions, about); c != nil && c.Status == metav1.ConditionTrue {
			if about == v1alpha1.ConditionQuotaExceeded {
				return v1alpha1.ReasonQuotaExceeded, c.Message
			}
			return c.Reason, c.Message
		}
	}
	spec := &p.runnerSet().Spec
	switch {
	case spec.MaxRunners == nil || spec.AssignedJobs < *spec.MaxRunners:
		return reasonReady, "" // also where the idle runners of minRunners have no room: no job waits for them
	case *spec.MaxRunners == 0:
		return v1alpha1.ReasonMaxRunnersZero, "maxRunners is 0: no job is taken; raise maxRunners to run jobs"
	}
	return v1alpha1.ReasonMaxRunnersReached, fmt.Sprintf(
		"maxRunners of %d is reached: further jobs wait on GitHub until a runner is free; raise maxRunners to run more at a time", *spec.MaxRunners)
}

// waiting are the states of a set that is on its way, or is held up by a request that failed.
func (p *pass) waiting(reason, message string) []kube.Condition {
	if p.failure != nil {
		return kube.UnreadyStates(v1alpha1.ReasonReconcileFailed, kube.WithAdvice(p.failure), false)
	}
	return kube.UnreadyStates(reason, message, false)
}

// needsUser says that waiting won't help.
func needsUser(reason string) bool {
	return slices.Contains([]string{
		v1alpha1.ReasonInvalidConfigURL, v1alpha1.ReasonCredentialsMissing, v1alpha1.ReasonCredentialsInvalid, v1alpha1.ReasonVaultUnsupported, v1alpha1.ReasonUnauthorized,
		v1alpha1.ReasonRunnerGroupNotFound, v1alpha1.ReasonScaleSetInUse, v1alpha1.ReasonRefusedByGitHub, v1alpha1.ReasonNameTooLong,
	}, reason)
}
