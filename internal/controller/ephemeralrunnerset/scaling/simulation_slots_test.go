package scaling_test

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/registrations"
)

// known has the facts about a runner that a manager has been told, as the test records them.
type known struct {
	// registration is the one that said is about.
	registration int
	said         registrations.Answers
	// At endedAt a pass first saw the runner ended; if it had failed before, that is the time of its failure. At
	// exitedAt one first saw it exited with code 0, without a known job, and its slot free.
	endedAt, exitedAt time.Time
}

// knownOf returns what the manager knows of a runner, which is nothing if it has not seen it.
func (sim *simulation) knownOf(r *roster.Runner) *known {
	if k, seen := sim.known[r.UID]; seen {
		return k
	}
	return &known{}
}

// record records what a pass sees. What was asked about a registration that is over is never answered.
func (sim *simulation) record() {
	if sim.patchSeenAt.IsZero() || sim.patchSeen != sim.seen.patchID {
		sim.patchSeen, sim.patchSeenAt = sim.seen.patchID, sim.now()
	}
	before := sim.known
	sim.known = make(map[types.UID]*known, len(sim.cache))
	for _, r := range sim.cache {
		k, seen := before[r.UID]
		if !seen {
			k = &known{registration: r.RegistrationID}
			if r.FailedAt.Before(sim.now()) {
				k.endedAt = r.FailedAt
			}
		}
		sim.known[r.UID] = k
		if k.registration != r.RegistrationID {
			k.registration, k.said = r.RegistrationID, registrations.Answers{}
			delete(sim.inFlight, r.UID)
			delete(sim.answers, r.UID)
		}
		if r.Ended() {
			kube.SetIfZero(&k.endedAt, sim.now())
		}
		if r.ExitedIdle() && sim.slotOf(r) == slotFree {
			kube.SetIfZero(&k.exitedAt, sim.now())
		}
		if said, isNew := sim.answers[r.UID]; isNew {
			delete(sim.answers, r.UID)
			k.said.Remember(said, sim.now())
		}
	}
	for uid := range before {
		if sim.known[uid] == nil {
			delete(sim.inFlight, uid)
			delete(sim.answers, uid)
		}
	}
}

// slotOf returns the slot of a runner as it is, given what the manager has been told: the table in
// docs/decisions/0007-a-slot-follows-the-job.md, written a second time. An end that the manager has not seen yet takes
// no slot.
func (sim *simulation) slotOf(r *roster.Runner) slot {
	k := sim.knownOf(r)
	switch {
	case r.Completed && sim.patchSeen >= r.JobPatchID:
		return slotFree
	case r.Completed && !r.Ended():
		return slotWorking
	case r.Ended():
		return sim.slotOfEnded(r, k)
	case r.HadJob || r.Draining || k.said.Busy:
		return slotWorking
	case r.Deleting || !k.said.RemovedAt.IsZero() || k.said.Gone:
		return slotFree
	default:
		return slotWaiting
	}
}

// slotOfEnded returns the slot of a runner that has ended, with a job that may still be counted, or without one.
func (sim *simulation) slotOfEnded(r *roster.Runner, k *known) slot {
	free, timedOut := true, sim.now().Sub(k.endedAt) >= heldTimeout
	switch {
	case r.Completed: // and no figure has come that does not count the job
		free = timedOut
	case r.Phase == v1alpha1.EphemeralRunnerPhaseSucceeded:
		free = sim.patchSeenAt.Sub(k.endedAt) >= settleGrace
	case r.Phase == v1alpha1.EphemeralRunnerPhaseFailed && (r.HadJob || r.Draining):
		agreed := !k.said.RemovedAt.IsZero() && sim.patchSeenAt.After(k.said.RemovedAt)
		free = agreed || timedOut || r.ConfigURL != sim.configURL // no figure counts a job elsewhere
	}
	if free {
		return slotFree
	}
	return slotHeld
}
