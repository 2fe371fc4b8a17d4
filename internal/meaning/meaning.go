// Package meaning says what each word means that names why something is so: the reasons of conditions, Events, runners,
// pods and findings, the causes that jobs are lost to, and the phases that a job waits for. A word has one row, which
// has all that is said of it: who acts, what to do, a short form for columns, the words for the author of a job. Every
// surface takes its words from here: conditions, check runs, the doctor, the plugin and the ledger's pages. So a new
// reason is a constant of the API, a row, and the place that raises it.
package meaning

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
)

// Actor is who has to act so that a cause ends.
type Actor int

const (
	// Nobody: it ends by itself, or nobody knows.
	Nobody Actor = iota
	// User: whoever wrote the AutoscalingRunnerSet or its Secret.
	User
	// Administrator: whoever runs the cluster or the controller.
	Administrator
	// GitHub: an owner or administrator there, or the owner of the token or App.
	GitHub
)

// String returns the actor in words.
func (a Actor) String() string {
	return [...]string{"nobody", "whoever installs the scale set", "the cluster's administrator",
		"an owner on GitHub"}[a]
}

// Row is the meaning of a reason.
type Row struct {
	Reason string
	// Actor is who has to act. Passes is set if the cause may also end without that: what failed is tried again.
	Actor  Actor
	Passes bool
	// Chosen is set if somebody wanted it so, by a number or an annotation: it is no problem.
	Chosen bool
	// Advice is what to do, or what happens by itself. It is empty for a reason that names an ordinary state.
	Advice string
	// Unsaid is set if the texts of errors with this reason don't have the advice themselves, with more detail.
	Unsaid bool
	// OfPods is set if the advice is about runners' pods. OfListener is that about a listener's pod with the reason.
	OfPods     bool
	OfListener string
	// Few has few words for a column, of at most 24 characters; without them the reason's own words do.
	Few string
	// Author explains to the author of a job why it waits. It names no node, image or quota: whoever reads the
	// repository reads it.
	Author string
}

// For returns the meaning of a reason, as it is read from a status. Of a reason without a row nothing is known: perhaps
// it passes, else it is for whoever wrote the scale set.
func For(reason string) Row {
	if row, known := rows[reason]; known {
		return row
	}
	if reason == "" {
		return Row{}
	}
	row := Row{Reason: reason, Actor: User, Passes: true}
	if strings.HasPrefix(reason, "OutOf") { // the name of a resource follows
		row.Actor, row.Advice, row.OfPods = Administrator, refusedByNode, true
	}
	return row
}

// Known reports whether a reason has a row: this project, or Kubernetes, gives it. Reasons are read from the status of
// objects, which anybody with rights in their namespace may write.
func Known(reason string) bool { _, known := rows[reason]; return known }

// All returns all rows, ordered by reason.
func All() []Row {
	all := make([]Row, 0, len(rows))
	for _, row := range rows {
		all = append(all, row)
	}
	slices.SortFunc(all, func(a, b Row) int { return cmp.Compare(a.Reason, b.Reason) })
	return all
}

// Next returns the text to add to that of an error with this reason: "; " and the advice, nothing if the error has its
// own.
func (r Row) Next() string {
	if !r.Unsaid {
		return ""
	}
	return "; " + r.Advice
}

// NeedsHand reports whether the cause ends only after somebody has done something.
func (r Row) NeedsHand() bool { return r.Actor != Nobody && !r.Passes }

// InFewWords returns the meaning of the reason for a column.
func (r Row) InFewWords() string {
	if r.Few != "" {
		return r.Few
	}
	var words strings.Builder
	letters := []rune(r.Reason)
	for i, letter := range letters {
		if i > 0 && unicode.IsUpper(letter) && unicode.IsLower(letters[i-1]) {
			words.WriteByte(' ')
		}
		words.WriteRune(letter)
	}
	return cmp.Or(strings.ToLower(words.String()), "-")
}

// ToAuthor explains to the author of a job why it waits.
func (r Row) ToAuthor() string { return cmp.Or(r.Author, "its runners don't start") }

var rows = indexed(ofGitHub, ofSets, ofRunners, ofKubernetes, ofDoctor, ofKubelets(), ordinary())

func indexed(tables ...[]Row) map[string]Row {
	index := map[string]Row{}
	for _, table := range tables {
		for _, row := range table {
			if _, twice := index[row.Reason]; twice {
				panic("two rows for the reason " + row.Reason)
			}
			index[row.Reason] = row
		}
	}
	return index
}
