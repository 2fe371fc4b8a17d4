package rows

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/limits"
	"github.com/harrier-ci/harrier/internal/phases"
)

// Job has the known facts about a job and the runner that had it. A zero time, an empty text or a nil number is not
// known.
type Job struct {
	RunnerUID string `json:"runnerUID"`
	// Cluster tells the clusters apart that share a database.
	Cluster   string `json:"cluster"`
	Namespace string `json:"namespace"`
	Set       string `json:"set"`
	// Runner is the name of the runner and its pod.
	Runner string `json:"runner"`
	// At is the start of the job or, if that is not known, the creation of its runner. Jobs are ordered by it, and kept
	// for the retention from it on.
	At time.Time `json:"at"`

	// Repository is OWNER/REPO, Workflow OWNER/REPO/PATH of the workflow's file, and Ref the ref that the run has taken
	// the file from.
	Repository string `json:"repository,omitempty"`
	Workflow   string `json:"workflow,omitempty"`
	Ref        string `json:"ref,omitempty"`
	Name       string `json:"name,omitempty"`
	RunID      *int64 `json:"runID,omitempty"`
	// JobID is GitHub's word for the job in messages to runners; the number in the address of its page is another.
	JobID string `json:"jobID,omitempty"`
	// JobNumber is that number, and Attempt the job's attempt of the workflow run, as far as GitHub has named them: with
	// feedback.jobLinks, and of lost jobs that were to be run again.
	JobNumber *int64 `json:"jobNumber,omitempty"`
	Attempt   *int64 `json:"attempt,omitempty"`
	Event     string `json:"event,omitempty"`

	Queued      time.Time `json:"queued,omitzero"`
	Assigned    time.Time `json:"assigned,omitzero"`
	Created     time.Time `json:"created,omitzero"`
	Registered  time.Time `json:"registered,omitzero"`
	Placed      time.Time `json:"placed,omitzero"`
	ImagePulled time.Time `json:"imagePulled,omitzero"`
	ContainerUp time.Time `json:"containerUp,omitzero"`
	Started     time.Time `json:"started,omitzero"`
	Finished    time.Time `json:"finished,omitzero"`
	// While the job waited, its scale set was at a limit: LimitedReason names the one that held longest, and LimitNumber is
	// its number, if it has one. The seconds are parts of those that the job waited for GitHub to assign it, for its runner
	// to be created, and for its pod to have a node.
	LimitedReason   string `json:"limitedReason,omitempty"`
	LimitNumber     *int64 `json:"limitNumber,omitempty"`
	LimitedAssigned *int64 `json:"limitedAssigned,omitempty"`
	LimitedCreated  *int64 `json:"limitedCreated,omitempty"`
	LimitedPlaced   *int64 `json:"limitedPlaced,omitempty"`
	// Ending says how Finished is known: it is empty for GitHub's word, or one of the Ending… words.
	Ending string `json:"ending,omitempty"`

	// Result is succeeded, failed or canceled, as GitHub says it, or Unknown if the runner was gone before GitHub had
	// said anything.
	Result    string `json:"result,omitempty"`
	LostCause string `json:"lostCause,omitempty"`
	// Rerun is the state of the lost job's rerun: Wanted, Asked, Done or GivenUp. RerunReason says in one word why it was
	// given up, and RerunAttempt is the attempt that has the job again.
	Rerun        string `json:"rerun,omitempty"`
	RerunReason  string `json:"rerunReason,omitempty"`
	RerunAttempt *int64 `json:"rerunAttempt,omitempty"`

	Node     string `json:"node,omitempty"`
	NodeType string `json:"nodeType,omitempty"`
	// NodeLabels are those of the node on which prices may depend, as NAME=VALUE or !NAME for one that it doesn't have, with
	// commas between them.
	NodeLabels string `json:"nodeLabels,omitempty"`

	// Elsewhere is one of the Elsewhere… words if the job's work isn't that of the runner's container alone: then its use
	// says nothing about the requests.
	Elsewhere string `json:"elsewhere,omitempty"`

	// ExtendedResources are what is requested besides CPU and memory, as NAME=NUMBER, with commas between them.
	ExtendedResources string `json:"extendedResources,omitempty"`
	// CPURequestMillis and MemoryRequestBytes are the requests of the pod and, where container hooks run the job, of the
	// largest of its pods; MemoryLimitBytes and the fields after it are about
	// the runner's container.
	CPURequestMillis   *int64 `json:"cpuRequestMillis,omitempty"`
	MemoryRequestBytes *int64 `json:"memoryRequestBytes,omitempty"`
	MemoryLimitBytes   *int64 `json:"memoryLimitBytes,omitempty"`
	PeakMemoryBytes    *int64 `json:"peakMemoryBytes,omitempty"`
	CPUMicroseconds    *int64 `json:"cpuMicroseconds,omitempty"`
	CPUPeriods         *int64 `json:"cpuPeriods,omitempty"`
	ThrottledPeriods   *int64 `json:"throttledPeriods,omitempty"`
	OOMKills           *int64 `json:"oomKills,omitempty"`
}

// ResultUnknown is the result of a job whose runner was gone before GitHub had reported one.
const ResultUnknown = "Unknown"

// What does the work of a job besides the runner's container.
const (
	// ElsewherePods: container hooks run the job's steps in pods of their own.
	ElsewherePods = "Pods"
	// ElsewhereDocker: a Docker daemon runs what the job starts in containers.
	ElsewhereDocker = "Docker"
	// ElsewhereContainers: other containers of the pod have requests, too.
	ElsewhereContainers = "Containers"
)

// How the end of a job is known that GitHub has not told.
const (
	// EndingRunnerGone: the ledger saw the runner go, at that time.
	EndingRunnerGone = "RunnerGone"
	// EndingUnseen: nobody saw it. Finished is the last sign of life of the ledger that followed the job, and the job has
	// no run time.
	EndingUnseen = "Unseen"
	// EndingGaveUp: the job ended before a runner had it, as GitHub says. It has waited until then.
	EndingGaveUp = "GaveUp"
)

// RunTime returns the time from the job's start to its end, 0 if that is not known. Clocks differ, so a job may seem to
// have ended before it began.
func (j *Job) RunTime() time.Duration {
	if j.Started.IsZero() || j.Finished.IsZero() || j.Ending == EndingUnseen {
		return 0
	}
	return max(0, j.Finished.Sub(j.Started))
}

// CPUAverageMillis returns the thousandths of a CPU that the job used on average, nil if they are not known.
func (j *Job) CPUAverageMillis() *int64 {
	seconds := int64(j.RunTime().Seconds())
	if j.CPUMicroseconds == nil || seconds == 0 {
		return nil
	}
	return new(*j.CPUMicroseconds / 1000 / seconds)
}

// ThrottledPercent returns the part of its working time, in percent, in which the job was held back by its CPU limit,
// nil if that is not known.
func (j *Job) ThrottledPercent() *int64 {
	if j.ThrottledPeriods == nil || j.CPUPeriods == nil || *j.CPUPeriods == 0 {
		return nil
	}
	return new(min(100, *j.ThrottledPeriods/max(1, *j.CPUPeriods/100)))
}

// Waits returns the phases of the job's wait, nothing if its beginning is not known. The time during which the scale set
// was at its limit is one of them. A job that gave up has waited for a runner until its end.
func (j *Job) Waits() []phases.Wait {
	waits := phases.Waits(j.Reached())
	if j.LimitedReason == "" {
		return waits
	}
	return phases.Apart(waits, j.LimitedShare().ByPhase())
}

// LongestRun is the longest time that GitHub lets a workflow run take.
const LongestRun = 35 * 24 * time.Hour

// LimitedShare is the part of the job's wait during which its scale set was at a limit.
func (j *Job) LimitedShare() limits.Share {
	part := func(seconds *int64) time.Duration {
		return time.Duration(min(ptr.Deref(seconds, 0), int64(LongestRun/time.Second))) * time.Second
	}
	return limits.Share{
		Assigned: part(j.LimitedAssigned), Created: part(j.LimitedCreated), Placed: part(j.LimitedPlaced),
	}
}

// Reached returns the times at which the job reached the phases of its wait.
func (j *Job) Reached() *v1alpha1.RunnerPhases {
	at := func(t time.Time) *metav1.Time {
		if t.IsZero() {
			return nil
		}
		return new(metav1.NewTime(t))
	}
	created := j.Created
	if j.Ending == EndingGaveUp {
		created = j.Finished
	}
	return &v1alpha1.RunnerPhases{
		Queued: at(j.Queued), Assigned: at(j.Assigned), Created: at(created), Registered: at(j.Registered),
		Placed:      at(j.Placed),
		ImagePulled: at(j.ImagePulled), ContainerUp: at(j.ContainerUp), Started: at(j.Started),
	}
}
