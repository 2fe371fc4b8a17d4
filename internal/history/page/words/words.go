// Package words turns the ledger's figures, times and words into text for people.
package words

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/history/ledger"
)

// Of a text of others longestText characters are shown: workflows give jobs names of any length.
const longestText = 100

// Of a message longestMessage characters are shown: the scheduler gives a reason for each kind of node.
const longestMessage = 600

// Foreign returns a text of others with spaces instead of what can't be printed, such as directions of writing, and
// cut. html/template escapes it.
func Foreign(text string) string { return cut(text, longestText) }

// Message returns a message that quotes others, as Foreign does.
func Message(text string) string { return cut(text, longestMessage) }

func cut(text string, most int) string {
	text = actions.Printable(strings.ToValidUTF8(text, "\uFFFD"))
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}

// Took returns a duration in its two largest units.
func Took(d time.Duration) string {
	seconds := int64(d.Round(time.Second) / time.Second)
	switch {
	case seconds < 60:
		return fmt.Sprintf("%d s", seconds)
	case seconds < 60*60:
		return strings.TrimSuffix(fmt.Sprintf("%d min %d s", seconds/60, seconds%60), " 0 s")
	case seconds < 24*60*60:
		return strings.TrimSuffix(fmt.Sprintf("%d h %d min", seconds/3600, seconds/60%60), " 0 min")
	}
	return strings.TrimSuffix(fmt.Sprintf("%d d %d h", seconds/86400, seconds/3600%24), " 0 h")
}

// Hours returns a duration of some days at most in hours or, if it is less than one, in minutes.
func Hours(d time.Duration) string {
	if d.Round(time.Minute) < time.Hour {
		return fmt.Sprintf("%d min", d.Round(time.Minute)/time.Minute)
	}
	return fmt.Sprintf("%d h", d.Round(time.Hour)/time.Hour)
}

func tookSeconds(seconds float64) string {
	return Took(time.Duration(math.Min(seconds, float64(math.MaxInt64/time.Second)) * float64(time.Second)))
}

// At returns a moment, in UTC as all of the page.
func At(moment time.Time) string {
	if moment.IsZero() {
		return ""
	}
	return moment.UTC().Format("2006-01-02 15:04:05")
}

// Machine is a moment for programs.
func Machine(moment time.Time) string { return moment.UTC().Format(time.RFC3339) }

// Amount returns a number with as many digits as help.
func Amount(number float64) string {
	switch size := math.Abs(number); {
	case size == 0:
		return "0"
	case size < 0.01:
		return "< 0.01"
	case size < 9.995:
		return strconv.FormatFloat(number, 'f', 2, 64)
	case size < 99.95:
		return strconv.FormatFloat(number, 'f', 1, 64)
	}
	return Grouped(int64(math.Round(math.Max(-1e15, math.Min(number, 1e15)))))
}

// Money returns an amount in whatever currency the prices are, with two digits behind the point.
func Money(amount float64) string {
	hundredths := int64(math.Round(100 * math.Max(-1e13, math.Min(amount, 1e13))))
	if hundredths == 0 && amount > 0 {
		return "< 0.01"
	}
	sign := ""
	if hundredths < 0 {
		sign, hundredths = "−", -hundredths
	}
	return fmt.Sprintf("%s%s.%02d", sign, Grouped(hundredths/100), hundredths%100)
}

// Grouped returns a number with commas between thousands.
func Grouped(number int64) string {
	digits := strconv.FormatInt(number, 10)
	sign := ""
	if number < 0 {
		sign, digits = "−", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// Cores returns thousandths of a CPU as CPUs, memory bytes in MiB or GiB. What is nil is not known.
func Cores(millis *int64) string {
	if millis == nil {
		return ""
	}
	return Amount(float64(*millis)/1000) + " CPU"
}

func Memory(bytes *int64) string {
	const mebi, gibi = 1 << 20, 1 << 30
	switch {
	case bytes == nil:
		return ""
	case *bytes < gibi:
		return Amount(float64(*bytes)/mebi) + " MiB"
	}
	return Amount(float64(*bytes)/gibi) + " GiB"
}

// Step is one of the phases that a job waits for.
type Step struct {
	// Phase is its name everywhere else, Short a name for people, and Whose names what the time until then depends on.
	Phase, Short, Whose string
}

// steps are in the order in which a job takes them.
var steps = []Step{
	{"assigned", "GitHub", "GitHub assigned the job to the scale set"},
	{"created", "queue", "its runner was created: the scale set had room for it"},
	{"registered", "registration", "GitHub registered the runner"},
	{"placed", "node", "the pod had a node: room, quota, requests"},
	{"imagePulled", "image", "image, volumes and network were there"},
	{"containerUp", "container", "the container ran: init containers come before it"},
	{"started", "start", "the runner had connected to GitHub and taken the job"},
}

func StepOf(phase string) (number int, s Step) {
	number = slices.IndexFunc(steps, func(s Step) bool { return s.Phase == phase })
	if number < 0 {
		return 0, Step{Phase: phase, Short: phase}
	}
	return number + 1, steps[number]
}

// Slowest returns the phase that jobs waited for longest on average, and the time; empty if they didn't wait, or if it
// is not known.
func Slowest(waits map[string]float64) string {
	most, name := 0.5, "" // less is shown as 0 s
	for _, step := range steps {
		if waits[step.Phase] >= most {
			most, name = waits[step.Phase], step.Short
		}
	}
	if name == "" {
		return ""
	}
	return name + ", " + tookSeconds(most)
}

// Whole returns the time that jobs waited on average in all, empty if it is not known.
func Whole(waits map[string]float64) string {
	if len(waits) == 0 {
		return ""
	}
	whole := 0.0
	for _, step := range steps {
		whole += waits[step.Phase]
	}
	return tookSeconds(whole)
}

// Waited returns the time that a job waited in all, empty if the beginning of its wait is not known.
func Waited(job *ledger.Job) string {
	waits := job.Waits()
	if len(waits) == 0 {
		return ""
	}
	var whole time.Duration
	for _, wait := range waits {
		whole += wait.Took
	}
	return Took(whole)
}

// Outcome is the end of a job, in one word for people and one for the style.
type Outcome struct{ Word, Class string }

func OutcomeOf(job *ledger.Job) Outcome {
	switch {
	case job.LostCause != "":
		return Outcome{"lost: " + Foreign(job.LostCause), "lost"}
	case job.Finished.IsZero():
		return Outcome{"running", "running"}
	case job.Result == "succeeded", job.Result == "failed", job.Result == "canceled":
		return Outcome{job.Result, job.Result}
	}
	return Outcome{"unknown", "unknown"}
}

// meanings explain the causes that jobs were lost to.
var meanings = map[string]string{
	string(v1alpha1.LostCauseEvicted): "The pod was evicted: by a node drain or an autoscaler, by a taint, or by its " +
		"node because that ran short of memory or disk.",
	string(v1alpha1.LostCauseNodeLost):        "The node was shut down, no longer answered, or was gone.",
	string(v1alpha1.LostCausePreempted):       "The pod had to make room for one of higher priority.",
	string(v1alpha1.LostCauseOOMKilled):       "A container of the pod ran out of memory.",
	string(v1alpha1.LostCausePodDeleted):      "Somebody deleted the pod, by hand or with its namespace or owner.",
	string(v1alpha1.LostCauseContainerFailed): "The runner's container failed, or reached the pod's deadline.",
	string(v1alpha1.LostCauseUnknown):         "The pod was gone before anybody saw why.",
}

// LostMeaning explains the cause that a job was lost to, empty if there is no explanation.
func LostMeaning(cause string) string { return meanings[cause] }

// gapMeanings explain the reasons why nobody looked.
var gapMeanings = map[string]string{
	ledger.GapStopped:      "no ledger ran",
	ledger.GapClockSetBack: "the clock was set back: how long no ledger ran is not known",
	ledger.GapOverflow:     "the database was away, or its disk full, for too long",
}

// GapMeaning explains the reason why nobody looked.
func GapMeaning(reason string) string { return cmp.Or(gapMeanings[reason], Foreign(reason)) }
