package state

import (
	"fmt"
	"time"
)

// AnomalyKind names something that a correct controller never causes.
type AnomalyKind string

// The anomalies the fake watches for.
const (
	// JITConfigReused: a second runner process came with a JIT config already used.
	JITConfigReused AnomalyKind = "JITConfigReused"
	// JobRunTwice: a job was handed to a second runner.
	JobRunTwice AnomalyKind = "JobRunTwice"
	// RunnerStoppedBusy: a runner was told to stop in the middle of a job.
	RunnerStoppedBusy AnomalyKind = "RunnerStoppedBusy"
	// RunnerLostBusy: a runner vanished in the middle of a job.
	RunnerLostBusy AnomalyKind = "RunnerLostBusy"
	// UnknownRunner: a runner came with credentials this GitHub never gave out.
	UnknownRunner AnomalyKind = "UnknownRunner"
	// ScaleSetDeletedBusy: a scale set was deleted by its client while jobs ran.
	ScaleSetDeletedBusy AnomalyKind = "ScaleSetDeletedBusy"
	// ZeroAdvertised: a session advertised a capacity of 0, which may bar jobs from its scale set for ever.
	ZeroAdvertised AnomalyKind = "ZeroAdvertised"
)

// Anomaly is one such occurrence.
type Anomaly struct {
	Time   time.Time   `json:"time"`
	Kind   AnomalyKind `json:"kind"`
	Runner string      `json:"runner,omitempty"`
	JobID  int64       `json:"requestId,omitempty"`
	Detail string      `json:"detail"`
}

// String returns one line for a test failure.
func (a Anomaly) String() string {
	return fmt.Sprintf("%s %s runner=%q job=%d: %s", a.Time.Format(time.TimeOnly), a.Kind, a.Runner, a.JobID, a.Detail)
}

// Anomalies returns the anomalies so far, oldest first.
func (s *State) Anomalies() []Anomaly {
	return append([]Anomaly{}, s.anomalies...)
}

func (s *State) anomaly(now time.Time, kind AnomalyKind, runner *Runner, job *Job, detail string) {
	a := Anomaly{Time: now, Kind: kind, Detail: detail}
	if runner != nil {
		a.Runner = runner.Name
	}
	if job != nil {
		a.JobID = job.RequestID
	}
	s.anomalies = append(s.anomalies, a)
}
