package report

import (
	"cmp"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// True returns a condition that holds.
func True(conditionType, reason, message string) metav1.Condition {
	return metav1.Condition{Type: conditionType, Status: metav1.ConditionTrue, Reason: reason, Message: message}
}

// False returns a condition that does not hold.
func False(conditionType, reason, message string) metav1.Condition {
	return metav1.Condition{Type: conditionType, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// Unknown returns a condition of which nothing is known yet.
func Unknown(conditionType, reason, message string) metav1.Condition {
	return metav1.Condition{Type: conditionType, Status: metav1.ConditionUnknown, Reason: reason, Message: message}
}

// reasonDone is the reason for Progressing and Stalled to be False: the object is ready.
const reasonDone = "Done"

// Ready returns the conditions that kstatus evaluates, for an object that is as its spec asks for.
func Ready(reason, message string) []metav1.Condition {
	return []metav1.Condition{
		True(v1alpha1.ConditionReady, reason, message),
		False(v1alpha1.ConditionProgressing, reasonDone, ""),
		False(v1alpha1.ConditionStalled, reasonDone, ""),
	}
}

// Unready returns the same conditions for an object that is not: it is on its way or, if stalled, stays as it is until
// somebody changes something.
func Unready(reason, message string, stalled bool) []metav1.Condition {
	ready := False(v1alpha1.ConditionReady, reason, message)
	if stalled {
		return []metav1.Condition{
			ready, False(v1alpha1.ConditionProgressing, reason, ""), True(v1alpha1.ConditionStalled, reason, message),
		}
	}
	return []metav1.Condition{
		ready, True(v1alpha1.ConditionProgressing, reason, message), False(v1alpha1.ConditionStalled, reason, ""),
	}
}

// maxMessage is the longest message in bytes. The schema allows 32,768 characters, but a pod's own message, repeated in
// every status, should not make objects large.
const maxMessage = 1024

// SetConditions sets conditions as of now and for the generation, and reports whether anything but the generation
// changed. The transition time of a condition changes only with its status.
func SetConditions(conditions *[]metav1.Condition, generation int64, now time.Time, set ...metav1.Condition) bool {
	changed := false
	for _, c := range set {
		before := meta.FindStatusCondition(*conditions, c.Type)
		c.Reason, c.Message = validReason(c.Reason), Truncate(c.Message, maxMessage)
		c.ObservedGeneration, c.LastTransitionTime = generation, metav1.NewTime(now)
		changed = changed || before == nil || before.Status != c.Status || before.Reason != c.Reason ||
			before.Message != c.Message
		meta.SetStatusCondition(conditions, c)
	}
	return changed
}

// maxReason is the longest reason, in characters, that an Event may have; a condition's may be longer.
const maxReason = 128

// lettersAndDigits are those of ASCII.
const lettersAndDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

// validReason turns a text into a word that the schema of conditions accepts. Many reasons come from schedulers,
// kubelets or container runtimes, which have no such rule, and a status that is refused because of its reason says
// nothing at all.
func validReason(text string) string {
	word := strings.Map(func(character rune) rune {
		if strings.ContainsRune(lettersAndDigits+"_,:", character) {
			return character
		}
		return -1
	}, text)
	word = strings.TrimLeft(word, "0123456789_,:")
	return cmp.Or(strings.TrimRight(word[:min(len(word), maxReason)], ",:"), "Unknown")
}

// Truncate cuts a text to at most maxBytes, between two characters, and marks the cut.
func Truncate(text string, maxBytes int) string {
	if len(text) <= maxBytes {
		return text
	}
	const mark = "…"
	return strings.ToValidUTF8(text[:maxBytes-len(mark)], "") + mark
}

// Refusal returns a message if the API server rejects a request and will reject it again, so that the object can't
// become what its spec asks for. The message is empty if failure, the error of the pass, will pass by itself. A pass
// that was cut short before it came to the rejected request keeps the message of the previous condition.
func Refusal(failure error, cutShort bool, previous *metav1.Condition) string {
	switch {
	case kube.IsNamespaceTerminating(failure):
		return "" // the whole namespace is being deleted
	case kube.IsRefused(failure):
		return WithAdvice(failure)
	case cutShort && previous != nil && previous.Reason == v1alpha1.ReasonReconcileFailed:
		return previous.Message
	}
	return ""
}

// WithAdvice returns the text of an error and, if the API server refused an object, the next step: the refusal itself
// only names what is wrong. A missing permission, and an object that Pod Security, a quota or an admission policy
// rejects, are both Forbidden and differ only in their text, so both next steps are named.
func WithAdvice(err error) string {
	if apierrors.IsForbidden(err) {
		return err.Error() + "; if the manager lacks the permission, grant it: the charts' Roles do, and a scale " +
			"set created without its chart needs such a Role and RoleBinding in its namespace; if Pod Security, a " +
			"quota or a policy forbids the object, change that or the object's template in the AutoscalingRunnerSet"
	}
	if kube.IsRefused(err) {
		return err.Error() + "; correct what it names in the AutoscalingRunnerSet"
	}
	return err.Error()
}
