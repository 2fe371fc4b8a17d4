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
	retryAt  time.Time
	backoff  backoff
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
	return plainStatus(v1alpha1.ListenerStateListening, reasonListening, "", now)
}

func plainStatus(state v1alpha1.ListenerState, reason, message string, now time.Time) *v1alpha1.ListenerStatus {
	since := metav1.NewTime(now)
	return &v1alpha1.ListenerStatus{State: state, Reason: reason, Message: message, Since: &since}
}

// report writes the state if it changed. Time and wording of the same state are no change.
func (l *loop) report(now time.Time) {
	status := l.current(now)
	if status == nil || l.stopping || status.State == l.state.told.State && status.Reason == l.state.told.Reason {
		return
	}
	if l.state.underWay || l.later(l.state.retryAt, now) {
		return
	}
	l.state.underWay = true
	l.beside(kubernetesLimit, func(ctx context.Context) func() {
		err := l.cluster.ReportState(ctx, *status)
		return func() { l.reported(*status, err) }
	})
}

func (l *loop) reported(status v1alpha1.ListenerStatus, err error) {
	l.state.underWay = false
	if err != nil {
		l.state.retryAt = l.clock.Now().Add(l.state.backoff.next())
		l.log.Error(err, "The listener's state could not be written, trying again", "state", status.State, "at", l.state.retryAt)
		return
	}
	l.state.backoff.reset()
	l.state.told = status
	l.log.Info("State", "state", status.State, "reason", status.Reason, "message", status.Message)
}
