// Package checks has the check runs on commits that the Apps of a fake GitHub have made. It is pure: no HTTP, no lock
// and no clock.
package checks

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
	Content
	// Updates counts the changes since its making.
	Updates   int       `json:"updates"`
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
}

// Content has what a client says in a check run; empty fields are not given.
type Content struct {
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

// Runs are all check runs, in the order of their making. The zero value has none. Not safe for concurrent use.
type Runs struct{ all []*CheckRun }

// Create makes a check run in a repository.
func (r *Runs) Create(now time.Time, app, owner, repository string, content Content) CheckRun {
	made := &CheckRun{
		ID: int64(70_000 + len(r.all)), App: app, Owner: owner, Repository: repository,
		Content: content, CreatedAt: now, UpdatedAt: now,
	}
	if made.Status == "" {
		made.Status = "queued"
	}
	r.all = append(r.all, made)
	return *made
}

// Update changes what is given of a check run, and tells whether the App has made one of that id there.
func (r *Runs) Update(
	now time.Time, app, owner, repository string, id int64, content Content,
) (made CheckRun, found bool) {
	for _, check := range r.all {
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
		return *check, true
	}
	return CheckRun{}, false
}

func (c *CheckRun) isIn(owner, repository string) bool {
	return strings.EqualFold(c.Owner, owner) && strings.EqualFold(c.Repository, repository)
}

// All returns all check runs, in the order of their making.
func (r *Runs) All() []CheckRun {
	checks := make([]CheckRun, len(r.all))
	for i, check := range r.all {
		checks[i] = *check
	}
	return checks
}

// Of returns the check runs of a commit, and of that name unless it is empty.
func (r *Runs) Of(owner, repository, sha, name string) []CheckRun {
	found := []CheckRun{}
	for _, check := range r.all {
		if check.isIn(owner, repository) && check.HeadSHA == sha && (name == "" || check.Name == name) {
			found = append(found, *check)
		}
	}
	return found
}
