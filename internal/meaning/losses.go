package meaning

import "github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"

// Loss is the meaning of a cause that a job was lost to.
type Loss struct {
	Cause v1alpha1.LostCause
	// Actor can keep jobs from being lost so, and Advice is how.
	Actor  Actor
	Advice string
	// Meaning explains the cause to operators, in a sentence.
	Meaning string
	// Author explains it to the author of the job, and Commit whether the commit can be the cause.
	Author, Commit string
}

const (
	notTheCommit     = "Nothing is wrong with the commit."
	perhapsTheCommit = "Whether the commit has to do with that is not known."
)

// losses are in the order of v1alpha1.LostCauses; the last one stands for causes that are not known.
var losses = []Loss{
	{
		Cause: v1alpha1.LostCauseEvicted,
		Actor: Administrator,
		Advice: "keep drains and node autoscalers away from running jobs (docs/nodes.md), or let the template " +
			"request the resource of which the node ran short",
		Meaning: "The pod was evicted: by a node drain or an autoscaler, by a taint, or by its node because that ran " +
			"short of memory or disk; or it was deleted while its node was about to go away.",
		Author: "its pod was evicted from its node",
		Commit: notTheCommit,
	},
	{
		Cause:   v1alpha1.LostCauseNodeLost,
		Actor:   Administrator,
		Advice:  "run long jobs on nodes that stay, not on spot instances",
		Meaning: "The node was shut down, no longer answered, or was gone.",
		Author:  "its node was shut down or lost",
		Commit:  notTheCommit,
	},
	{
		Cause:   v1alpha1.LostCausePreempted,
		Actor:   Administrator,
		Advice:  "give the template a priorityClassName",
		Meaning: "The pod had to make room for one of higher priority.",
		Author:  "its pod had to make room for a more important one",
		Commit:  notTheCommit,
	},
	{
		Cause:   v1alpha1.LostCauseOOMKilled,
		Actor:   User,
		Advice:  "raise the memory limit of the container that the message names",
		Meaning: "A container of the pod ran out of memory.",
		Author:  "it ran out of memory",
		Commit:  "The job may need more memory than its runner has, with this commit or before it.",
	},
	{
		Cause:   v1alpha1.LostCausePodDeleted,
		Actor:   Administrator,
		Advice:  "find out who deletes pods; the API server's audit log knows",
		Meaning: "Somebody deleted the pod, by hand or with its namespace or owner.",
		Author:  "somebody deleted its pod",
		Commit:  notTheCommit,
	},
	{
		Cause:   v1alpha1.LostCauseContainerFailed,
		Actor:   User,
		Advice:  "look up the exit code, and follow the pod's log when the job runs again",
		Meaning: "The runner's container failed, or reached the pod's deadline.",
		Author:  "the runner failed",
		Commit:  perhapsTheCommit,
	},
	{
		Cause:   v1alpha1.LostCauseUnknown,
		Actor:   Administrator,
		Advice:  "look at the Events of pod and node",
		Meaning: "The pod was gone before anybody saw why.",
		Author:  "nobody saw why",
		Commit:  perhapsTheCommit,
	},
}

// OfLoss returns the meaning of a cause that a job was lost to. Of a cause that nobody knows it says what is to be said
// if nobody saw why.
func OfLoss(cause v1alpha1.LostCause) Loss {
	for _, loss := range losses {
		if loss.Cause == cause {
			return loss
		}
	}
	unknown := losses[len(losses)-1]
	unknown.Cause, unknown.Meaning, unknown.Commit = cause, "", notTheCommit
	return unknown
}
