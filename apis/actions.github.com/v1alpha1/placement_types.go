package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CapacitySpec chooses the way in which the number of jobs is found for which a set announces room to GitHub. An
// assigned job can't be given back: it waits for a runner of its set.
type CapacitySpec struct {
	// Static: maxRunners is announced. Placement: as many jobs as the cluster has been seen to find nodes for, and a
	// few more to find out whether there is more room; for several clusters that share jobs by a label. Default Static.
	// +optional
	// +kubebuilder:validation:Enum=Static;Placement
	Mode CapacityMode `json:"mode,omitempty"`
	// With mode Placement, how long a pod may be without a node before it counts as one that can't be placed. Default
	// 10m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s') && duration(self) <= duration('8760h') || (oldSelf.hasValue() && oldSelf.value() == self)",optionalOldSelf=true,message="must be more than 0s and at most 8760h, a year"
	PlacementTimeout *metav1.Duration `json:"placementTimeout,omitempty"`
}

// CapacityMode chooses the number of jobs that is announced to GitHub.
type CapacityMode string

// Values of CapacityMode.
const (
	CapacityStatic    CapacityMode = "Static"
	CapacityPlacement CapacityMode = "Placement"
)

// PlacementStatus has what a set with capacity.mode Placement has found out about its cluster. It outlives the manager.
type PlacementStatus struct {
	// How many runner pods the cluster has held on nodes at the same time and is believed to hold.
	// +kubebuilder:validation:Minimum=0
	Mark int `json:"mark"`
	// For how many more there is room, as far as is tried.
	// +kubebuilder:validation:Minimum=0
	Window int `json:"window"`
	// When the mark was reached last, to the hour. After a day without that the mark falls by an eighth.
	// +optional
	ReachedAt metav1.Time `json:"reachedAt,omitempty"`
}

// PlacesJobs reports whether capacity.mode is Placement.
func (s *AutoscalingRunnerSetSpec) PlacesJobs() bool {
	return s.Capacity != nil && s.Capacity.Mode == CapacityPlacement
}

// AdvertisedCapacity returns the number of jobs for which GitHub is told that there is room, nil if nothing limits it:
// 0 if the AutoscalingRunnerSet is drained. The listener announces at least one more than run.
func (s *EphemeralRunnerSet) AdvertisedCapacity(drained bool) *int {
	if drained {
		return new(0)
	}
	most, said := s.Spec.MaxRunners, s.Status.Capacity
	if said == nil || most != nil && *most < *said {
		return most
	}
	return said
}
