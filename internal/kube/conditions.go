package kube

import (
	"cmp"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// True makes a condition that holds.
func True(conditionType, reason, message string) metav1.Condition {
	return metav1.Condition{Type: conditionType, Status: metav1.ConditionTrue, Reason: reason, Message: message}
}

// False makes a condition that does not hold.
func False(conditionType, reason, message string) metav1.Condition {
	return metav1.Condition{Type: conditionType, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// Unknown makes a condition that nobody can judge yet.
func Unknown(conditionType, reason, message string) metav1.Condition {
	return metav1.Condition{Type: conditionType, Status: metav1.ConditionUnknown, Reason: reason, Message: message}
}

// reasonDone is why nothing is under way and nothing stuck.
const reasonDone = "Done"

// ReadyStates sum an object up that is as its spec asks for, as kstatus understands it.
func ReadyStates(reason, message string) []metav1.Condition {
	return []metav1.Condition{
		True(v1alpha1.ConditionReady, reason, message),
		False(v1alpha1.ConditionProgressing, reasonDone, ""),
		False(v1alpha1.ConditionStalled, reasonDone, ""),
	}
}

// UnreadyStates sum up one that is not: it is on its way, or, stalled, stays as it is until somebody changes something.
func UnreadyStates(reason, message string, stalled bool) []metav1.Condition {
	ready := False(v1alpha1.ConditionReady, reason, message)
	if stalled {
		return []metav1.Condition{ready, False(v1alpha1.ConditionProgressing, reason, ""), True(v1alpha1.ConditionStalled, reason, message)}
	}
	return []metav1.Condition{ready, True(v1alpha1.ConditionProgressing, reason, message), False(v1alpha1.ConditionStalled, reason, "")}
}

// maxMessage is the longest message in bytes: the schema allows 32,768 characters, and a pod's own message, repeated in every
// status, should not make an object large.
const maxMessage = 1024

// SetConditions sets type, status, reason and message of conditions as of now and for the generation, and reports whether anything
// but the generation changed. The time of a condition changes with its status only.
func SetConditions(conditions *[]metav1.Condition, generation int64, now time.Time, set ...metav1.Condition) bool {
	changed := false
	for _, c := range set {
		before := meta.FindStatusCondition(*conditions, c.Type)
		c.Reason, c.Message = validReason(c.Reason), truncate(c.Message, maxMessage)
		c.ObservedGeneration, c.LastTransitionTime = generation, metav1.NewTime(now)
		changed = changed || before == nil || before.Status != c.Status || before.Reason != c.Reason || before.Message != c.Message
		meta.SetStatusCondition(conditions, c)
	}
	return changed
}

// maxReason is the longest reason in characters that an Event takes; a condition's may be longer.
const maxReason = 128

var notInReason = regexp.MustCompile(`[^A-Za-z0-9_,:]`)

// validReason makes a word that the schema of conditions accepts. Many reasons are a scheduler's, a kubelet's or a
// container runtime's own, for which there is no such rule, and a status that is refused for one tells nothing at all.
func validReason(text string) string {
	word := strings.TrimLeft(notInReason.ReplaceAllString(text, ""), "0123456789_,:")
	return cmp.Or(strings.TrimRight(word[:min(len(word), maxReason)], ",:"), "Unknown")
}

// truncate cuts a text that is longer than maxBytes at a whole character, and marks the cut.
func truncate(text string, maxBytes int) string {
	if len(text) <= maxBytes {
		return text
	}
	const mark = "…"
	return strings.ToValidUTF8(text[:maxBytes-len(mark)], "") + mark
}
