package autoscalingrunnerset

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/internal/kube"
)

// memory is what is remembered of a set between passes.
type memory struct {
	// statusWrittenAt is when the status was last written. A pass that changes nothing doesn't delay the next write.
	statusWrittenAt time.Time
	// deregistrationStart is when the deregistration began, zero while there is none.
	deregistrationStart time.Time
	// lostJobs is the highest count of lost jobs that a runner set had; it may be gone before the count is written.
	lostJobs int
	// size is the set's size as last recorded, nil if it has not been recorded.
	size *scaling
	// troubles are the troubles that the metrics show.
	troubles []trouble
	// revision is the spec's word for the content of the credentials that was last read at its bidding, nil before the first read.
	revision *string
	// accepted identifies the credentials that GitHub last accepted, and confirmed the scale set that it last agreed to; see
	// credentialsHashOf and syncResult.desiredHash. They are empty until it has, or after it has refused.
	accepted, confirmed string
	// begunHere is set if only this process has ever asked GitHub for anything on behalf of the set.
	begunHere bool
	// kept are the objects that only finalizers of others keep.
	kept kube.Kept
	// template is what has become of pods of the present template.
	template templateMemory
	// stripped is the last release of the chart that stripProtection has handled.
	stripped strippedRelease
}

// show publishes the metrics of a set's conditions. A set that is being deleted has no series, so that no alert fires for it.
func (m *memory) show(key types.NamespacedName, conditions []metav1.Condition, deleting bool) {
	if deleting {
		unpublish(key)
		m.troubles = nil
		return
	}
	m.troubles = publish(key, conditions, m.troubles)
}
