package report

import "github.com/harrier-ci/harrier/internal/meaning"

// ReasonOther stands for every reason that has no meaning.
const ReasonOther = "Other"

// KnownReason returns a reason that this project or Kubernetes gives, and ReasonOther for any other; "" stays "".
// Reasons are read from the status of objects, which anybody with rights in their namespace may write, and whatever has
// one entry for each reason, such as the series of a metric, would grow without limit.
func KnownReason(reason string) string {
	if reason == "" || meaning.Known(reason) {
		return reason
	}
	return ReasonOther
}
