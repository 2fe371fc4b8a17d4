package listener

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// reporting is about status.listener of the EphemeralRunnerSet.
type reporting struct {
	// told is what is in the API server, as far as known.
	told     v1alpha1.ListenerStatus
	underWay bool
	// turns counts beginnings and ends of reports: what was read across one of them may be older than told.
	turns   int
	retryAt time.Time
	backoff backoff
}

// current is what the listener has to say of itself; nil leaves what it said last.
func (l *loop) current(now time.Time) *v1alpha1.ListenerStatus {
	for _, troubled := range []*trouble{l.link.trouble, l.polls.trouble, l.published.trouble} {
		if troubled != nil {
			return troubled.status()
		}
	}
	if l.link.session == nil {
		return plainStatus(v1alpha1.ListenerStateStarting, reasonStarting, "opening a session", now)
	}
	if l.offers.trouble != nil {
		if status := l.offers.trouble.status(); status != nil {
			return status
		}
	}
	return plainStatus(v1alpha1.ListenerStateListening, reasonListening, "", now)
}

func plainStatus(state v1alpha1.ListenerState, reason, message string, now time.Time) *v1alpha1.ListenerStatus {
	since := metav1.NewTime(now)
	return &v1alpha1.ListenerStatus{State: state, Reason: reason, Message: message, Since: &since}
}

// same says that there is nothing to tell. Time and wording of the same state are no news, except until when GitHub
// refuses requests.
func same(told, status *v1alpha1.ListenerStatus) bool {
	reworded := status.Reason == v1alpha1.ReasonRateLimited && told.Message != status.Message
	return told.State == status.State && told.Reason == status.Reason && !reworded
}

// report writes the state if it changed.
func (l *loop) report(now time.Time) {
	status := l.current(now)
	if status == nil || l.stopping || same(&l.state.told, status) {
		return
	}
	if l.state.underWay || l.later(l.state.retryAt, now) {
		return
	}
	l.state.underWay = true
	l.state.turns++
	l.beside(kubernetesLimit, func(ctx context.Context) func() {
		err := l.cluster.ReportState(ctx, *status)
		return func() { l.reported(*status, err) }
	})
}

func (l *loop) reported(status v1alpha1.ListenerStatus, err error) {
	l.state.underWay = false
	l.state.turns++
	if err != nil {
		l.state.retryAt = l.clock.Now().Add(l.state.backoff.next())
		l.log.Error(err, "The listener's state could not be written, trying again", "state", status.State, "at", l.state.retryAt)
		return
	}
	l.state.backoff.reset()
	l.state.told = status
	l.log.Info("State", "state", status.State, "reason", status.Reason, "message", status.Message)
}

// heard takes what the set says of the listener for what it was told. A set that was made anew has heard nothing yet.
func (l *loop) heard(status *v1alpha1.ListenerStatus, turns int) {
	switch {
	case l.state.underWay || turns != l.state.turns: // a report may be newer
	case status == nil:
		l.state.told = v1alpha1.ListenerStatus{}
	default:
		l.state.told = *status
	}
}
