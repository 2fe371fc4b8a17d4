package why

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/harrier-ci/harrier/internal/output"
	"github.com/harrier-ci/harrier/operations/doctor/snapshot"
	"github.com/harrier-ci/harrier/operations/finding"
)

// NotFoundError reports that there is neither a runner nor a pod nor a waiting job of the name.
type NotFoundError struct{ message string }

// Error names what was looked for, where it was looked for, and what to try.
func (e *NotFoundError) Error() string { return e.message }

// Options select the namespaces to look in, and the form of the answer.
type Options struct {
	// The search is in Namespace or, if Everywhere is set, in all namespaces and, as far as the caller may not read all
	// of them, in Namespace.
	Namespace  string
	Everywhere bool
	Format     string
	// Longest asks for the jobs that have waited longest, whatever the user typed.
	Longest bool
	// Ledger finds the ledger of jobs, which knows those whose runners are gone; nil if it is not to be asked.
	Ledger Opener
}

// answer is the document in JSON.
type answer struct {
	Jobs   []Story           `json:"jobs"`
	Unread map[string]string `json:"notRead,omitempty"`
	Ledger past              `json:"ledger,omitzero"`
	Note   string            `json:"note,omitempty"`
}

// Run tells the stories of what the user asks about, or of the jobs that have waited longest. It fails with finding.ErrProblems if a job was lost or waits until
// somebody does something, with *NotFoundError, or with the reason why nothing could be found out.
func Run(ctx context.Context, cluster snapshot.Cluster, asked string, options Options, to io.Writer) error {
	var subject Subject
	if !options.Longest {
		var err error
		if subject, err = Parse(asked); err != nil {
			return err
		}
	}
	g, err := gather(ctx, cluster, scope{options.Namespace, options.Everywhere}, subject)
	if err != nil {
		return fmt.Errorf("ask the API server at %s: %w", cluster.Host, err)
	}
	known := &past{}
	if !options.Longest {
		known = g.forgotten(ctx, options.Ledger)
	}
	now := time.Now()
	told := answer{Jobs: []Story{}, Unread: map[string]string{}, Ledger: *known, Note: subject.Note}
	for _, f := range g.facts {
		told.Jobs = append(told.Jobs, tell(f, now))
	}
	for i := range known.jobs {
		told.Jobs = append(told.Jobs, recall(&known.jobs[i], known.Where, now))
	}
	for what, err := range g.unread {
		told.Unread[what] = output.Clean(err.Error())
	}
	switch {
	case len(told.Jobs) > 0:
	case !options.Longest:
		return g.notFound(asked, known)
	case g.unread["EphemeralRunnerSets"] != nil:
		return fmt.Errorf("runner sets, which name the jobs that wait, can't be read in %s: %w", g.where(),
			g.unread["EphemeralRunnerSets"])
	case len(g.notes) == 0:
		g.notes = append(g.notes, fmt.Sprintf("No job is known to wait in %s: names come within 35 s.", g.where()))
	}
	told.Note = strings.Join(append(g.notes, told.Note), " ")
	if options.Format == output.JSON {
		err = output.WriteJSON(to, told, true)
	} else {
		_, err = io.WriteString(to, forPeople(told.Jobs, told.Note, unreadText(g.unread), known.note()))
	}
	if err == nil && slices.ContainsFunc(told.Jobs, func(s Story) bool { return s.acts }) {
		err = finding.ErrProblems
	}
	return err
}

// notFound returns the error for a search that found nothing, or that could read nothing.
func (g *gathering) notFound(asked string, known *past) error {
	runners, pods := g.unread["EphemeralRunners"], g.unread["Pods"]
	if runners != nil && pods != nil {
		return fmt.Errorf("neither runners nor pods can be read in %s: %w; %s", g.where(), runners, known.nothing())
	}
	message := fmt.Sprintf("Nothing is there of %s in %s: no runner, no pod, and no job that a listener knows to wait.",
		output.Clean(asked), g.where())
	if g.foreign {
		message += " There is a pod of that name, which is no runner's."
	}
	if unread := unreadText(g.unread); unread != "" {
		message += " " + unread
	}
	return &NotFoundError{message + " A runner is removed when its job is done. " + known.nothing() +
		" If the job still waits on GitHub, kubectl harrier doctor -A says why scale sets take none."}
}

// unreadText names the kinds that could not be read, "" if all could.
func unreadText(unread map[string]error) string {
	var forbidden, others []string
	for _, what := range slices.Sorted(maps.Keys(unread)) {
		if err := unread[what]; apierrors.IsForbidden(err) {
			forbidden = append(forbidden, what)
		} else {
			others = append(others, fmt.Sprintf("%s could not be read: %v.", what, err))
		}
	}
	if len(forbidden) > 0 {
		others = append([]string{"You may not read " + strings.Join(forbidden, ", ") +
			", so something may be missing here."}, others...)
	}
	return output.Clean(strings.Join(others, " "))
}
