package why

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/harrier-ci/harrier/internal/doctor/finding"
	"github.com/harrier-ci/harrier/internal/doctor/snapshot"
	"github.com/harrier-ci/harrier/internal/output"
	"github.com/harrier-ci/harrier/internal/plugin/ledger"
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
	// Ledger finds the ledger of jobs, which knows those whose runners are gone; nil if it is not to be asked.
	Ledger Opener
}

// Opener finds the ledger of jobs.
type Opener func(context.Context) (*ledger.Ledger, error)

// answer is the document in JSON.
type answer struct {
	Jobs   []Story           `json:"jobs"`
	Unread map[string]string `json:"notRead,omitempty"`
	Ledger past              `json:"ledger,omitzero"`
	Note   string            `json:"note,omitempty"`
}

// Run tells the stories of what the user asks about. It fails with finding.ErrProblems if a job was lost or waits until
// somebody does something, with *NotFoundError, or with the reason why nothing could be found out.
func Run(ctx context.Context, cluster snapshot.Cluster, asked string, options Options, to io.Writer) error {
	subject, err := Parse(asked)
	if err != nil {
		return err
	}
	g, err := gather(ctx, cluster, scope{options.Namespace, options.Everywhere}, subject)
	if err != nil {
		return fmt.Errorf("ask the API server at %s: %w", cluster.Host, err)
	}
	known := g.forgotten(ctx, options.Ledger)
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
	if len(told.Jobs) == 0 {
		return g.notFound(asked, known)
	}
	if options.Format == output.JSON {
		err = output.WriteJSON(to, told, true)
	} else {
		_, err = io.WriteString(to, text(told.Jobs, subject.Note, unreadText(g.unread), known.note()))
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

// text returns the stories for people.
func text(stories []Story, notes ...string) string {
	var text strings.Builder
	for i := range stories {
		if i > 0 {
			text.WriteByte('\n')
		}
		stories[i].write(&text)
	}
	for _, note := range notes {
		if note != "" {
			text.WriteString("\n" + output.Clean(note) + "\n")
		}
	}
	return text.String()
}

// write writes the story: what it is about, and a line for each thing that is known.
func (s *Story) write(to io.Writer) {
	line := func(label, format string, values ...any) {
		fmt.Fprintf(to, "  %-9s %s\n", label, output.Clean(fmt.Sprintf(format, values...)))
	}
	known := func(label, text string) {
		if text != "" {
			line(label, "%s", text)
		}
	}
	fmt.Fprintln(to, output.Clean(s.headline()))
	known("Known", s.From)
	known("Page", s.Page)
	if s.Job.Workflow != "" || s.Job.Event != "" {
		line("Workflow", "%s, started by %s", cmp.Or(s.Job.Workflow, "unknown"),
			cmp.Or(s.Job.Event, "an unknown event"))
	}
	if s.Runner != "" {
		line("Runner", "%s/%s of scale set %s", s.Namespace, s.Runner, cmp.Or(s.ScaleSet, "unknown"))
	} else {
		line("Scale set", "%s/%s", s.Namespace, s.ScaleSet)
	}
	if s.Runner != "" {
		line("Where", "node %s, image %s", cmp.Or(s.Node, "unknown"), cmp.Or(s.Image, "unknown"))
	}
	label := "Phases"
	for i := range s.Phases {
		phase := &s.Phases[i]
		took := ""
		if phase.Seconds > 0 {
			took = "  after " + output.Duration(time.Duration(phase.Seconds)*time.Second)
		}
		line(label, "%s  %s%s", phase.At.Format(time.RFC3339), phase.Name, took)
		label = ""
	}
	if s.WaitSeconds > 0 {
		line("Waited", "%s in all%s", output.Duration(time.Duration(s.WaitSeconds)*time.Second), s.longest())
	}
	if s.Result != "" {
		line("Result", "%s%s", s.Result, s.finished())
	}
	known("Size", s.Usage)
	if s.Reason != "" {
		line("Cause", "%s: %s", s.Reason, cmp.Or(s.Message, "no message"))
	}
	if s.Rerun != nil {
		line("Run again", "%s%s %s", s.Rerun.State, dated(" since ", s.Rerun.Since.Time), s.Rerun.Message)
	}
	for _, step := range s.Next {
		line("Next", "%s: %s", step.Who, step.Do)
	}
	label = "Events"
	for _, event := range s.Events {
		line(label, "%s", event)
		label = ""
	}
}

// headline names the subject of the story and its state.
func (s *Story) headline() string {
	what := "A runner without a job"
	if s.Job != (Job{}) {
		what = fmt.Sprintf("Job %q", cmp.Or(s.Job.Name, s.Job.ID, "without a known name"))
		if s.Job.Repository != "" {
			what += " of " + s.Job.Repository
		}
		if s.Job.Run != 0 {
			what += fmt.Sprintf(", run %d", s.Job.Run)
		}
	}
	return what + ": " + s.standing()
}

func (s *Story) standing() string {
	switch s.State {
	case Waiting:
		return "waits for a runner"
	case Starting:
		return "the runner is starting"
	case Idle:
		return "the runner is up and waits for a job"
	case Running:
		return "running"
	case Ended:
		return "ended"
	case Lost:
		return "lost with its runner"
	case Failed:
		return "the runner failed"
	}
	return string(s.State)
}

// longest names the longest phase of the wait, if there are several.
func (s *Story) longest() string {
	longest := Phase{}
	for _, phase := range s.Phases {
		if phase.Seconds > longest.Seconds {
			longest = phase
		}
	}
	if s.State == Waiting || longest.Seconds == 0 {
		return ""
	}
	return fmt.Sprintf(", the longest for %s: %s", longest.Name, ledger.PhaseMeanings[longest.Name])
}

// dated returns a time with a word before it, nothing if nobody knows it.
func dated(word string, at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return word + at.UTC().Format(time.RFC3339)
}

func (s *Story) finished() string {
	at := dated(" at ", s.FinishedAt)
	for _, phase := range s.Phases {
		if phase.Name == "started" && s.FinishedAt.After(phase.At) {
			return at + ", after " + output.Duration(s.FinishedAt.Sub(phase.At))
		}
	}
	return at
}
