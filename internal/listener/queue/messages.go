// Package queue has a listener's knowledge of its scale set's message queue: the messages that it has received and not
// yet acknowledged, and whether the next poll waits so that the service gathers more into one message.
package queue

import (
	"reflect"
	"slices"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/errand"
)

const (
	// A message has at most MaxEntries entries. After a full message the next one is already waiting.
	MaxEntries = 50
	// MaxUnacked bounds what the service redelivers after a crash, and the memory that reports take: 2.5 MiB with 50
	// entries of 1 KiB each. While as many messages are kept, no poll goes out, and offers and statistics wait too. So
	// it is more than reports need while the API server keeps up.
	MaxUnacked = 50
	// maxKept messages are kept until their offers are acquired. The other half is for messages whose reports take
	// time.
	maxKept = MaxUnacked / 2
	// A message that can't be deleted, or whose count can't be published, is given up after DeletionTimeout.
	DeletionTimeout = time.Minute
)

// Message is a message that was received and not yet deleted. Deleting a message acknowledges it: a message that is not
// deleted is delivered again in the next session. The errand is its deletion.
type Message struct {
	errand.Errand
	*actions.Message
	// PatchID is the patchID of the statistics in the message, or of the next ones if it has none.
	PatchID int
	// ReportedAt is the time at which the last of its reports was written or given up, zero before that.
	ReportedAt time.Time
}

// same reports whether message is m, delivered again, and not another one with its ID.
func (m *Message) same(message *actions.Message) bool {
	before, now := *m.Message, *message
	before.Statistics, now.Statistics = nil, nil // each delivery carries the statistics of its own moment
	return reflect.DeepEqual(before, now)
}

// Messages are the messages that were received and not yet deleted. Make them with New.
type Messages struct {
	// Unacked has them by ID.
	Unacked map[int64]*Message
	// GitHub accepts no deletions until DeletionsAllowedAt.
	DeletionsAllowedAt time.Time
	// lastID is the highest ID of a message received in this session. A new session begins at 0: a service restored
	// from a backup may count from the start, and Unacked shows which messages are redelivered.
	lastID int64
	// forgotten are the last messages that could not be deleted, at most MaxUnacked. They are delivered and handled
	// again, but their jobs are not counted again.
	forgotten []*Message
	// waitForID is an unacked message that the service redelivered although the poll asked for later ones: until it is
	// deleted, every poll would return it again.
	waitForID int64
}

// New returns no messages.
func New() Messages { return Messages{Unacked: map[int64]*Message{}} }

// NewSession forgets up to which message the last session had come.
func (q *Messages) NewSession() { q.lastID, q.waitForID = 0, 0 }

// LastID returns the ID of the message after which to poll.
func (q *Messages) LastID() int64 { return q.lastID }

// Blocked reports whether the next poll must wait for the deletion of messages.
func (q *Messages) Blocked() bool {
	_, waiting := q.Unacked[q.waitForID]
	return waiting || q.full()
}

func (q *Messages) full() bool { return len(q.Unacked) >= MaxUnacked }

// Receive remembers that a message has come. It reports whether the message is under way already, so that only its
// statistics are new, and whether its jobs have been counted: it may have come earlier, and could not be deleted then.
func (q *Messages) Receive(message *actions.Message) (underWay, counted bool) {
	unacked := q.Unacked[message.ID]
	underWay = unacked != nil && unacked.same(message)
	// Otherwise a new session begins with it, and the next poll asks for later ones.
	if underWay && message.ID <= q.lastID {
		q.waitForID = message.ID
	}
	q.lastID = max(q.lastID, message.ID)
	if underWay {
		return true, true
	}
	before := len(q.forgotten)
	q.forgotten = slices.DeleteFunc(q.forgotten, func(m *Message) bool { return m.same(message) })
	return false, len(q.forgotten) < before
}

// Enqueue returns message as one that is to be reported and deleted.
func (q *Messages) Enqueue(message *actions.Message, patchID int, deletion errand.Errand) *Message {
	added := &Message{Message: message, PatchID: patchID, Errand: deletion}
	q.Unacked[message.ID] = added
	return added
}

// Kept returns the IDs of the messages that are ready to be deleted and for which needed holds: the newest maxKept of
// them, and never the one that polls wait for, so that polls go on.
func (q *Messages) Kept(needed func(*actions.Message) bool) (ids []int64) {
	for id, m := range q.Unacked {
		if !m.ReportedAt.IsZero() && !m.UnderWay && id != q.waitForID && needed(m.Message) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids[max(0, len(ids)-maxKept):]
}

// Expired reports whether a message has waited for its deletion for DeletionTimeout, or will have when GitHub allows
// deletions again. The latter counts only while no poll goes out because there are MaxUnacked.
func (q *Messages) Expired(m *Message, now time.Time) bool {
	return now.Sub(m.ReportedAt) >= DeletionTimeout ||
		(q.full() && q.DeletionsAllowedAt.Sub(m.ReportedAt) >= DeletionTimeout)
}

// Remove forgets a message that was deleted, or that could not be and so will come again.
func (q *Messages) Remove(m *Message, deleted bool) {
	if !deleted {
		q.forgotten = append(q.forgotten, m)
		q.forgotten = q.forgotten[max(0, len(q.forgotten)-MaxUnacked):]
	}
	if q.Unacked[m.ID] == m { // another message may have the same ID by now
		delete(q.Unacked, m.ID)
	}
}
