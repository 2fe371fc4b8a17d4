package why

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/harrier-ci/harrier/internal/meaning"
	"github.com/harrier-ci/harrier/internal/output"
	"github.com/harrier-ci/harrier/operations/history/rows"
)

// forPeople returns the stories as text, after a table of them if there are several.
func forPeople(stories []Story, notes ...string) string {
	var text strings.Builder
	if len(stories) > 1 {
		text.WriteString(table(stories))
	}
	for i := range stories {
		if i > 0 || len(stories) > 1 {
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

// table lists stories in a line each, for those who look for one of many.
func table(stories []Story) string {
	var text strings.Builder
	columns := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "STATE\tWAITED\tRUN\tSCALE SET\tWHY\tJOB")
	ids := rows.Apart(len(stories), func(i int) rows.Named {
		return rows.Named{Run: stories[i].Job.Run, Name: stories[i].Job.Name, ID: stories[i].Job.ID}
	})
	for i := range stories {
		s := &stories[i]
		job := s.Job.Name
		if ids[i] != "" {
			job += ", job " + ids[i]
		}
		if s.Job.Repository != "" {
			job = s.Job.Repository + ": " + job
		}
		fmt.Fprintf(columns, "%s\t%s\t%d\t%s/%s\t%s\t%s\n", s.State, output.Duration(time.Duration(s.WaitSeconds)*time.Second),
			s.Job.Run, s.Namespace, s.ScaleSet, output.Clean(meaning.For(s.Reason).InFewWords()), output.Clean(job))
	}
	_ = columns.Flush() // into memory
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
		line("Where", "node %s, image %s", cmp.Or(s.Node, "unknown"), cmp.Or(s.Image, "unknown"))
	} else {
		line("Scale set", "%s/%s", s.Namespace, s.ScaleSet)
	}
	s.writeWait(line)
	if s.Result != "" {
		line("Result", "%s%s", s.Result, s.finished())
	}
	if s.State == Ended {
		known("End", s.Message)
	}
	known("Size", s.Usage)
	if s.Reason != "" {
		line("Cause", "%s: %s", s.Reason, cmp.Or(s.Message, "no message"))
	}
	if s.State == Lost && s.knowsRerun {
		line("Run again", "%s%s", s.rerun().Sentence, s.decided())
	}
	for _, step := range s.Next {
		line("Next", "%s: %s", step.Who, step.Do)
	}
	label := "Events"
	for _, event := range s.Events {
		line(label, "%s", event)
		label = ""
	}
}

// writeWait writes the phases of the job and its wait: a line for each that is known.
func (s *Story) writeWait(line func(label, format string, values ...any)) {
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
	if s.Limit != nil {
		line("Limit", "%s of that while the scale set was at its limit %s", output.Duration(time.Duration(s.Limit.Seconds)*
			time.Second), s.Limit)
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
	switch {
	case s.State == Waiting || longest.Seconds == 0 && s.Limit == nil:
		return ""
	case s.Limit != nil && s.Limit.Seconds >= longest.Seconds:
		return ", the longest for the scale set's limit " + s.Limit.Reason
	}
	_, of := meaning.OfPhase(longest.Name)
	return fmt.Sprintf(", the longest for %s: %s", longest.Name, of.Whose)
}

// String names the limit, with its number or what is known of it.
func (l *Limit) String() string {
	switch {
	case l.Number != nil:
		return fmt.Sprintf("%s at %d", l.Reason, *l.Number)
	case l.Message != "":
		return l.Reason + ": " + l.Message
	}
	return l.Reason
}

// decided returns what was decided about a lost job's rerun and when, nothing if nothing was.
func (s *Story) decided() string {
	if s.Rerun == nil {
		return ""
	}
	said := fmt.Sprintf(" (%s%s", s.Rerun.State, dated(" since ", s.Rerun.Since.Time))
	if s.Rerun.Message != "" {
		said += ": " + s.Rerun.Message
	}
	return said + ")"
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
