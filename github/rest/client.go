// Package rest makes the few calls to GitHub's REST API by which a program tells a commit's author what became of a
// job, and has a lost job run again: workflow runs and their jobs, reruns, check runs.
//
// It stands on github/actions, whose tokens, limits, deadlines and errors it shares, and knows nothing of Kubernetes.
// What it says of the API is from GitHub's documentation of it, pages "REST API endpoints for workflow runs", "…
// workflow jobs" and "… check runs" at https://docs.github.com/rest, unless a comment names another source.
//
// # Rights
//
// Reading runs and jobs needs the repository permission Actions: read, reruns Actions: write, check runs Checks: write.
// A classic personal access token needs the scope repo; it can't write check runs, which GitHub leaves to Apps.
package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
)

// GitHub makes calls to the REST API; *actions.Client does.
type GitHub interface {
	CallREST(ctx context.Context, r actions.RESTRequest, result any) error
	ConfigURL() *actions.ConfigURL
	Account() actions.Account
	Now() time.Time
}

// Client makes the calls of this package. It is safe for concurrent use.
type Client struct {
	github GitHub
	// pay is asked before each read, if it is set.
	pay func() error
}

// New returns a client that calls GitHub as the other one does.
func New(github GitHub) *Client { return &Client{github: github} }

// Paying returns a client that asks before each call that reads, each page of a list among them. If it may not, the
// method fails with pay's error, and nothing is read.
func (c *Client) Paying(pay func() error) *Client { return &Client{github: c.github, pay: pay} }

// Account returns the account whose limits at GitHub the calls use, as package actions does.
func (c *Client) Account() actions.Account { return c.github.Account() }

// Now returns the time on the client's clock.
func (c *Client) Now() time.Time { return c.github.Now() }

// ErrForeignRepository means that a name is no repository's, or that the client's config URL has no runners for that
// repository. Nothing was asked.
var ErrForeignRepository = errors.New("not a repository of the config URL")

// Repository is a repository that the client's config URL covers.
type Repository struct{ owner, name string }

// String returns OWNER/NAME.
func (r Repository) String() string { return r.owner + "/" + r.name }

// repositoryName matches every OWNER/NAME that GitHub allows, whose parts have at most 39 and 100 characters.
var repositoryName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}$`)

// Repository returns the repository OWNER/NAME. Such names come from messages and objects that others write, so the
// client calls only those that its config URL covers. It fails with ErrForeignRepository.
func (c *Client) Repository(fullName string) (Repository, error) {
	owner, name, _ := strings.Cut(fullName, "/")
	config := c.github.ConfigURL()
	switch {
	case !repositoryName.MatchString(fullName), strings.Trim(owner, ".") == "", strings.Trim(name, ".") == "",
		config.Scope != actions.ScopeEnterprise && !strings.EqualFold(owner, config.Organization),
		config.Scope == actions.ScopeRepository && !strings.EqualFold(name, config.Repository):
		return Repository{}, fmt.Errorf("%q: %w %s", shorten(fullName), ErrForeignRepository, config)
	}
	return Repository{owner: owner, name: name}, nil
}

// call makes one call about a repository.
func (c *Client) call(ctx context.Context, of Repository, r actions.RESTRequest, result any) error {
	if c.pay != nil && r.Method == http.MethodGet {
		if err := c.pay(); err != nil {
			return err
		}
	}
	r.Path = append([]string{"repos", of.owner, of.name}, r.Path...)
	if err := c.github.CallREST(ctx, r, result); err != nil {
		return fmt.Errorf("%s: %w", of, err)
	}
	return nil
}

// MayBeDone reports whether GitHub may have done what a call of this package asked for, although the call failed: no
// complete answer came, a gateway or GitHub itself failed on the way (5xx), or the answer was a success that can't be
// read. In doubt it is true: such an error may also come from a token that was asked for before. Any other answer is a
// refusal.
func MayBeDone(err error) bool {
	_, lost := errors.AsType[*actions.NetworkError](err)
	_, unread := errors.AsType[*actions.UnexpectedResponseError](err)
	answer, answered := errors.AsType[*actions.Error](err)
	return lost || unread || (answered && answer.StatusCode >= http.StatusInternalServerError)
}

// shorten cuts a foreign text to what an error may quote.
func shorten(text string) string {
	const most = 200
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
