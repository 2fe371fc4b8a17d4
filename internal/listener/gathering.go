package listener

import (
	"time"

	"github.com/harrier-ci/harrier/github/actions"
)

const (
	// gatherPeriod is how long the next poll waits after a message about started and completed jobs only: meanwhile the
	// service gathers more entries into one message, and nothing urgent depends on them.
	gatherPeriod = 200 * time.Millisecond
	// maxInVain is how many waits in vain are counted. After as many, 64 messages are taken without a wait: a service whose
	// messages have one entry each is asked for 300 of them a second at most, instead of for five.
	maxInVain = 9
)

// gathering decides whether the next poll waits for gatherPeriod. A service may queue a message for each event instead of
// gathering events: then waits let its queue grow, with offers at the end of it.
type gathering struct {
	// waits is set when the poll after the last message waits.
	waits bool
	// inVain counts the waits in a row during which nothing was gathered.
	inVain int
	// left is how many messages are still to be taken without a wait.
	left int
}

// received decides about the poll that follows a message. atOnce says that the message was there when it was asked for.
func (g *gathering) received(message *actions.Message, atOnce bool) {
	switch {
	case message.Entries > 1 || !atOnce: // the service gathers, or its queue was empty
		g.inVain, g.left = 0, 0
	case g.waits:
		g.inVain = min(g.inVain+1, maxInVain)
		g.left = 1 << g.inVain >> 3 // 0, 0, 1, 2, 4 … 64: one or two may be chance
	}
	g.waits = !urgent(message) && g.left == 0
	g.left = max(0, g.left-1)
}

// urgent reports whether the next poll should go out at once because jobs, or further messages, wait.
func urgent(message *actions.Message) bool {
	return len(message.JobsAvailable) > 0 || len(message.JobsAssigned) > 0 || message.Entries >= maxMessageEntries
}
