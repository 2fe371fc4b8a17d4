// Package words turns the ledger's figures, times and words into text for people.
package words

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/meaning"
	"github.com/harrier-ci/harrier/operations/history/ledger"
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

// Percent returns a share in whole percents: neither nothing for a little, nor all for most.
func Percent(share float64) string {
	switch whole := math.Round(100 * math.Min(share, 1e7)); {
	case share > 0 && whole < 1:
		return "< 1 %"
	case share < 1 && whole >= 100:
		return "> 99 %"
	default:
		return Grouped(int64(whole)) + " %"
	}
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

// Slowest returns the phase that jobs waited for longest on average, and the time; empty if they didn't wait, or if it
// is not known.
func Slowest(waits map[string]float64) string {
	most, name := 0.5, "" // less is shown as 0 s
	for _, phase := range meaning.Phases() {
		if waits[phase.Name] >= most {
			most, name = waits[phase.Name], phase.Few
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
	for _, phase := range meaning.Phases() {
		whole += waits[phase.Name]
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

// Limit returns what a scale set's limit is in few words, with its number if it has one.
func Limit(reason string, number *int64) string {
	few := Foreign(meaning.For(reason).InFewWords())
	if number == nil {
		return few
	}
	return few + " (" + Grouped(*number) + ")"
}

// Outcome is the end of a job, in one word for people and one for the style.
type Outcome struct{ Word, Class string }

func OutcomeOf(job *ledger.Job) Outcome {
	switch {
	case job.LostCause != "":
		return Outcome{"lost: " + Foreign(job.LostCause), "lost"}
	case job.Finished.IsZero():
		return Outcome{"running", "running"}
	case job.Ending == ledger.EndingGaveUp:
		return Outcome{"gave up", "canceled"}
	case job.Result == "succeeded", job.Result == "failed", job.Result == "canceled":
		return Outcome{job.Result, job.Result}
	}
	return Outcome{"unknown", "unknown"}
}

// Ended says what was at the time of a job's end.
func Ended(job ledger.Job) string {
	switch job.Ending {
	case "":
		return "the job had ended"
	case ledger.EndingUnseen:
		return "it still ran, as far as the ledger saw; nobody saw its end"
	}
	return "its runner was gone, before GitHub had told the end"
}

// Elsewhere says what did a part of a job's work where nothing measures.
func Elsewhere(word string) string {
	what := map[string]string{
		ledger.ElsewherePods:       "Pods of container hooks did the job's steps",
		ledger.ElsewhereDocker:     "Docker ran what the job started in containers",
		ledger.ElsewhereContainers: "Other containers of the pod have requests, too",
	}[word]
	return cmp.Or(what, Foreign(word)) + ": what is used is that of the runner's container only, and not to be compared with the requests."
}

// gapMeanings explain the reasons why nobody looked.
var gapMeanings = map[string]string{
	ledger.GapStopped:      "no ledger ran",
	ledger.GapClockSetBack: "the clock was set back: how long no ledger ran is not known",
	ledger.GapOverflow:     "the database was away, or its disk full, for too long",
}

// GapMeaning explains the reason why nobody looked.
func GapMeaning(reason string) string { return cmp.Or(gapMeanings[reason], Foreign(reason)) }
