package chaos

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/harrier-ci/harrier/test/rig"
)

// claimsStream is the stream of PCG from which claims, and the trouble with them, are drawn, so that they change
// nothing else of a seed's run.
const claimsStream = 2

const (
	refuseMounts kind = "volumes can't be mounted"
	fullZone     kind = "a zone is full"
)

// Zones of volumes.
const (
	zoneA = "a"
	zoneB = "b"
)

// storageFaults are the faults of the storage; every run has one. They end within a minute: after that a runner would
// make room for another.
var storageFaults = []profile{
	{kind: refuseMounts, shortest: 5 * time.Second, longest: 15 * time.Second},
	{kind: fullZone, shortest: 5 * time.Second, longest: 15 * time.Second, variants: []string{zoneA, zoneB}},
}

// claims are those of the scale set.
type claims struct {
	// templates are the names in volumeClaimTemplates, none if the set has no claims.
	templates []string
	// most is volumeClaimPool.max, 0 for none. It is less than maxRunners: the others start without claims.
	most int
	// keptAfterSuccess says that claims are deleted after jobs that have not succeeded.
	keptAfterSuccess bool
}

func newClaims(random *rand.Rand, maxRunners int) claims {
	c := claims{templates: []string{"docker", "go"}[:1+random.IntN(2)], keptAfterSuccess: random.IntN(2) == 0}
	if random.IntN(2) == 0 {
		c.most = maxRunners / 2
	}
	return c
}

// addTrouble adds a fault of the storage.
func (s *schedule) addTrouble(random *rand.Rand) {
	s.add(newFault(random, storageFaults[random.IntN(len(storageFaults))]))
}

// values are those of the scale set's chart.
func (c claims) values() rig.Values {
	if len(c.templates) == 0 {
		return nil
	}
	pool := rig.Values{}
	if c.most > 0 {
		pool["max"], pool["whenExhausted"] = c.most, "Ephemeral"
	}
	if c.keptAfterSuccess {
		pool["keepAfter"] = rig.Values{"results": []string{"succeeded"}}
	}
	return rig.Values{"volumeClaimTemplates": rig.ClaimTemplates(c.templates...), "volumeClaimPool": pool}
}

// String describes the claims for a report.
func (c claims) String() string {
	return fmt.Sprintf("claims %v, at most %d (0: no limit), kept after success only: %t",
		c.templates, c.most, c.keptAfterSuccess)
}
