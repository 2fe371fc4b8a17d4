package queue

import (
	"time"

	"github.com/harrier-ci/harrier/github/actions"
)

const (
	// The next poll waits for GatherInterval after a message about started and completed jobs only. In the meantime the
	// service gathers more entries into one message; nothing urgent depends on them.
	GatherInterval = 200 * time.Millisecond
	// At most maxUselessWaits waits in a row that gathered nothing are counted. After that many, 64 messages are taken
	// without a wait. From a service whose messages have one entry each, up to 300 of them a second are then taken
	// instead of five.
	maxUselessWaits = 9
)

// Gathering decides whether the next poll waits for GatherInterval. A service may queue one message for each event
// instead of gathering events. Waits then let its queue grow, with offers at the end of it.
type Gathering struct {
	// Waits is set if the poll after the last message waits.
	Waits bool
	// uselessWaits counts the waits in a row during which nothing was gathered.
	uselessWaits int
	// left counts the messages that are still taken without a wait.
	left int
}

// Received decides about the poll after a message. atOnce says that the message was already there when the last poll
// went out.
func (g *Gathering) Received(message *actions.Message, atOnce bool) {
	switch {
	case message.Entries > 1 || !atOnce: // the service gathers, or its queue was empty
		g.uselessWaits, g.left = 0, 0
	case g.Waits:
		g.uselessWaits = min(g.uselessWaits+1, maxUselessWaits)
		g.left = 1 << g.uselessWaits >> 3 // 0, 0, 1, 2, 4 … 64: one or two may be chance
	}
	g.Waits = !urgent(message) && g.left == 0
	g.left = max(0, g.left-1)
}

// urgent reports whether the next poll should go out immediately because jobs or further messages are waiting.
func urgent(message *actions.Message) bool {
	return len(message.JobsAvailable) > 0 || len(message.JobsAssigned) > 0 || message.Entries >= MaxEntries
}
