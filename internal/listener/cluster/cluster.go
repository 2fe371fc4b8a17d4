// Package cluster has the calls of a listener to Kubernetes: it reads and writes one EphemeralRunnerSet, and writes the
// status of its runners.
package cluster

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// RequestTimeout ends one request to the API server.
const RequestTimeout = 10 * time.Second

// Cluster is the part of the Kubernetes API that a listener needs. All of it is about one EphemeralRunnerSet and its
// runners. Errors are as in k8s.io/apimachinery/pkg/api/errors.
type Cluster interface {
	// RunnerSet reads the set.
	RunnerSet(ctx context.Context) (*RunnerSet, error)
	// Publish writes the demand and the session's ID in one patch, and returns the set as it is after that.
	Publish(ctx context.Context, publication Publication) (*RunnerSet, error)
	// WriteStatus writes status.listener of the set.
	WriteStatus(ctx context.Context, status v1alpha1.ListenerStatus) error
	// ReportJob writes the non-zero fields of status into the status of a runner.
	ReportJob(ctx context.Context, runner string, status v1alpha1.EphemeralRunnerStatus) error
}

// Desired is the listener's demand on the EphemeralRunnerSet. AssignedJobs is the number of jobs in the statistics with
// the number PatchID. Replicas is the number of runners that the listener asks for by them: ARC's set follows it; ours
// decides from the jobs, and hears it only while nothing of ours serves the set. CanceledJobs counts
// the jobs that ended cancelled before a runner had taken them, since the set exists.
type Desired struct {
	Replicas, PatchID, AssignedJobs, CanceledJobs int
}

// Publication is written by the listener into its set.
type Publication struct {
	Desired
	// SessionID identifies the session held. It is stored so that the next process can close the session.
	SessionID string
}

// RunnerSet is the part of its set that the listener reads.
type RunnerSet struct {
	Publication
	// UID distinguishes the set from an earlier set of the same name.
	UID types.UID
	// Capacity limits the jobs that GitHub may assign while the set can't run as many as maxRunners; nil means no such
	// limit.
	Capacity *int
	// DoubtedJobs counts the assigned jobs that the manager believes not to exist.
	DoubtedJobs int
	// Runners counts those of the set that have not ended.
	Runners RunnerCounts
	// Listener is the status that the last listener wrote.
	Listener *v1alpha1.ListenerStatus
}

// RunnerCounts count the runners of a set that are starting and up, as the manager counts them.
type RunnerCounts struct {
	Pending int `json:"pendingEphemeralRunners"`
	Running int `json:"runningEphemeralRunners"`
}
