package scaling_test

import (
	"slices"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/feedback"
)

// step does the next thing that a runner's own controller, its kubelet, GitHub or the listener does.
func (sim *simulation) step(r *simulatedRunner) {
	switch {
	case r.Deleting:
		sim.finalize(r)
	case r.Ended():
		sim.giveUpJob(r)
	case r.Completed:
		sim.exit(r, v1alpha1.EphemeralRunnerPhaseSucceeded)
	case r.busy:
		sim.work(r)
	case r.node == 0:
		sim.schedule(r)
	case !r.up:
		sim.startUp(r)
	case r.Phase == "" && !sim.chance(3):
		r.Phase, r.RegistrationID = v1alpha1.EphemeralRunnerPhaseRunning, 7
		sim.write(r)
	case sim.chance(30): // evicted: its own controller gives it another pod
		r.up, r.Phase, r.RegistrationID, r.node = false, v1alpha1.EphemeralRunnerPhasePending, 0, 0
		sim.write(r)
	case r.registered && sim.jobs > sim.busy():
		r.busy, r.silent = true, sim.chance(6)
	case !r.registered || sim.chance(30): // GitHub refuses it, or it exits without a job
		sim.exit(r, v1alpha1.EphemeralRunnerPhaseSucceeded)
	}
}

// startUp starts the runner's container, or fails to.
func (sim *simulation) startUp(r *simulatedRunner) {
	if sim.chance(15) {
		r.Phase, r.Reason = v1alpha1.EphemeralRunnerPhaseFailed, "ErrImagePull"
		sim.write(r)
		return
	}
	if !sim.calm && sim.chance(60) { // GitHub refuses its version
		r.Phase, r.Reason, r.RegistrationID = v1alpha1.EphemeralRunnerPhaseOutdated, "Outdated", 7
		sim.write(r)
		return
	}
	r.up, r.registered = true, true
}

// work reports a runner's job, continues it, ends it, or takes its pod away.
func (sim *simulation) work(r *simulatedRunner) {
	switch {
	case !r.HadJob && !r.silent:
		r.HadJob, r.JobPatchID = true, sim.figures.patchID
		sim.write(r)
	case r.up && sim.chance(12): // a fault takes the pod, and GitHub does not know yet
		if !r.HadJob {
			r.Draining = true // its own controller has asked GitHub
		}
		r.LostJob, r.FailedAt = &feedback.Lost{Cause: v1alpha1.LostCauseEvicted}, sim.now()
		sim.exit(r, v1alpha1.EphemeralRunnerPhaseFailed)
	case r.up && !sim.chance(3):
	default:
		sim.endJob(r)
	}
}

// endJob completes the job. The listener publishes first and then reports, unless the message is lost.
func (sim *simulation) endJob(r *simulatedRunner) {
	sim.jobs--
	r.busy, r.registered = false, false
	if r.silent || sim.chance(4) {
		sim.exit(r, v1alpha1.EphemeralRunnerPhaseSucceeded)
		return
	}
	sim.publish()
	r.HadJob, r.Completed, r.JobPatchID = true, true, sim.figures.patchID
	sim.write(r)
}

// exit ends the runner's container.
func (sim *simulation) exit(r *simulatedRunner, phase v1alpha1.EphemeralRunnerPhase) {
	r.up = false
	if r.Completed { // its own controller removes it
		r.Deleting = true
	} else {
		r.Phase, r.RegistrationID = phase, 7
	}
	sim.write(r)
}

// giveUpJob makes GitHub give up a job that has lost its pod; the listener receives the message.
func (sim *simulation) giveUpJob(r *simulatedRunner) {
	if r.busy && sim.chance(4) {
		sim.endJob(r)
	}
}

// finalize removes a runner that is being deleted if GitHub agrees; otherwise the runner works on.
func (sim *simulation) finalize(r *simulatedRunner) {
	if r.busy && r.up {
		r.Draining = true
		sim.write(r)
		sim.work(r)
		return
	}
	if r.busy && !sim.chance(4) {
		return
	}
	if r.busy {
		sim.jobs--
	}
	sim.runners = slices.DeleteFunc(sim.runners, func(other *simulatedRunner) bool { return other == r })
	delete(sim.inFlight, r.UID)
}
