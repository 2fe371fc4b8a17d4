// Package listenertest has what tests of a listener and of its rooms share: messages of GitHub, and an API server for
// one set.
package listenertest

import (
	"fmt"
	"strconv"

	"github.com/harrier-ci/harrier/github/actions"
)

// Statistics returns statistics with so many assigned jobs.
func Statistics(assigned int) *actions.Statistics {
	return &actions.Statistics{TotalAssignedJobs: assigned}
}

// Job returns the part of messages about the job with a request ID.
func Job(id int64) actions.JobMessageBase {
	return actions.JobMessageBase{
		RunnerRequestID: id, JobID: "job-" + strconv.FormatInt(id, 10), OwnerName: "org", RepositoryName: "repo",
		JobDisplayName: "build",
		WorkflowRunID:  40 + id,
		JobWorkflowRef: "org/repo/.github/workflows/ci.yml@refs/heads/main",
	}
}

// Message returns a message with entries: "offer 1", "assign 1", "start 1 runner", "complete 1 runner".
func Message(id int64, assigned int, entries ...string) *actions.Message {
	built := &actions.Message{ID: id, Statistics: Statistics(assigned), Entries: len(entries)}
	for _, entry := range entries {
		var kind, runner string
		var request int64
		_, _ = fmt.Sscan(entry, &kind, &request, &runner)
		switch kind {
		case "offer":
			built.JobsAvailable = append(built.JobsAvailable, actions.JobAvailable{JobMessageBase: Job(request)})
		case "assign":
			built.JobsAssigned = append(built.JobsAssigned, actions.JobAssigned{JobMessageBase: Job(request)})
		case "start":
			built.JobsStarted = append(built.JobsStarted, actions.JobStarted{
				JobMessageBase: Job(request),
				RunnerName:     runner,
			})
		case "complete":
			completed := actions.JobCompleted{JobMessageBase: Job(request), RunnerName: runner, Result: "succeeded"}
			built.JobsCompleted = append(built.JobsCompleted, completed)
		default:
			panic("unknown entry " + entry)
		}
	}
	return built
}
