package conditions

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/causes"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/journal"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/scaleset"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/meaning"
)

// credentialsCondition distinguishes between reading the credentials, from Kubernetes, and having them accepted, by
// GitHub. It returns nil until one of them has been tried.
func credentialsCondition(f *Findings) *metav1.Condition {
	const conditionType = v1alpha1.ConditionCredentialsValid
	err := f.LastSync.Err
	switch {
	case credentials.IsUserError(f.Cause):
		return new(report.False(conditionType, causes.Of(f.Cause).Reason, f.Cause.Error()))
	case f.Answered() && scaleset.RefusedByUs(err) != "":
		return new(report.False(conditionType, scaleset.RefusedByUs(err), report.Abridged(err.Error())))
	case f.Answered() && errors.Is(err, actions.ErrUnauthorized):
		return new(report.False(conditionType, scaleset.FailureReason(err), err.Error()))
	case f.Answered() && (err == nil || scaleset.RejectsDesired(err)):
		return new(report.True(conditionType, reasonAccepted, ""))
	case f.RequestHash != "" && f.unreadBefore():
		return new(report.Unknown(conditionType, reasonRead,
			"the credentials were read; GitHub has neither accepted nor refused them yet"))
	case !f.CredentialsKnown && f.outdated(conditionType):
		return new(report.Unknown(conditionType, reasonChecking,
			"GitHub has neither accepted nor refused the credentials of the present spec yet"+f.whyUnanswered()))
	}
	return nil
}

// unreadBefore reports whether the status still says that the credentials could not be read, which is outdated as soon
// as they are.
func (f *Findings) unreadBefore() bool {
	previous := meta.FindStatusCondition(f.Set.Status.Conditions, v1alpha1.ConditionCredentialsValid)
	return previous != nil && slices.Contains(credentials.Reasons, previous.Reason)
}

// whyUnanswered says why GitHub has not accepted or refused the credentials, "" if there is nothing to say yet.
func (f *Findings) whyUnanswered() string {
	switch {
	case f.Answered() && f.LastSync.Err != nil:
		return ": " + report.Abridged(f.LastSync.Err.Error())
	case f.Failure != nil:
		return ": " + report.WithAdvice(f.Failure)
	}
	return ""
}

// CredentialsRefused reports whether GitHub refuses the credentials, by the status.
func (f *Findings) CredentialsRefused() bool {
	invalid := withStatus(f.Set.Status.Conditions, v1alpha1.ConditionCredentialsValid, metav1.ConditionFalse)
	return invalid != nil && actions.RefusalClass(invalid.Reason).IsKnown()
}

// A changed spec counts only after GitHub has answered to it: whoever waits for Ready after an upgrade, as helm upgrade
// --wait does, waits for the credentials and the scale set of that upgrade. Until then conditions that were about an
// earlier generation become Unknown, whether they were good or bad. A credential that changes without the spec, as one
// that a program renews every hour does, keeps its condition until GitHub refuses it.

// outdated reports whether a condition is about an earlier generation, or says already that the present one waits for
// an answer.
func (f *Findings) outdated(conditionType string) bool {
	previous := meta.FindStatusCondition(f.Set.Status.Conditions, conditionType)
	return previous != nil && f.Cause == nil && !f.Deleting() &&
		(previous.ObservedGeneration != f.Set.Generation || previous.Reason == reasonChecking ||
			previous.Reason == reasonRegistering)
}

// registeredCondition returns nil if nothing new is known about the registration.
func registeredCondition(f *Findings) *metav1.Condition {
	const conditionType = v1alpha1.ConditionScaleSetRegistered
	_, tooLong := errors.AsType[*scaleset.NameTooLongError](f.Cause)
	switch {
	case f.Deleting() && f.Registration == nil && !f.Searching && !f.Creating:
		return new(report.False(conditionType, "Deregistered",
			"the scale set is no longer on GitHub, or its deletion was given up"))
	case f.Deleting():
		return nil
	case tooLong:
		return new(report.False(conditionType, v1alpha1.ReasonNameTooLong, f.Cause.Error()))
	case !f.HasValidURL() && f.Cause != nil:
		return new(report.False(conditionType, v1alpha1.ReasonInvalidConfigURL, f.Cause.Error()))
	case f.Answered():
		return answerCondition(f)
	case f.Registration == nil && !f.refusedBefore():
		return new(unanswered(f))
	case f.scaleSetInQuestion():
		return new(report.Unknown(conditionType, reasonRegistering, "GitHub has not answered to the changed spec yet"))
	}
	return nil
}

// scaleSetInQuestion reports whether GitHub has yet to answer to a changed spec of a scale set that it has.
func (f *Findings) scaleSetInQuestion() bool {
	return f.RegisteredHere() && f.RequestHash != "" && !f.ScaleSetKnown &&
		f.outdated(v1alpha1.ConditionScaleSetRegistered)
}

// answerCondition says what GitHub's answer means for the registration, nil if the call failed in a way that leaves
// an existing registration valid, or if the answer only needs to be written to a newer object.
func answerCondition(f *Findings) *metav1.Condition {
	const conditionType = v1alpha1.ConditionScaleSetRegistered
	result, err := f.LastSync.Result, f.LastSync.Err
	switch {
	case err != nil:
	case f.Registration != nil && *f.Registration == *result.Registration():
		return new(report.True(conditionType, reasonRegistered,
			fmt.Sprintf("scale set %d in runner group %q", f.Registration.ID, f.Registration.Group)))
	case f.Failure != nil:
		return new(report.Unknown(conditionType, v1alpha1.ReasonReconcileFailed, fmt.Sprintf(
			"GitHub has scale set %d, but the set's annotations could not be changed: %s", result.Set.ID,
			report.WithAdvice(f.Failure))))
	default:
		return nil
	}
	reason := scaleset.FailureReason(err)
	if f.matchesDesired() && !slices.Contains(endedByUser, reason) {
		return nil
	}
	return new(report.False(conditionType, reason, report.Abridged(err.Error())+meaning.For(reason).Next()))
}

// endedByUser are the reasons of failures that only a user can end, even of a scale set that was registered before.
var endedByUser = []string{
	v1alpha1.ReasonScaleSetInUse, v1alpha1.ReasonRunnerGroupNotFound, v1alpha1.ReasonAddressNotAllowed,
	v1alpha1.ReasonInsecureRedirect,
}

// matchesDesired reports whether the scale set, as GitHub last returned it, is as the spec wants it. Then a failing
// check doesn't affect the registration, and the listener reports whether GitHub can be reached.
func (f *Findings) matchesDesired() bool {
	r, d := f.Registration, f.Desired
	return r != nil && journal.SameURL(r.URL, d.URL) && strings.EqualFold(r.Name, d.Name) &&
		(d.Group == "" || strings.EqualFold(r.Group, d.Group))
}

// SilentTimeout ends the wait for the answer to a first call: the condition then says that there is none. The call
// times out after 30 s, and a user wants to know sooner what to check. An ordinary answer takes a second or two, and a
// connection that is refused five times fails after about 15 s.
const SilentTimeout = 20 * time.Second

// unanswered returns the condition before GitHub's first answer.
func unanswered(f *Findings) metav1.Condition {
	const conditionType, reason = v1alpha1.ConditionScaleSetRegistered, v1alpha1.ReasonGitHubUnavailable
	switch {
	case !f.Asked && f.Failure != nil:
		return report.Unknown(conditionType, v1alpha1.ReasonReconcileFailed, "GitHub could not be asked: "+
			report.WithAdvice(f.Failure))
	case f.Asked && f.ObservedAt.Sub(f.LastSync.Started) >= SilentTimeout:
		return report.False(conditionType, reason,
			fmt.Sprintf("%s has not answered for %s%s", f.Desired.URL, SilentTimeout, meaning.For(reason).Next()))
	case f.Cause != nil:
		return report.Unknown(conditionType, reasonRegistering,
			"GitHub can't be asked without credentials: see CredentialsValid")
	}
	return report.Unknown(conditionType, reasonRegistering, "GitHub has not answered yet")
}

// refusedBefore reports whether the status already says that the present spec could not be registered. That stays true
// until another attempt is answered.
func (f *Findings) refusedBefore() bool {
	refused := withStatus(f.Set.Status.Conditions, v1alpha1.ConditionScaleSetRegistered, metav1.ConditionFalse)
	return refused != nil && refused.ObservedGeneration == f.Set.Generation
}

// labelsCondition compares the labels with those in GitHub's answer, because GitHub drops labels silently. It says how
// jobs reach the scale set without the labels, and how it may get them. On GitHub Enterprise Server that depends on the
// version; github.com was seen to take further labels at the creation of a scale set and to leave them out of a later
// change.
func labelsCondition(f *Findings) *metav1.Condition {
	if !f.Answered() || f.LastSync.Err != nil {
		return nil
	}
	dropped := scaleset.MissingLabels(f.LastSync.Result.Set, f.Desired.Labels)
	if len(dropped) == 0 {
		return new(report.True(v1alpha1.ConditionLabelsInSync, reasonLabelsAccepted, ""))
	}
	advice := "scale sets have only one label before GitHub Enterprise Server 3.18, " +
		"and up to 3.20 unless DistributedTask.AllowRunnerScaleSetCustomLabels is enabled"
	if config, err := actions.ParseConfigURL(f.Desired.URL); err == nil && config.Hosted {
		advice = "if they were added to a scale set that existed, uninstall it while no job is queued, and " +
			"install it again: GitHub may accept labels only when it creates a scale set; or remove them from " +
			"scaleSetLabels"
	}
	return new(report.False(v1alpha1.ConditionLabelsInSync, v1alpha1.ReasonLabelsDropped, fmt.Sprintf(
		"GitHub did not accept the labels %s: until it does, only jobs with runs-on: %s alone reach the scale set; %s",
		report.SomeOf(dropped), f.Desired.Name, advice)))
}
