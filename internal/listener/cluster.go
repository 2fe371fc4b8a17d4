package listener

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// Cluster is what a listener asks of the Kubernetes API: all of it is about one EphemeralRunnerSet and its runners.
// Errors are those of k8s.io/apimachinery/pkg/api/errors.
type Cluster interface {
	// RunnerSet reads the set.
	RunnerSet(ctx context.Context) (*RunnerSet, error)
	// Publish writes the desired count and the session's id in one patch. The answer is the set as it is then.
	Publish(ctx context.Context, publication Publication) (*RunnerSet, error)
	// ReportState writes status.listener of the set.
	ReportState(ctx context.Context, status v1alpha1.ListenerStatus) error
	// ReportJob writes the fields of status that are not zero into the status of a runner.
	ReportJob(ctx context.Context, runner string, status v1alpha1.EphemeralRunnerStatus) error
}

// Publication is what the listener writes into its set.
type Publication struct {
	Desired
	// SessionID of the session held, kept so that another process can close it.
	SessionID string
}

// RunnerSet is what the listener reads of its set.
type RunnerSet struct {
	Publication
	// UID tells the set from one of the same name that was there before.
	UID types.UID
	// Capacity limits the jobs GitHub may assign while the set can't run them; nil means no such limit.
	Capacity *int
	// Listener is what the last listener said of itself.
	Listener *v1alpha1.ListenerStatus
}
