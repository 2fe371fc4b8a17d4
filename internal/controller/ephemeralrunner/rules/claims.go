package rules

import "fmt"

// With keepAfter, a claim is passed on only after a job of a known event and result. A second pod of the same runner
// would be such a passing on without the question: a runner whose container has started may have had a job, whatever
// GitHub says of its registration. GitHub removes that by itself after the job, and then answers a removal as it answers
// one that it has carried out. So the runner gives way to another, and its claims wait for the report, as after any job.

// spent reports whether a runner whose claims are Guarded gets no other pod.
func (w *World) spent() bool { return w.Used || w.ran() }

// giveWay returns what becomes of a spent runner instead of another attempt, for which d was decided. One that lost its
// pod by no fault of its own, or had been up for long, is replaced at once. Any other has failed: its set pauses before
// the next one, and keeps it as evidence.
func giveWay(d Decision) Decision {
	how := Fail
	if d.Disruption || d.firstInRow {
		how = Replace
	}
	return Decision{Step: how, Reason: d.Reason, Message: fmt.Sprintf(
		"%s; another runner takes its place: it may have had a job, and keepAfter decides who gets its claims", d.Message)}
}
