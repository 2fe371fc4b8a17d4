package volumesnapshots

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

const (
	// maxCommitLength bounds the annotation: others may write it. Ours has 16 templates of 63 characters, and the job's
	// names, each cut to maxNameLength.
	maxCommitLength = 8 << 10
	maxNameLength   = 256
)

// Commit says that a snapshot may be made of a claim, and of what. It is the annotation AnnotationVolumeClaimCommit of
// the claim, and then of the VolumeSnapshot.
type Commit struct {
	// Job is the one that has written to the claim last.
	Job v1alpha1.SnapshotJob `json:"job"`
	// Templates are those of all claims of the runner: a version with fewer snapshots is not complete.
	Templates []string `json:"templates"`
	// EndedAt is the time at which the runner's controller found that the runner is gone.
	EndedAt time.Time `json:"endedAt"`
}

// NewCommit returns the commit of a runner's claims.
func NewCommit(runner *v1alpha1.EphemeralRunner, now time.Time) Commit {
	status := &runner.Status
	commit := Commit{EndedAt: now.UTC().Truncate(time.Second), Job: v1alpha1.SnapshotJob{
		Event: cut(status.Event, maxNameLength), Result: cut(status.JobResult, maxNameLength),
		Repository: cut(status.JobRepositoryName, maxNameLength), WorkflowRunID: status.WorkflowRunID,
		Name: cut(status.JobDisplayName, maxNameLength), Runner: runner.Name,
	}}
	for template, claim := range runner.Spec.VolumeClaims {
		if claim != "" {
			commit.Templates = append(commit.Templates, template)
		}
	}
	slices.Sort(commit.Templates)
	return commit
}

// cut returns at most so many characters of a text that a workflow or a driver has chosen.
func cut(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most])
	}
	return text
}

// String returns the commit as it is written to claims and VolumeSnapshots.
func (c Commit) String() string {
	text, err := json.Marshal(c)
	if err != nil { // a year beyond 9999, which no clock has
		return ""
	}
	return string(text)
}

// ParseCommit reads a commit. It returns false if the text is none, or names no template.
func ParseCommit(text string) (Commit, bool) {
	var commit Commit
	if len(text) > maxCommitLength || json.Unmarshal([]byte(text), &commit) != nil {
		return Commit{}, false
	}
	slices.Sort(commit.Templates)
	return commit, len(commit.Templates) > 0 && !commit.EndedAt.IsZero()
}
