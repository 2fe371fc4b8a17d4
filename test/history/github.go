package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// checkRegistrations checks rule 2. GitHub ignores the case of names.
func (h *History) checkRegistrations() []string {
	byName := map[string][]Registration{}
	for _, registration := range h.Registrations {
		name := registration.Scope + "/" + strings.ToLower(registration.Name)
		byName[name] = append(byName[name], registration)
	}
	var broken []string
	for _, same := range byName {
		slices.SortFunc(same, func(a, b Registration) int { return a.Since.Compare(b.Since) })
		for i := 1; i < len(same); i++ {
			if before := same[i-1]; before.Until.IsZero() || before.Until.After(same[i].Since) {
				broken = append(broken, fmt.Sprintf("%s runner %s of %s was registered as %d while it was registered as %d",
					same[i].Since.Format(clockFormat), same[i].Name, same[i].Scope, same[i].ID, before.ID))
			}
		}
	}
	slices.SortFunc(broken, cmp.Compare)
	return broken
}

// A request that was sent before another manager took the Lease may arrive up to overtaking after that.
const overtaking = time.Second

// checkLeaders checks rule 5: from the moment at which another process holds the Lease, the one that held it before
// changes nothing, until it holds the Lease again. After an outage the process that leads may have taken the Lease
// unseen.
func (h *History) checkLeaders() []string {
	var broken []string
	for _, write := range h.Writes {
		leader, since := h.leaderAt(write.Received)
		if leader == "" || leader == write.Credential || write.Received.Sub(since) <= overtaking ||
			felt(h.Blind, write.Received) {
			continue
		}
		broken = append(broken, fmt.Sprintf("%s %s by a manager, but another leads since %s",
			write.Received.Format(clockFormat), write.What, since.Format(clockFormat)))
	}
	return broken
}

// leaderAt returns the credential of the process that held the Lease at a moment, and since when. Nobody holds a Lease
// without a holder: a manager that ends leaves it so.
func (h *History) leaderAt(at time.Time) (credential string, since time.Time) {
	for _, lease := range h.Leases {
		switch {
		case lease.Answered.After(at):
			return credential, since
		case lease.Holder == "":
			credential, since = "", time.Time{}
		case lease.Credential != credential:
			credential, since = lease.Credential, lease.Answered
		}
	}
	return credential, since
}
