package page

import (
	"context"
	"html/template"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/meaning"
	"github.com/harrier-ci/harrier/operations/history/ledger"
	"github.com/harrier-ci/harrier/operations/history/page/link"
	"github.com/harrier-ci/harrier/operations/history/page/picture"
	"github.com/harrier-ci/harrier/operations/history/page/words"
)

// answer has the content of a page: title and main part.
type answer struct {
	Title string
	// Above leads to the pages above this one.
	Above []link.Choice
	Main  any
}

// view has what the layout shows: an answer, and the form that asks for it.
type view struct {
	answer
	Page, Version string
	// Run is the number that somebody has asked about in the box.
	Run    string
	Query  url.Values
	Fields []field
	// Kept are the parts of the address that the form has no field for.
	Kept   []field
	Ranges []link.Choice
	// Live is set if the page changes while somebody looks at it.
	Live   bool
	Priced bool
	AsOf   string
}

// field is a filter of a form. One without choices is a text.
type field struct {
	Name, Label, Value, Hint string
	Choices                  []link.Choice
}

var labels = map[string]string{
	"text": "Name contains", "namespace": "Namespace", "set": "Scale set", "repository": "Repository",
	"workflow": "Workflow", "name": "Job", "branch": "Branch", "event": "Event", "result": "Result", "lostCause": "Lost to",
}

var hints = map[string]string{
	"repository": "OWNER/REPO", "workflow": "OWNER/REPO/PATH", "text": "job, workflow, repository or runner",
	"branch": "main, (pull requests)", "event": "push, schedule",
}

// A form repeats longestValue bytes of a filter: nothing in the ledger is longer.
const longestValue = 512

func repeated(value string) string {
	return strings.ToValidUTF8(actions.Printable(value[:min(len(value), longestValue)]), "")
}

func (p *pages) view(k *kind, r *request, a answer) view {
	v := view{
		answer: a, Page: k.template, Version: p.version, Query: r.query, AsOf: words.At(r.now) + " UTC",
		Run:  repeated(r.query.Get("run")),
		Live: r.query.Get("to") == "", Priced: len(p.Prices) > 0,
	}
	if k.from == "" {
		return v
	}
	shown := map[string]bool{"from": true, "to": true, "after": true}
	for _, name := range k.fields {
		shown[name] = true
		f := field{Name: name, Label: labels[name], Hint: hints[name], Value: repeated(r.query.Get(name))}
		switch name {
		case "result":
			f.Choices = choices(f.Value, "succeeded", "failed", "canceled", "Unknown")
		case "lostCause":
			causes := make([]string, len(v1alpha1.LostCauses))
			for i, cause := range v1alpha1.LostCauses {
				causes[i] = string(cause)
			}
			f.Choices = choices(f.Value, causes...)
		}
		v.Fields = append(v.Fields, f)
	}
	for name := range r.query {
		if !shown[name] {
			v.Kept = append(v.Kept, field{Name: name, Value: repeated(r.query.Get(name))})
		}
	}
	slices.SortFunc(v.Kept, func(a, b field) int { return strings.Compare(a.Name, b.Name) })
	for _, length := range []string{"1h", "24h", "7d", "30d", "90d"} {
		v.Ranges = append(v.Ranges, link.Choice{
			Text: length, Link: link.To(k.template, r.query, "from", length, "to", "", "after", ""),
			Chosen: r.query.Get("from") == length && v.Live,
		})
	}
	return v
}

func choices(chosen string, values ...string) []link.Choice {
	all := []link.Choice{{Text: "any", Chosen: chosen == ""}}
	known := chosen == ""
	for _, value := range values {
		all = append(all, link.Choice{Text: value, Value: value, Chosen: value == chosen})
		known = known || value == chosen
	}
	if !known {
		all = append(all, link.Choice{Text: words.Foreign(chosen), Value: chosen, Chosen: true})
	}
	return all
}

// waits returns the waits of the jobs that a filter chooses.
func (p *pages) waits(ctx context.Context, filter ledger.Filter) (picture.Waits, error) {
	found, err := p.Ledger.WaitsBy(ctx, "", filter)
	return picture.WaitsOf(found.Rows), err
}

// shownGaps is the number of gaps that a page lists.
const shownGaps = 10

// gapList are the times in which nobody looked, as far as they are listed.
type gapList struct {
	Gaps     []ledger.Gap
	NotShown int
}

func listGaps(gaps []ledger.Gap) gapList {
	shown := min(len(gaps), shownGaps)
	return gapList{gaps[:shown], len(gaps) - shown}
}

var functions = template.FuncMap{
	"foreign": words.Foreign, "message": words.Message, "at": words.At, "date": func(day time.Time) string { return day.UTC().Format(time.DateOnly) },
	"machine": words.Machine, "took": words.Took,
	"amount": func(number any) string {
		if maybe, is := number.(*float64); is {
			return words.Amount(*maybe)
		}
		return words.Amount(number.(float64))
	}, "cores": words.Cores, "memory": words.Memory, "address": link.To, "within": link.Within,
	"slowest": words.Slowest, "whole": words.Whole, "money": words.Money, "percent": words.Percent, "gapMeaning": words.GapMeaning,
	"grouped": func(number any) string {
		switch whole := number.(type) {
		case int:
			return words.Grouped(int64(whole))
		case *int64:
			return words.Grouped(*whole)
		}
		return words.Grouped(number.(int64))
	},
	"outcome": func(job ledger.Job) words.Outcome { return words.OutcomeOf(&job) },
	"waited":  func(job ledger.Job) string { return words.Waited(&job) },
	"ran": func(job ledger.Job) string {
		if job.Started.IsZero() || job.Finished.IsZero() || job.Ending == ledger.EndingUnseen {
			return ""
		}
		return words.Took(job.RunTime())
	},
	"few":      func(reason string) string { return meaning.For(reason).InFewWords() },
	"severity": words.Severity, "rerun": words.Rerun,
	"seconds": func(number *int64) string {
		if number == nil {
			return "–"
		}
		return words.Took(time.Duration(*number) * time.Second)
	},
	"secondsOf": func(number float64) time.Duration { return time.Duration(number) * time.Second }, "fields": strings.Fields,
	"ended": words.Ended, "elsewhere": words.Elsewhere,
	"longest": picture.Longest, "dict": func(pairs ...any) map[string]any {
		dict := map[string]any{}
		for i := 0; i+1 < len(pairs); i += 2 {
			dict[pairs[i].(string)] = pairs[i+1]
		}
		return dict
	},
}
