package state

import (
	"strings"
	"time"
)

// CheckRun is a check run on a commit. Only the App that made it changes it.
type CheckRun struct {
	ID         int64  `json:"id"`
	App        string `json:"app"`
	Owner      string `json:"owner"`
	Repository string `json:"repository"`
	CheckRunContent
	// Updates counts the changes since its making.
	Updates   int       `json:"updates"`
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
}

// CheckRunContent is what a client says in a check run; empty fields are not given.
type CheckRunContent struct {
	Name       string `json:"name"`
	HeadSHA    string `json:"head_sha"`
	ExternalID string `json:"external_id"`
	DetailsURL string `json:"details_url"`
	Status     string `json:"status"`
	Conclusion string `json:"conclusion"`
	Output     struct {
		Title   string `json:"title"`
		Summary string `json:"summary"`
	} `json:"output"`
}

// CreateCheckRun makes a check run in a repository.
func (s *State) CreateCheckRun(now time.Time, app, owner, repository string, content CheckRunContent) CheckRun {
	made := &CheckRun{
		ID: int64(70_000 + len(s.checks)), App: app, Owner: owner, Repository: repository,
		CheckRunContent: content, CreatedAt: now, UpdatedAt: now,
	}
	setDefault(&made.Status, "queued")
	s.checks = append(s.checks, made)
	return *made
}

// UpdateCheckRun changes what is given of a check run, or fails with RunNotFound if the App has made none of that id there.
func (s *State) UpdateCheckRun(now time.Time, app, owner, repository string, id int64, content CheckRunContent) (CheckRun, error) {
	for _, check := range s.checks {
		if check.ID != id || check.App != app || !check.isIn(owner, repository) {
			continue
		}
		for _, field := range []struct{ of, to *string }{
			{&check.Name, &content.Name}, {&check.ExternalID, &content.ExternalID}, {&check.DetailsURL, &content.DetailsURL},
			{&check.Status, &content.Status}, {&check.Conclusion, &content.Conclusion},
			{&check.Output.Title, &content.Output.Title}, {&check.Output.Summary, &content.Output.Summary},
		} {
			if *field.to != "" {
				*field.of = *field.to
			}
		}
		check.UpdatedAt = now
		check.Updates++
		return *check, nil
	}
	return CheckRun{}, refuse(RunNotFound, "Not Found")
}

func (c *CheckRun) isIn(owner, repository string) bool {
	return strings.EqualFold(c.Owner, owner) && strings.EqualFold(c.Repository, repository)
}

// CheckRuns returns all check runs, in the order of their making.
func (s *State) CheckRuns() []CheckRun {
	checks := make([]CheckRun, len(s.checks))
	for i, check := range s.checks {
		checks[i] = *check
	}
	return checks
}

// CheckRunsOf returns the check runs of a commit, and of that name unless it is empty.
func (s *State) CheckRunsOf(owner, repository, sha, name string) []CheckRun {
	found := []CheckRun{}
	for _, check := range s.checks {
		if check.isIn(owner, repository) && check.HeadSHA == sha && (name == "" || check.Name == name) {
			found = append(found, *check)
		}
	}
	return found
}
