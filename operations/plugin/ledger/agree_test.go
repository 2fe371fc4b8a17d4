package ledger_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube/kinds"
	"github.com/harrier-ci/harrier/internal/output"
	"github.com/harrier-ci/harrier/operations/doctor/snapshot"
	"github.com/harrier-ci/harrier/operations/history/databasetest"
	history "github.com/harrier-ci/harrier/operations/history/ledger"
	"github.com/harrier-ci/harrier/operations/history/page"
	"github.com/harrier-ci/harrier/operations/history/rows"
	"github.com/harrier-ci/harrier/operations/history/server"
	"github.com/harrier-ci/harrier/operations/history/watch"
	"github.com/harrier-ci/harrier/operations/plugin/ledger"
	"github.com/harrier-ci/harrier/operations/plugin/report"
	"github.com/harrier-ci/harrier/operations/plugin/top"
	"github.com/harrier-ci/harrier/operations/plugin/why"
)

// told is what a surface says of a history: jobs whose wait is known, and the means of their wait, and of the part of it
// at the limit, in seconds.
type told struct {
	jobs           int64
	whole, limited float64
}

// now is how the only set looks at the end of the history: three jobs run, and GitHub keeps six.
type now struct{ sample history.Sample }

func (now) Waiting() map[types.NamespacedName][]v1alpha1.WaitingJob { return nil }
func (n now) Sets() []history.Sample                                { return []history.Sample{n.sample} }

func (n now) Now(string, string) watch.Now { return watch.Now{Kept: 6} }

func (n now) GitHub(string, string) string { return "" }

// aHistory is a set at its maximum of 3 for a part of the waits of 60 jobs, of which some gave up; the sums are made
// here, of the numbers that it is made of.
func aHistory() (jobs []history.Job, want told) {
	for i := range 60 {
		queued := noon.Add(-time.Duration(60+i) * time.Minute)
		atGitHub, atLimit, rest := time.Duration(2+i%5)*time.Second, time.Duration(i%7*10)*time.Second, time.Duration(30+i%11)*time.Second
		job := history.Job{RunnerUID: fmt.Sprint("uid-", i), Cluster: "c", Namespace: "n", Set: "s", Runner: fmt.Sprint("s-", i),
			Repository: "acme/app", Workflow: "acme/app/ci.yml", Name: "build", RunID: new(int64(100 + i)), JobID: fmt.Sprint("job-", i),
			Event: "push", Queued: queued, Assigned: queued.Add(atGitHub + atLimit), Result: "succeeded"}
		if atLimit > 0 {
			job.LimitedReason, job.LimitNumber, job.LimitedAssigned = "MaxRunnersReached", new(int64(3)), new(int64(atLimit/time.Second))
		}
		if i%10 == 9 { // cancelled after the rest of the time
			job.Runner, job.At, job.Finished, job.Result, job.Ending = "", queued, job.Assigned.Add(rest), "canceled",
				history.EndingGaveUp
		} else {
			job.Created, job.Started = job.Assigned, job.Assigned.Add(rest)
			job.At, job.Finished = job.Started, job.Started.Add(5*time.Minute)
		}
		jobs = append(jobs, job)
		want.jobs++
		want.whole += (atGitHub + atLimit + rest).Seconds()
		want.limited += atLimit.Seconds()
	}
	want.whole, want.limited = want.whole/60, want.limited/60
	return jobs, want
}

// All surfaces say the same of one history, which is what it was made of.
func TestAllSurfacesAgree(t *testing.T) {
	l, err := history.Open(t.Context(), databasetest.SQLite(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	jobs, want := aHistory()
	if err := l.Put(t.Context(), jobs); err != nil {
		t.Fatal(err)
	}
	if err := l.AddUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	clock := clocktesting.NewFakePassiveClock(noon)
	api := httptest.NewServer(server.Handler(server.Options{Ledger: l, Clock: clock, Log: logr.Discard(),
		Registry: prometheus.NewRegistry()}))
	t.Cleanup(api.Close)
	present := now{history.Sample{Cluster: "c", Namespace: "n", Set: "s", At: noon, Running: 3, Waiting: 6,
		EffectiveMax: new(int64(3)), LimitedReason: "MaxRunnersReached"}}
	pages := httptest.NewServer(page.Handler(page.Options{Ledger: l, Cluster: present, Name: "c",
		Clock: clocktesting.NewFakeClock(noon), Log: logr.Discard()}))
	t.Cleanup(pages.Close)
	from, err := ledger.At(api.URL)
	if err != nil {
		t.Fatal(err)
	}
	for surface, says := range map[string]told{
		"API": ofWaits(t, from, url.Values{}), "API by set": ofWaits(t, from, url.Values{"by": {"set"}}),
		"usage": ofUsage(t, from), "CSV of the API": ofCSV(t, string(body(t, api.URL+"/api/v1/waits?format=csv"))),
		"CSV of report": ofCSV(t, reported(t, from)), "why": ofWhy(t, from, jobs),
	} {
		if says.jobs != want.jobs || math.Abs(says.whole-want.whole) > 1e-6 || math.Abs(says.limited-want.limited) > 1e-6 {
			t.Errorf("%s says %+v, the history is %+v", surface, says, want)
		}
	}
	shown := regexp.MustCompile(`<[^>]*>`).ReplaceAllString(string(body(t, pages.URL+"/set?cluster=c&namespace=n&set=s")), " ")
	for _, words := range []string{fmt.Sprintf("Half of the %d jobs", want.jobs), fmt.Sprintf("%.0f s", want.limited),
		"at maxRunners (3)", "GitHub keeps 6 jobs", "gave up"} {
		if !strings.Contains(strings.Join(strings.Fields(shown), " "), words) {
			t.Errorf("the page lacks %q", words)
		}
	}
	set := &v1alpha1.AutoscalingRunnerSet{}
	set.Namespace, set.Name = "n", "s"
	set.Status.AssignedJobs, set.Status.BusyRunners, set.Status.AvailableJobs = 3, 3, 6
	var screen bytes.Buffer
	if err := top.Run(t.Context(), objectsOf(set), top.Options{Once: true, Format: output.JSON}, &screen); err != nil ||
		!strings.Contains(screen.String(), `"waitingJobs": 6`) {
		t.Errorf("top: %v, %s", err, screen.String())
	}
}

// objectsOf is an API server with objects.
func objectsOf(objects ...client.Object) client.WithWatch {
	return fake.NewClientBuilder().WithScheme(kinds.Scheme()).WithObjects(objects...).Build()
}

func body(t *testing.T, address string) []byte {
	t.Helper()
	answer, err := http.Get(address) //nolint:noctx // of this test's own server
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v, %s: %s", address, err, answer.Status, text)
	}
	return text
}

func ofWaits(t *testing.T, from *ledger.Ledger, filter url.Values) (says told) {
	t.Helper()
	waits, err := from.Waits(t.Context(), filter)
	if err != nil {
		t.Fatal(err)
	}
	for i := range waits.Rows {
		switch wait := &waits.Rows[i]; wait.Phase {
		case rows.WholeWait:
			says.jobs, says.whole = wait.Jobs, wait.MeanSeconds
		case "limited":
			says.limited += wait.MeanSeconds
		}
	}
	return says
}

func ofUsage(t *testing.T, from *ledger.Ledger) (says told) {
	t.Helper()
	page, err := from.Usage(t.Context(), url.Values{"by": {"all"}})
	usage := page.Rows
	if err != nil || len(usage) != 1 {
		t.Fatalf("%v: %+v", err, usage)
	}
	for _, seconds := range usage[0].Waits {
		says.whole += seconds
	}
	says.jobs, says.limited = usage[0].JobsWithKnownWait, usage[0].Waits["limited"]
	return says
}

func reported(t *testing.T, from *ledger.Ledger) string {
	t.Helper()
	var text, notes bytes.Buffer
	if err := report.Run(t.Context(), from, report.Options{Waits: true, Format: output.CSV}, &text, &notes); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// ofCSV reads a table of waits by the names of its columns.
func ofCSV(t *testing.T, table string) (says told) {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(table)).ReadAll()
	if err != nil || len(rows) == 0 {
		t.Fatalf("%v: %s", err, table)
	}
	for _, row := range rows[1:] {
		cells := map[string]string{}
		for i, name := range rows[0] {
			cells[name] = row[i]
		}
		mean, _ := strconv.ParseFloat(cells["secondsMean"], 64)
		switch cells["phase"] {
		case "all":
			says.jobs, _ = strconv.ParseInt(cells["jobs"], 10, 64)
			says.whole = mean
		case "limited":
			says.limited += mean
		}
	}
	return says
}

// ofWhy asks about each run.
func ofWhy(t *testing.T, from *ledger.Ledger, jobs []history.Job) (says told) {
	t.Helper()
	open := func(context.Context) (*ledger.Ledger, error) { return from, nil }
	for i := range jobs {
		var text bytes.Buffer
		_ = why.Run(t.Context(), snapshot.Cluster{Host: "https://kubernetes", Reader: objectsOf()}, fmt.Sprint(*jobs[i].RunID), why.Options{Namespace: "n", Everywhere: true,
			Format: output.JSON, Ledger: open}, &text)
		var answer struct {
			Jobs []why.Story `json:"jobs"`
		}
		if err := json.Unmarshal(text.Bytes(), &answer); err != nil || len(answer.Jobs) != 1 {
			t.Fatalf("%v: %s", err, text.String())
		}
		says.jobs++
		says.whole += float64(answer.Jobs[0].WaitSeconds)
		if limit := answer.Jobs[0].Limit; limit != nil {
			says.limited += float64(limit.Seconds)
		}
	}
	says.whole, says.limited = says.whole/float64(len(jobs)), says.limited/float64(len(jobs))
	return says
}
