package listener

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// Cluster is what a listener needs of the Kubernetes API, all of it about one EphemeralRunnerSet and its runners. Errors are
// those of k8s.io/apimachinery/pkg/api/errors.
type Cluster interface {
	// RunnerSet reads the set.
	RunnerSet(ctx context.Context) (*RunnerSet, error)
	// Publish writes the desired count and the session's ID in one patch, and returns the set as it is after that.
	Publish(ctx context.Context, publication Publication) (*RunnerSet, error)
	// WriteStatus writes status.listener of the set.
	WriteStatus(ctx context.Context, status v1alpha1.ListenerStatus) error
	// ReportJob writes the fields of status that are not zero into the status of a runner.
	ReportJob(ctx context.Context, runner string, status v1alpha1.EphemeralRunnerStatus) error
}

// Publication is what the listener writes into its set.
type Publication struct {
	Desired
	// SessionID is that of the session held, stored so that the next process can close it.
	SessionID string
}

// RunnerSet is what the listener reads of its set.
type RunnerSet struct {
	Publication
	// UID distinguishes the set from an earlier one of the same name.
	UID types.UID
	// Capacity limits the jobs that GitHub may assign, while the set can't run all of them; nil means no such limit.
	Capacity *int
	// Listener is the status that the last listener wrote.
	Listener *v1alpha1.ListenerStatus
}
