package autoscalingrunnerset

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// What a spec says that was changed counts only after GitHub has answered to it: whoever waits for Ready after an upgrade, as
// helm upgrade --wait does, waits for the credentials and the scale set of that upgrade. Until then conditions that were about an
// earlier generation become Unknown, whether they were good or bad. A credential that changes without the spec, as one that a program
// renews every hour does, keeps its condition until GitHub refuses it.

// refusedRereadPeriod is how often credentials are read while GitHub refuses them, because somebody may be about to replace them. The
// listener's controller has the same period, and they share the read.
const refusedRereadPeriod = 15 * time.Second

// mustReread reports whether the credentials are read whatever is remembered of them: the spec says that they have changed, or the set
// is new, and the Secret may have the name of one that was deleted with another set.
func (p *pass) mustReread() bool {
	if p.memory.revision == nil {
		return p.now.Sub(p.set.CreationTimestamp.Time) < credentials.RereadAfter
	}
	return *p.memory.revision != p.set.Spec.GitHubConfigSecretRevision
}

// credentialsHashOf returns a hash of where the credentials go, and of them. It is kept only in memory.
func credentialsHashOf(desired desiredScaleSet, resolved *credentials.Resolved) string {
	return kube.Hash(struct {
		URL      string
		Resolved *credentials.Resolved
	}{desired.URL, resolved})
}

// noteAnswer remembers what GitHub has accepted, so that a change of something else doesn't put it in question.
func (p *pass) noteAnswer() {
	err := p.lastSync.Err
	switch {
	case !p.answered():
	case err == nil:
		p.memory.accepted, p.memory.confirmed = p.credentialsHash, p.lastSync.Result.desiredHash
	case rejectsDesired(err):
		p.memory.accepted, p.memory.confirmed = p.credentialsHash, ""
	case errors.Is(err, actions.ErrUnauthorized) || refusedByUs(err) != "":
		p.memory.accepted = ""
	}
	p.credentialsKnown, p.scaleSetKnown = p.memory.accepted == p.credentialsHash, p.memory.confirmed == kube.Hash(p.desired)
}

// outdated reports whether a condition is about an earlier generation, or says already that the present one waits for an answer.
func (p *pass) outdated(conditionType string) bool {
	previous := meta.FindStatusCondition(p.set.Status.Conditions, conditionType)
	return previous != nil && p.obstacle == nil && !p.deleting() &&
		(previous.ObservedGeneration != p.set.Generation || previous.Reason == reasonChecking || previous.Reason == reasonRegistering)
}

// isRefused reports whether GitHub refuses the credentials, by the status.
func (p *pass) isRefused() bool {
	previous := meta.FindStatusCondition(p.set.Status.Conditions, v1alpha1.ConditionCredentialsValid)
	return previous != nil && previous.Status == metav1.ConditionFalse && actions.RefusalClass(previous.Reason).IsKnown()
}

// whyUnanswered says why GitHub has not accepted or refused the credentials, "" if there is nothing to say yet.
func (p *pass) whyUnanswered() string {
	switch {
	case p.answered() && p.lastSync.Err != nil:
		return ": " + abridged(p.lastSync.Err.Error())
	case p.failure != nil:
		return ": " + report.WithAdvice(p.failure)
	}
	return ""
}
