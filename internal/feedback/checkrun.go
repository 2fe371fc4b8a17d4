package feedback

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/github/rest"
)

// Told has what GitHub knows of a check run, as far as we know it.
type Told struct {
	// SHA is the commit, ID the check run on it, and Workflow says which workflow run it is about; empty while they are
	// not known.
	SHA, Workflow string
	ID            int64
	// Title, Summary and Over were told last, at At.
	Title, Summary string
	Over           bool
	At             time.Time
}

// Says reports whether the check run has the same content.
func (t *Told) Says(check *Check) bool {
	return t.Title == check.Title && t.Summary == check.Summary && t.Over == check.Over
}

func (t Told) saying(check *Check, at time.Time) Told {
	t.Title, t.Summary, t.Over, t.At = check.Title, check.Summary, check.Over, at
	return t
}

// Tell creates or updates a check run. All are neutral from the beginning, so that none ever keeps a commit from being
// merged. Its set and its key identify it: one that a former process has created, or whose answer was lost, is found
// again. It returns what is known after that, even if it fails: with *SpentError, or the errors of package rest.
func Tell(
	ctx context.Context, client *rest.Client, budget *Budget, scaleSet types.NamespacedName, check *Check, before Told,
) (Told, error) {
	repository, err := client.Repository(check.Repository)
	if err != nil {
		return before, err
	}
	client = paying(client, budget)
	known := before
	if known.SHA == "" {
		run, err := client.GetRun(ctx, repository, check.RunID)
		if err != nil {
			return known, err
		}
		known.SHA, known.Workflow = run.HeadSHA, workflowOf(run)
	}
	sent := rest.CheckRun{
		ID: known.ID, HeadSHA: known.SHA, Name: nameOf(scaleSet, check, known.Workflow),
		ExternalID: externalID(scaleSet, check),
		Conclusion: rest.ConclusionNeutral, Title: check.Title, Summary: check.Summary,
	}
	if sent.ID == 0 {
		if sent.ID, err = client.FindCheckRun(ctx, repository, sent); err != nil {
			return known, err
		}
		known.ID = sent.ID
	}
	if sent.ID == 0 && check.Over && check.About == AboutWaiting {
		return known.saying(check, client.Now()), nil // it was over before anything was said
	}
	if err := budget.Spend(client.Account(), client.Now()); err != nil {
		return known, err
	}
	if sent.ID == 0 {
		known.ID, err = client.CreateCheckRun(ctx, repository, sent)
	} else {
		err = client.UpdateCheckRun(ctx, repository, sent)
	}
	if err != nil {
		return known, err
	}
	return known.saying(check, client.Now()), nil
}

// paying returns a client whose reads, each page of a list among them, come out of the budget of its account.
func paying(client *rest.Client, budget *Budget) *rest.Client {
	return client.Paying(func() error { return budget.SpendRead(client.Account(), client.Now()) })
}

// nameOf returns the name that is read in the list of a commit's checks. GitHub shows only the newest of one name, so
// it has the run of the workflow, and the job that the record names; it stays the same for as long as the record does.
// A record of an earlier version names none.
func nameOf(scaleSet types.NamespacedName, check *Check, workflow string) string {
	what := map[string]string{AboutWaiting: "waiting", AboutLost: "lost"}[check.About]
	name := fmt.Sprintf("Runners %s: %s (%s)", scaleSet.Name, what, check.Cause)
	if check.Job == "" {
		return name
	}
	return fmt.Sprintf("%s, %s / %s", name, workflow, check.Job)
}

// workflowOf names a workflow run as GitHub's pages do.
func workflowOf(run *rest.Run) string {
	return fmt.Sprintf("%s #%d", plain(run.Workflow, "workflow"), run.Number)
}

// externalID tells a check run from those of other sets, also from one of the same name in another namespace, which it
// keeps to itself.
func externalID(scaleSet types.NamespacedName, check *Check) string {
	return fmt.Sprintf("harrier/%x/%d/%s/%s", sha256.Sum256([]byte(scaleSet.String())), check.RunID, check.About,
		check.Cause)
}

// LacksPermission reports whether GitHub has refused a call because of a permission that the credentials don't have.
func LacksPermission(err error) bool {
	answer, answered := errors.AsType[*actions.Error](err)
	_, limited := errors.AsType[*actions.RateLimitedError](err)
	return answered && !limited && answer.StatusCode == http.StatusForbidden && !errors.Is(err, actions.ErrForeignAnswer)
}
