package autoscalingrunnerset

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/listenertemplate"
)

// Reasons of conditions.
const (
	reasonReady                = "Ready"
	reasonProtected            = "Protected"
	reasonRegistered           = "Registered"
	reasonRegistering          = "Registering"
	reasonAccepted             = "Accepted"
	reasonRead                 = "Read"
	reasonLabelsAccepted       = "LabelsAccepted"
	reasonListening            = "Listening"
	reasonListenerStarting     = "ListenerStarting"
	reasonWaitingForScaleSet   = "WaitingForScaleSet"
	reasonWaitingForRunnerSets = "WaitingForRunnerSets"
	reasonChecking             = "CheckingCredentials"
)

// conditionsOf returns the conditions whose status the pass knows. The others keep their status, so that the check on GitHub every
// few minutes, or a failure of it, doesn't make them flicker.
func conditionsOf(p *pass, version string) []metav1.Condition {
	conditions := []metav1.Condition{versionCondition(p.set.Labels, version), templateCondition(p.accepted.Refused), listenerCondition(p)}
	for _, optional := range []*metav1.Condition{
		credentialsCondition(p), registeredCondition(p), labelsCondition(p),
		runnersCondition(p, v1alpha1.ConditionDegraded), runnersCondition(p, v1alpha1.ConditionRunnerOutdated),
		runnersCondition(p, v1alpha1.ConditionQuotaExceeded), runnersCondition(p, v1alpha1.ConditionRunnersPending),
		runnersCondition(p, v1alpha1.ConditionStatisticsDoubtful), protectionCondition(p), blockedCondition(p),
		p.template.condition,
	} {
		if optional != nil {
			conditions = append(conditions, *optional)
		}
	}
	return conditions
}

// answered reports whether GitHub has answered the request that the present spec and credentials make.
func (p *pass) answered() bool { return p.asked && !p.lastSync.Running() }

// credentialsCondition distinguishes between reading the credentials, from Kubernetes, and having them accepted, by GitHub. It
// returns nil until one of them has been tried.
func credentialsCondition(p *pass) *metav1.Condition {
	const conditionType = v1alpha1.ConditionCredentialsValid
	var condition metav1.Condition
	switch {
	case credentials.IsUserError(p.obstacle):
		condition = report.False(conditionType, credentials.Reason(p.obstacle), p.obstacle.Error())
	case p.answered() && refusedByUs(p.lastSync.Err) != "":
		condition = report.False(conditionType, refusedByUs(p.lastSync.Err), abridged(p.lastSync.Err.Error()))
	case p.answered() && errors.Is(p.lastSync.Err, actions.ErrUnauthorized):
		condition = report.False(conditionType, failureReason(p.lastSync.Err), p.lastSync.Err.Error())
	case p.answered() && (p.lastSync.Err == nil || rejectsDesired(p.lastSync.Err)):
		condition = report.True(conditionType, reasonAccepted, "")
	case p.requestHash != "" && p.unreadBefore():
		condition = report.Unknown(conditionType, reasonRead, "the credentials were read; GitHub has neither accepted nor refused them yet")
	case !p.credentialsKnown && p.outdated(conditionType):
		condition = report.Unknown(conditionType, reasonChecking, "GitHub has neither accepted nor refused the credentials of the present spec yet"+p.whyUnanswered())
	default:
		return nil
	}
	return &condition
}

// refusedByUs returns the reason why the credentials were not sent on, "" if they were: the address may not be used, or leads away
// from TLS before GitHub has accepted the credentials. What leads away from TLS later concerns the registration only.
func refusedByUs(err error) string {
	insecure, leadsAway := errors.AsType[*actions.InsecureRedirectError](err)
	connecting := []string{actions.EndpointInstallationToken, actions.EndpointRegistrationToken, actions.EndpointRegister}
	switch {
	case credentials.Reason(err) == v1alpha1.ReasonAddressNotAllowed:
		return v1alpha1.ReasonAddressNotAllowed
	case leadsAway && slices.Contains(connecting, insecure.Endpoint):
		return v1alpha1.ReasonInsecureRedirect
	}
	return ""
}

// rejectsDesired reports whether GitHub has accepted the credentials but rejected the scale set that was requested with them.
func rejectsDesired(err error) bool {
	reason := failureReason(err)
	return reason == v1alpha1.ReasonRunnerGroupNotFound || reason == v1alpha1.ReasonScaleSetInUse || reason == v1alpha1.ReasonRefusedByGitHub
}

// unreadBefore reports whether the status still says that the credentials could not be read, which is outdated as soon as they are.
func (p *pass) unreadBefore() bool {
	previous := meta.FindStatusCondition(p.set.Status.Conditions, v1alpha1.ConditionCredentialsValid)
	return previous != nil && slices.Contains(credentials.Reasons, previous.Reason)
}

// registeredCondition returns nil if nothing new is known about the registration.
func registeredCondition(p *pass) *metav1.Condition {
	const conditionType = v1alpha1.ConditionScaleSetRegistered
	_, tooLong := errors.AsType[*nameTooLongError](p.obstacle)
	var condition metav1.Condition
	switch {
	case p.deleting() && p.registration == nil && !p.searching && !p.creating:
		condition = report.False(conditionType, "Deregistered", "the scale set is no longer on GitHub, or its deletion was given up")
	case p.deleting():
		return nil
	case tooLong:
		condition = report.False(conditionType, v1alpha1.ReasonNameTooLong, p.obstacle.Error())
	case p.desired.URL == "" && p.obstacle != nil:
		condition = report.False(conditionType, v1alpha1.ReasonInvalidConfigURL, p.obstacle.Error())
	case p.answered() && p.unrecorded():
		return unrecordedCondition(p)
	case p.answered():
		return answerCondition(p)
	case p.registration == nil && !p.refusedBefore():
		condition = unanswered(p)
	case p.scaleSetInQuestion():
		condition = report.Unknown(conditionType, reasonRegistering, "GitHub has not answered to the changed spec yet")
	default:
		return nil
	}
	return &condition
}

// scaleSetInQuestion reports whether GitHub has yet to answer to a changed spec of a scale set that it has.
func (p *pass) scaleSetInQuestion() bool {
	return p.registeredHere() && p.requestHash != "" && !p.scaleSetKnown && p.outdated(v1alpha1.ConditionScaleSetRegistered)
}

// silentAfter is how long GitHub may take to answer a first call before the condition says that there is no answer. The call times
// out after 30 s, and a user wants to know sooner what to check. An ordinary answer takes a second or two, and a connection that is
// refused five times fails after about 15 s.
const silentAfter = 20 * time.Second

// unanswered returns the condition before GitHub's first answer.
func unanswered(p *pass) metav1.Condition {
	const conditionType, reason = v1alpha1.ConditionScaleSetRegistered, v1alpha1.ReasonGitHubUnavailable
	if !p.asked && p.failure != nil {
		return report.Unknown(conditionType, v1alpha1.ReasonReconcileFailed, "GitHub could not be asked: "+report.WithAdvice(p.failure))
	}
	if p.asked && p.now.Sub(p.lastSync.Started) >= silentAfter {
		return report.False(conditionType, reason, fmt.Sprintf("%s has not answered for %s%s", p.desired.URL, silentAfter, nextSteps[reason]))
	}
	if p.obstacle != nil {
		return report.Unknown(conditionType, reasonRegistering, "GitHub can't be asked without credentials: see CredentialsValid")
	}
	return report.Unknown(conditionType, reasonRegistering, "GitHub has not answered yet")
}

// refusedBefore reports whether the status already says that the present spec could not be registered. That stays true until
// another attempt is answered.
func (p *pass) refusedBefore() bool {
	previous := meta.FindStatusCondition(p.set.Status.Conditions, v1alpha1.ConditionScaleSetRegistered)
	return previous != nil && previous.Status == metav1.ConditionFalse && previous.ObservedGeneration == p.set.Generation
}

// unrecorded reports whether the answer has a registration that could not be written to the set's annotations.
func (p *pass) unrecorded() bool {
	return p.lastSync.Err == nil && (p.registration == nil || *p.registration != *p.lastSync.Result.registration())
}

// unrecordedCondition returns nil if the write only needs to be repeated on a newer object.
func unrecordedCondition(p *pass) *metav1.Condition {
	if p.failure == nil {
		return nil
	}
	condition := report.Unknown(v1alpha1.ConditionScaleSetRegistered, v1alpha1.ReasonReconcileFailed, fmt.Sprintf(
		"GitHub has scale set %d, but the set's annotations could not be changed: %s", p.lastSync.Result.set.ID, report.WithAdvice(p.failure)))
	return &condition
}

// answerCondition returns what GitHub's answer means for the registration, nil if the call failed in a way that leaves an existing
// registration valid.
func answerCondition(p *pass) *metav1.Condition {
	err := p.lastSync.Err
	condition := report.True(v1alpha1.ConditionScaleSetRegistered, reasonRegistered, "")
	switch {
	case err == nil:
		condition.Message = fmt.Sprintf("scale set %d in runner group %q", p.registration.ID, p.registration.Group)
	case p.matchesDesired() && !isFinal(err):
		return nil
	default:
		reason := failureReason(err)
		condition = report.False(v1alpha1.ConditionScaleSetRegistered, reason, abridged(err.Error())+nextSteps[reason])
	}
	return &condition
}

// maxQuoted is how many characters of somebody else's text a message quotes: half of what a message may have, so that the next
// step, which comes last, is never cut off.
const maxQuoted = 512

// abridged cuts the middle out of a text that is longer than maxQuoted: it begins with what was tried and ends with the outcome.
func abridged(text string) string {
	runes := []rune(text)
	if len(runes) <= maxQuoted {
		return text
	}
	return string(runes[:maxQuoted/2]) + "…" + string(runes[len(runes)-maxQuoted/2:])
}

// nextSteps are added to messages that don't say what to do, by reason.
var nextSteps = map[string]string{
	v1alpha1.ReasonRunnerGroupNotFound: "; create it on GitHub, or correct runnerGroup",
	v1alpha1.ReasonGitHubUnavailable: "; it is tried again at least once a minute; check githubConfigUrl, proxy and githubServerTLS, " +
		"and that the cluster's network lets the manager and the listener reach GitHub",
	v1alpha1.ReasonRefusedByGitHub: "; correct what GitHub names",
}

func (p *pass) deleting() bool { return p.set.DeletionTimestamp != nil }

// matchesDesired reports whether the scale set, as GitHub last returned it, is as the spec wants it. Then a failing check doesn't
// affect the registration, and the listener reports whether GitHub can be reached.
func (p *pass) matchesDesired() bool {
	r, d := p.registration, p.desired
	return r != nil && sameURL(r.URL, d.URL) && strings.EqualFold(r.Name, d.Name) && (d.Group == "" || strings.EqualFold(r.Group, d.Group))
}

// isFinal reports whether only a user can end the failure.
func isFinal(err error) bool {
	reason := failureReason(err)
	return slices.Contains([]string{
		v1alpha1.ReasonScaleSetInUse, v1alpha1.ReasonRunnerGroupNotFound, v1alpha1.ReasonAddressNotAllowed, v1alpha1.ReasonInsecureRedirect,
	}, reason)
}

// failureReason returns the condition reason for an error. Scripts and alerts rely on it.
func failureReason(err error) string {
	_, inUse := errors.AsType[*inUseError](err)
	_, limited := errors.AsType[*actions.RateLimitedError](err)
	_, insecure := errors.AsType[*actions.InsecureRedirectError](err)
	refusal, refused := actions.RefusalOf(err)
	answer, answered := errors.AsType[*actions.Error](err)
	switch {
	case inUse:
		return v1alpha1.ReasonScaleSetInUse
	case credentials.Reason(err) == v1alpha1.ReasonAddressNotAllowed:
		return v1alpha1.ReasonAddressNotAllowed
	case insecure:
		return v1alpha1.ReasonInsecureRedirect
	case errors.Is(err, actions.ErrRunnerGroupNotFound):
		return v1alpha1.ReasonRunnerGroupNotFound
	case limited:
		return v1alpha1.ReasonRateLimited
	case refused:
		return string(refusal.Class)
	case answered && answer.StatusCode < 500 && !errors.Is(err, actions.ErrForeignAnswer):
		return v1alpha1.ReasonRefusedByGitHub
	}
	return v1alpha1.ReasonGitHubUnavailable
}

// labelsCondition compares the labels with those in GitHub's answer, because GitHub drops labels silently.
func labelsCondition(p *pass) *metav1.Condition {
	if !p.answered() || p.lastSync.Err != nil {
		return nil
	}
	condition := report.True(v1alpha1.ConditionLabelsInSync, reasonLabelsAccepted, "")
	if dropped := missingLabels(p.lastSync.Result.set, p.desired.Labels); len(dropped) > 0 {
		condition = report.False(v1alpha1.ConditionLabelsInSync, v1alpha1.ReasonLabelsDropped, droppedMessage(p.desired, dropped))
	}
	return &condition
}

// droppedMessage says how jobs reach the scale set without the labels, and how it may get them. On GitHub Enterprise Server that depends
// on the version; github.com was seen to take further labels at the creation of a scale set and to leave them out of a later change.
func droppedMessage(desired desiredScaleSet, labels []string) string {
	message := fmt.Sprintf("GitHub did not accept the labels %s: until it does, only jobs with runs-on: %s alone reach the scale set; ", someOf(labels), desired.Name)
	if config, err := actions.ParseConfigURL(desired.URL); err == nil && config.Hosted {
		return message + "if they were added to a scale set that existed, uninstall it while no job is queued, and install it again: " +
			"GitHub may accept labels only when it creates a scale set; or remove them from scaleSetLabels"
	}
	return message + "scale sets have only one label before GitHub Enterprise Server 3.18, " +
		"and up to 3.20 unless DistributedTask.AllowRunnerScaleSetCustomLabels is enabled"
}

// someOf lists as many names as fit into maxQuoted, at least one.
func someOf(names []string) string {
	text, shown := "", 0
	for _, name := range names {
		if shown > 0 && len(text)+len(name) > maxQuoted {
			return fmt.Sprintf("%s and %d more", text, len(names)-shown)
		}
		if shown++; shown > 1 {
			text += ", "
		}
		text += name
	}
	return text
}

// templateCondition says what of the spec is not used in the manager's namespace, whose operator decides about that.
func templateCondition(refused listenertemplate.Refusals) metav1.Condition {
	const conditionType = v1alpha1.ConditionListenerTemplateAccepted
	if len(refused.First) == 0 {
		return report.True(conditionType, reasonAccepted, "")
	}
	message := fmt.Sprintf("the policy for listeners leaves out %s; the listener runs without them: remove them, "+
		"or ask the controller's operator to change flags.listenerTemplatePolicy or flags.listenerSidecarImages of its chart", refused.List(maxQuoted))
	for _, refusal := range refused.First {
		if refusal.Reason == listenertemplate.ReasonARCImage { // no policy allows it
			message += fmt.Sprintf(". Of %s: %s", refusal.Path, refusal.Reason)
		}
	}
	return report.False(conditionType, v1alpha1.ReasonFieldsRefused, message)
}

// listenerCondition returns what is wrong with the listener's pod or, if nothing is, what the listener reports.
func listenerCondition(p *pass) metav1.Condition {
	const conditionType = v1alpha1.ConditionListenerReady
	listener, runnerSet := p.listener(), p.runnerSet()
	if len(p.takenNames) > 0 {
		return report.False(conditionType, v1alpha1.ReasonListenerNameTaken, takenMessage(p.takenNames))
	}
	if listener == nil || runnerSet == nil {
		return report.False(conditionType, reasonWaitingForScaleSet, "there is no listener until the scale set is registered on GitHub; see ScaleSetRegistered")
	}
	pod := meta.FindStatusCondition(listener.Status.Conditions, v1alpha1.ConditionReady)
	said := runnerSet.Status.Listener
	switch {
	case pod == nil:
		return report.Unknown(conditionType, reasonListenerStarting, "the listener pod is being created")
	case pod.Status == metav1.ConditionFalse && pod.Reason == v1alpha1.ReasonListenerNameTaken:
		return report.False(conditionType, pod.Reason, pod.Message) // whatever the listener says follows from it
	case pod.Status != metav1.ConditionTrue && (said == nil || slices.Contains(untroubled, said.State)):
		return report.False(conditionType, pod.Reason, pod.Message)
	case said == nil:
		return report.Unknown(conditionType, reasonListenerStarting, "the listener has not reported yet")
	case said.State == v1alpha1.ListenerStateListening:
		return report.True(conditionType, reasonListening, said.Message)
	case said.State == v1alpha1.ListenerStateClosed && p.takesJobs():
		return report.Unknown(conditionType, reasonListenerStarting, "maxRunners is above 0 again; the listener opens its session within seconds, when its configuration has reached it")
	case said.State == v1alpha1.ListenerStateClosed:
		return report.True(conditionType, v1alpha1.ReasonMaxRunnersZero, said.Message)
	}
	reason := report.KnownReason(cmp.Or(said.Reason, string(said.State))) // a listener's reasons are all ours
	return report.False(conditionType, reason, said.Message+nextSteps[reason])
}

// untroubled are the states that say nothing about why a listener's pod isn't ready.
var untroubled = []v1alpha1.ListenerState{v1alpha1.ListenerStateListening, v1alpha1.ListenerStateClosed, v1alpha1.ListenerStateStopped}

// takenMessage names the listeners that are in the way, and who can remove them.
func takenMessage(names []string) string {
	return fmt.Sprintf("the AutoscalingListeners %s in the manager's namespace have the names that this set's listener could get, and belong to others; "+
		"whoever administers the manager finds out who created them, and deletes one: it is tried again every minute", strings.Join(names, " and "))
}

// blockedCondition returns nil if no object has ever been kept by finalizers of others.
func blockedCondition(p *pass) *metav1.Condition {
	const conditionType = v1alpha1.ConditionDeletionBlocked
	var condition metav1.Condition
	switch {
	case p.blocked != "":
		condition = report.True(conditionType, v1alpha1.ReasonForeignFinalizers, p.blocked)
	case meta.FindStatusCondition(p.set.Status.Conditions, conditionType) != nil:
		condition = report.False(conditionType, "NothingKept", "no object is kept by finalizers of others")
	default:
		return nil
	}
	return &condition
}

// runnersCondition returns a condition of the EphemeralRunnerSet, nil if there is none.
func runnersCondition(p *pass, conditionType string) *metav1.Condition {
	runnerSet := p.runnerSet()
	if runnerSet == nil {
		return nil
	}
	return meta.FindStatusCondition(runnerSet.Status.Conditions, conditionType)
}
