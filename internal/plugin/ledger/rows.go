package ledger

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// The rows are those of the API, as far as the plugin needs them. It does not take the types of internal/history, whose
// package brings both databases along; a test compares the two.

// Job has what the ledger knows of a job and the runner that had it. What nobody knows is empty, zero or nil.
type Job struct {
	RunnerUID  string `json:"runnerUID"`
	Namespace  string `json:"namespace"`
	Set        string `json:"set"`
	Runner     string `json:"runner"`
	Repository string `json:"repository"`
	Workflow   string `json:"workflow"`
	Name       string `json:"name"`
	RunID      int64  `json:"runID"`
	JobID      string `json:"jobID"`
	Event      string `json:"event"`
	// Attempt and Rerun are known of lost jobs that were to be run again.
	Attempt int    `json:"attempt"`
	Rerun   string `json:"rerun"`

	Queued      time.Time `json:"queued"`
	Assigned    time.Time `json:"assigned"`
	Created     time.Time `json:"created"`
	Registered  time.Time `json:"registered"`
	Placed      time.Time `json:"placed"`
	ImagePulled time.Time `json:"imagePulled"`
	ContainerUp time.Time `json:"containerUp"`
	Started     time.Time `json:"started"`
	Finished    time.Time `json:"finished"`

	Result    string `json:"result"`
	LostCause string `json:"lostCause"`
	Node      string `json:"node"`
	NodeType  string `json:"nodeType"`

	CPURequestMillis   *int64 `json:"cpuRequestMillis"`
	MemoryRequestBytes *int64 `json:"memoryRequestBytes"`
	PeakMemoryBytes    *int64 `json:"peakMemoryBytes"`
	CPUMicroseconds    *int64 `json:"cpuMicroseconds"`
	OOMKills           *int64 `json:"oomKills"`
}

// Reached returns the times at which the job reached each phase.
func (j *Job) Reached() *v1alpha1.RunnerPhases {
	known := func(at time.Time) *metav1.Time {
		if at.IsZero() {
			return nil
		}
		return &metav1.Time{Time: at}
	}
	return &v1alpha1.RunnerPhases{
		Queued: known(j.Queued), Assigned: known(j.Assigned), Created: known(j.Created),
		Registered: known(j.Registered),
		Placed:     known(j.Placed), ImagePulled: known(j.ImagePulled), ContainerUp: known(j.ContainerUp),
		Started: known(j.Started),
	}
}

// Group has what jobs that are added up have in common.
type Group struct {
	Cluster    string    `json:"cluster,omitempty"`
	Namespace  string    `json:"namespace,omitempty"`
	Set        string    `json:"set,omitempty"`
	Repository string    `json:"repository,omitempty"`
	Workflow   string    `json:"workflow,omitempty"`
	Name       string    `json:"name,omitempty"`
	Day        time.Time `json:"day,omitzero"`
}

// Usage is the sum of jobs that have finished.
type Usage struct {
	Group

	Jobs      int64 `json:"jobs"`
	Succeeded int64 `json:"succeeded"`
	Failed    int64 `json:"failed"`
	Canceled  int64 `json:"canceled"`
	Lost      int64 `json:"lost"`

	RunHours          float64 `json:"runHours"`
	CPUHoursRequested float64 `json:"cpuHoursRequested"`
	GiBHoursRequested float64 `json:"gibHoursRequested"`
	// CPUHoursUsed is that of JobsWithKnownUsage.
	CPUHoursUsed       float64 `json:"cpuHoursUsed"`
	JobsWithKnownUsage int64   `json:"jobsWithKnownUsage"`
	// Waits has the seconds that JobsWithKnownWait waited for each phase, on average.
	Waits             map[string]float64 `json:"waits,omitempty"`
	JobsWithKnownWait int64              `json:"jobsWithKnownWait"`
	// Cost is 0 without prices.
	Cost float64 `json:"cost"`
}

// Wait has the times that jobs which have finished waited for a phase, from the phase before.
type Wait struct {
	Group

	// Phase is one of Phases, or WholeWait for all of them together.
	Phase string `json:"phase"`
	Jobs  int64  `json:"jobs"`
	// Half of the jobs, and 95 of 100, waited no longer.
	SecondsP50 int64 `json:"secondsP50"`
	SecondsP95 int64 `json:"secondsP95"`
}

// WholeWait stands in the place of a phase.
const WholeWait = "all"

// Size has the requests of a workflow's job, and what it uses of them.
type Size struct {
	Cluster    string `json:"cluster"`
	Namespace  string `json:"namespace"`
	Set        string `json:"set"`
	Repository string `json:"repository"`
	Workflow   string `json:"workflow"`
	Name       string `json:"name"`

	// Jobs is the number of those that have finished, and Measured of those whose use is known.
	Jobs     int64   `json:"jobs"`
	Measured int64   `json:"measured"`
	RunHours float64 `json:"runHours"`
	// The requests are the largest of their pods.
	CPURequestMillis   int64 `json:"cpuRequestMillis"`
	MemoryRequestBytes int64 `json:"memoryRequestBytes"`
	// The 95th percentiles are nil or, of older ledgers, 0 if nothing is known.
	PeakMemoryBytesP95  *int64 `json:"peakMemoryBytesP95,omitempty"`
	CPUAverageMillisP95 *int64 `json:"cpuAverageMillisP95,omitempty"`
	ThrottledPercentP95 *int64 `json:"throttledPercentP95,omitempty"`
	// With fitting requests the cost would have been lower by Saving, negative if more is used than requested.
	Saving float64 `json:"saving"`
}

// Gap is a time in which no ledger looked.
type Gap struct {
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Reason string    `json:"reason"`
}

// Phases are those that a job can wait for, in the order in which it reaches them.
var Phases = []string{"assigned", "created", "registered", "placed", "imagePulled", "containerUp", "started"}

// PhaseMeanings name who or what takes the time of a phase, and until when.
var PhaseMeanings = map[string]string{
	"assigned":    "GitHub, until it gave the job to the scale set",
	"created":     "the scale set, until it had room and created a runner",
	"registered":  "GitHub, until the runner was registered",
	"placed":      "the cluster, until a node had room",
	"imagePulled": "the node, for image, volumes and network",
	"containerUp": "the pod's init containers",
	"started":     "the runner, until it had the job from GitHub",
}

// CPU returns thousandths of a CPU as the template of a scale set has them.
func CPU(millis int64) string { return resource.NewMilliQuantity(millis, resource.DecimalSI).String() }

// Memory does the same for bytes, rounded up to whole MiB: nobody asks to be more exact.
func Memory(bytes int64) string {
	const mib = 1 << 20
	return resource.NewQuantity((bytes/mib+min(1, bytes%mib))*mib, resource.BinarySI).String()
}
