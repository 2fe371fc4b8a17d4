package ephemeralrunnerset

import (
	"slices"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// move takes a runner one step on in its life, which its own controller, its kubelet, GitHub and the listener lead.
func (w *world) move(r *one) {
	switch {
	case r.deleting:
		w.farewell(r)
	case r.ended():
		w.bury(r)
	case r.completed:
		w.exit(r, v1alpha1.EphemeralRunnerPhaseSucceeded)
	case r.busy:
		w.work(r)
	case !r.up:
		w.startUp(r)
	case r.phase == "" && !w.chance(3):
		r.phase, r.registration = v1alpha1.EphemeralRunnerPhaseRunning, 7
		w.write(r)
	case w.chance(30): // evicted: its own controller gives it another pod
		r.up, r.phase, r.registration = false, v1alpha1.EphemeralRunnerPhasePending, 0
		w.write(r)
	case r.registered && w.jobs > w.busy():
		r.busy, r.silent = true, w.chance(6)
	case !r.registered || w.chance(30): // GitHub refuses it, or there is nothing for it to do: it exits
		w.exit(r, v1alpha1.EphemeralRunnerPhaseSucceeded)
	}
}

func (w *world) startUp(r *one) {
	if w.chance(15) {
		r.phase, r.reason = v1alpha1.EphemeralRunnerPhaseFailed, "ErrImagePull"
		w.write(r)
		return
	}
	r.up, r.registered = true, true
}

// work: a job is reported, ends, or loses its pod.
func (w *world) work(r *one) {
	switch {
	case !r.hasJob && !r.silent:
		r.hasJob, r.jobPatchID = true, w.figures.patchID
		w.write(r)
	case r.up && w.chance(12): // a fault takes the pod, and GitHub does not know yet
		if !r.hasJob {
			r.draining = true // its own controller has asked GitHub
		}
		w.exit(r, v1alpha1.EphemeralRunnerPhaseFailed)
	case r.up && !w.chance(3):
	default:
		w.endJob(r)
	}
}

// endJob: the job is done. The listener publishes first and reports then, unless the message is lost.
func (w *world) endJob(r *one) {
	w.jobs--
	r.busy, r.registered = false, false
	if r.silent || w.chance(4) {
		w.exit(r, v1alpha1.EphemeralRunnerPhaseSucceeded)
		return
	}
	w.publish()
	r.hasJob, r.completed, r.jobPatchID = true, true, w.figures.patchID
	w.write(r)
}

func (w *world) exit(r *one, phase v1alpha1.EphemeralRunnerPhase) {
	r.up = false
	if r.completed { // its own controller removes it
		r.deleting = true
	} else {
		r.phase, r.registration = phase, 7
	}
	w.write(r)
}

// bury: GitHub gives up a job that has lost its pod, and its listener hears of it.
func (w *world) bury(r *one) {
	if r.busy && w.chance(4) {
		w.endJob(r)
	}
}

// farewell: a runner that is being deleted goes when GitHub lets it, and works on where it does not.
func (w *world) farewell(r *one) {
	if r.busy && r.up {
		r.draining = true
		w.write(r)
		w.work(r)
		return
	}
	if r.busy && !w.chance(4) {
		return
	}
	if r.busy {
		w.jobs--
	}
	w.runners = slices.DeleteFunc(w.runners, func(other *one) bool { return other == r })
	delete(w.inFlight, r.uid)
}
