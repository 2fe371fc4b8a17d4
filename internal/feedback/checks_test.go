package feedback_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/feedback"
	"github.com/harrier-ci/harrier/internal/meaning"
)

func waitingJob(run int64, name string) v1alpha1.WaitingJob {
	return v1alpha1.WaitingJob{Repository: "acme/app", RunID: run, JobID: name, Name: name,
		AssignedAt: metav1.NewTime(epoch)}
}

func lostIn(run int64, job string, cause v1alpha1.LostCause, rerun v1alpha1.RerunState) *feedback.Lost {
	return &feedback.Lost{Runner: "r-" + job, Job: job, Cause: cause, At: epoch,
		Run:   feedback.Run{Repository: "acme/app", ID: run},
		Rerun: v1alpha1.RerunStatus{State: rerun, Attempt: 2, Message: "because"}}
}

// told lists checks as ABOUT CAUSE RUN, with a star for the last word.
func told(checks []feedback.Check) string {
	var all []string
	for _, c := range checks {
		one := fmt.Sprint(c.About, " ", c.Cause, " ", c.RunID)
		if c.Over {
			one += "*"
		}
		all = append(all, one)
	}
	return strings.Join(all, ", ")
}

func TestOneCheckForEachRunAndCause(t *testing.T) {
	evicted, oom := v1alpha1.LostCauseEvicted, v1alpha1.LostCauseOOMKilled
	record := func(about, cause string, over bool) v1alpha1.CheckRecord {
		return v1alpha1.CheckRecord{Repository: "acme/app", RunID: 7, About: about, Cause: cause, Over: over}
	}
	for name, test := range map[string]struct {
		story feedback.Story
		want  string
	}{
		"nothing":           {feedback.Story{}, ""},
		"waiting":           {feedback.Story{Why: "Unschedulable", Waiting: []v1alpha1.WaitingJob{waitingJob(7, "a"), waitingJob(8, "b"), waitingJob(7, "c")}}, "Waiting Unschedulable 7, Waiting Unschedulable 8"},
		"for what":          {feedback.Story{Waiting: []v1alpha1.WaitingJob{waitingJob(7, "a")}}, "Waiting Unknown 7"},
		"waits no more":     {feedback.Story{Told: []v1alpha1.CheckRecord{record("Waiting", "Unschedulable", false)}}, "Waiting Unschedulable 7*"},
		"for another cause": {feedback.Story{Why: "QuotaExceeded", Waiting: []v1alpha1.WaitingJob{waitingJob(7, "a")}, Told: []v1alpha1.CheckRecord{record("Waiting", "Unschedulable", false)}}, "Waiting Unschedulable 7*, Waiting QuotaExceeded 7"},
		"lost":              {feedback.Story{Lost: []*feedback.Lost{lostIn(7, "a", evicted, ""), lostIn(7, "b", oom, ""), lostIn(7, "c", evicted, "")}}, "Lost Evicted 7*, Lost OOMKilled 7*"},
		"to be run again":   {feedback.Story{Reruns: true, Lost: []*feedback.Lost{lostIn(7, "a", evicted, v1alpha1.RerunDone), lostIn(7, "b", evicted, v1alpha1.RerunWanted)}}, "Lost Evicted 7"},
		"runs again":        {feedback.Story{Reruns: true, Lost: []*feedback.Lost{lostIn(7, "a", evicted, v1alpha1.RerunDone)}, Told: []v1alpha1.CheckRecord{record("Lost", "Evicted", false)}}, "Lost Evicted 7*"},
		"told, and gone":    {feedback.Story{Told: []v1alpha1.CheckRecord{record("Lost", "Evicted", true)}}, ""},
		"of no run":         {feedback.Story{Waiting: []v1alpha1.WaitingJob{{Repository: "acme/app"}, {RunID: 5}}, Lost: []*feedback.Lost{{Cause: evicted}}}, ""},
	} {
		if got := told(test.story.Checks()); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestASetKeepsAHundredChecks(t *testing.T) {
	story := feedback.Story{}
	for i := range int64(300) {
		story.Lost = append(story.Lost, lostIn(i+1, "a", v1alpha1.LostCauseEvicted, ""))
	}
	story.Told = []v1alpha1.CheckRecord{{Repository: "acme/app", RunID: 250, About: feedback.AboutLost, Cause: "Evicted"}}
	if checks := story.Checks(); len(checks) != 100 || checks[0].RunID != 250 {
		t.Errorf("%d checks, want 100 with those that are recorded", len(checks))
	}
}

// Somebody who opens a pull request names its jobs as they like, and causes of waiting may name the insides of a
// cluster.
func TestChecksHaveOnlyTextThatIsHarmless(t *testing.T) {
	evil := waitingJob(7, "`x` <img src=y> [a](http://b) @everyone #1\n\n| c |\x1b[31m\u202e"+strings.Repeat("z", 5000))
	story := feedback.Story{ScaleSet: "linux", Why: "ImagePullBackOff", Waiting: []v1alpha1.WaitingJob{evil}}
	for range 50 {
		story.Waiting = append(story.Waiting, evil)
	}
	check := story.Checks()[0]
	name := "- `'x' <img src=y> [a](http://b) @everyone #1  | c | [31m zz"
	if named := strings.Count(check.Summary, name); named != 20 ||
		strings.Count(check.Summary, "`") != 2*(20+1) {
		t.Errorf("%d names are code and nothing else: %s", named, check.Summary)
	}
	for _, part := range []string{"\n\n|", "\x1b", "\u202e"} {
		if strings.Contains(check.Summary, part) {
			t.Errorf("the summary has %q", part)
		}
	}
	if len(check.Summary) > 10_000 || !strings.Contains(check.Summary, "and 31 more") ||
		!strings.Contains(check.Title, "the runner's image can't be pulled") {
		t.Errorf("%d bytes: %s", len(check.Summary), check.Title)
	}
}

// A job that ran out of memory may well have done that because of its commit.
func TestNotEveryLossIsNoFaultOfTheCommit(t *testing.T) {
	for _, cause := range v1alpha1.LostCauses {
		story := feedback.Story{ScaleSet: "linux", Lost: []*feedback.Lost{lostIn(7, "a", cause, "")}}
		want := cause != v1alpha1.LostCauseOOMKilled && cause != v1alpha1.LostCauseContainerFailed &&
			cause != v1alpha1.LostCauseUnknown
		if got := strings.Contains(story.Checks()[0].Summary, "Nothing is wrong with the commit"); got != want {
			t.Errorf("%s: %s", cause, story.Checks()[0].Summary)
		}
	}
}

// Jobs may wait for a day.
func TestACheckSaysSinceWhichDay(t *testing.T) {
	story := feedback.Story{ScaleSet: "linux", Waiting: []v1alpha1.WaitingJob{waitingJob(7, "a")}}
	if title := story.Checks()[0].Title; !strings.Contains(title, "since 1 March, 12:00 UTC") {
		t.Error(title)
	}
}

// Authors are told what the row of the reason, or of the loss, has for them.
func TestAuthorsAreToldTheMeaning(t *testing.T) {
	says := func(story feedback.Story, parts ...string) {
		t.Helper()
		checks := story.Checks()
		for _, part := range parts {
			if len(checks) != 1 || !strings.Contains(checks[0].Title+"\n"+checks[0].Summary, part) {
				t.Errorf("%+v lacks %q", checks, part)
			}
		}
	}
	for _, row := range meaning.All() {
		says(feedback.Story{Why: row.Reason, Waiting: []v1alpha1.WaitingJob{waitingJob(7, "a")}},
			": "+row.ToAuthor(), "("+row.Reason+")")
	}
	for _, cause := range v1alpha1.LostCauses {
		loss := meaning.OfLoss(cause)
		says(feedback.Story{Lost: []*feedback.Lost{lostIn(7, "a", cause, "")}}, loss.Author, loss.Commit, string(cause))
	}
}
