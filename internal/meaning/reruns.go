package meaning

import "github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"

// Rerun is the meaning of what has been decided about running a lost job again.
type Rerun struct {
	// Few has few words for a column, empty if nothing was decided. Sentence tells it to people.
	Few, Sentence string
	// Actor can have the job run now, and Advice is how; Nobody if it runs again without that.
	Actor  Actor
	Advice string
}

// refusals say why a lost job is not run again, and who can see to it that the next one is.
var refusals = []struct {
	reason v1alpha1.RerunReason
	why    string
	actor  Actor
	advice string
}{
	{v1alpha1.RerunCauseNotChosen, "the scale set runs jobs again that were lost to other causes", User,
		"add the cause to feedback.rerunLostJobs.causes of the scale set, if its jobs can be repeated"},
	{v1alpha1.RerunNewerRun, "there is a newer run of the same workflow, branch and event, and the older one would write over it", Nobody, ""},
	{v1alpha1.RerunAttemptsUsed, "its workflow run has had as many attempts as the scale set allows", User,
		"raise feedback.rerunLostJobs.maxAttempts of the scale set, if its jobs are lost that often"},
	{v1alpha1.RerunBegunByOthers, "somebody else has begun another attempt of its workflow run", Nobody, ""},
	{v1alpha1.RerunCanceled, "it, or its workflow run, seems to have been canceled", Nobody, ""},
	{v1alpha1.RerunHasResult, "GitHub has a result of it", Nobody, ""},
	{v1alpha1.RerunJobUnknown, "GitHub has named no job that was on its runner", Nobody, ""},
	{v1alpha1.RerunPermissionMissing, "the scale set's credentials may not run jobs again", GitHub,
		"give the App or token the repository permission Actions: read and write"},
	{v1alpha1.RerunRefused, "GitHub refuses it: the run is gone, is older than 30 days, or was run again 50 times", Nobody, ""},
	{v1alpha1.RerunTooLate, "its workflow run did not end within 24 h", Nobody, ""},
	{v1alpha1.RerunTooManyWait, "10,000 lost jobs of the scale set waited already", Nobody, ""},
	{v1alpha1.RerunRunnerDeleted, "the object of its runner was deleted before that was decided", Nobody, ""},
}

// OfRerun returns the meaning of a state, with the reason for which a job was given up. Of a reason that nobody knows,
// as of one that an earlier version has not written, only the state is told.
func OfRerun(state v1alpha1.RerunState, reason v1alpha1.RerunReason) Rerun {
	switch state {
	case v1alpha1.RerunWanted, v1alpha1.RerunAsked:
		return Rerun{Few: "is run again", Sentence: "It is run again when the workflow run has ended, unless its author does " +
			"that or cancels the run."}
	case v1alpha1.RerunDone:
		return Rerun{Few: "was run again", Sentence: "It was run again."}
	case v1alpha1.RerunGivenUp:
		given := Rerun{Few: "not run again", Sentence: "It is not run again by itself; its author can do that on the page of the " +
			"workflow run."}
		for _, refusal := range refusals {
			if refusal.reason == reason {
				given.Sentence = "It is not run again by itself: " + refusal.why + ". Its author can do that on the page of the workflow run."
				given.Actor, given.Advice = refusal.actor, refusal.advice
			}
		}
		return given
	}
	return Rerun{Sentence: "Nobody has asked GitHub to run it again: feedback.rerunLostJobs of its scale set says for which causes " +
		"that is done. Its author can do that on the page of the workflow run.", Actor: User,
		Advice: "set feedback.rerunLostJobs of the scale set, if its jobs can be repeated"}
}
