package server_test

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/harrier-ci/harrier/operations/history/databasetest"
	"github.com/harrier-ci/harrier/operations/history/ledger"
	"github.com/harrier-ci/harrier/operations/history/prices"
	"github.com/harrier-ci/harrier/operations/history/server"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// hostile is a name that a workflow may give a job.
const hostile = "=cmd|' /C calc'!A0, \"quoted\"\n<script>"

// serve returns a server with a ledger of two jobs and a gap, at half past noon.
func serve(t *testing.T) (*httptest.Server, *ledger.Ledger) {
	t.Helper()
	l, err := ledger.Open(t.Context(), databasetest.SQLite(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	jobs := []ledger.Job{
		{RunnerUID: "first", Cluster: "c", Namespace: "n", Set: "s", Runner: "r-1", At: noon, Started: noon,
			Queued: noon.Add(-time.Minute), Created: noon.Add(-time.Second), Finished: noon.Add(6 * time.Minute),
			Result: "succeeded", Repository: "acme/app", Name: hostile, CPURequestMillis: new(int64(1000)),
			RunID: new(int64(7)), JobID: "job"},
		{RunnerUID: "second", Cluster: "c", Namespace: "n", Set: "s", Runner: "r-2", At: noon.Add(time.Minute),
			LostCause: "Evicted"},
	}
	if err := l.Put(t.Context(), jobs); err != nil {
		t.Fatal(err)
	}
	if err := l.AddUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.PutGap(t.Context(), ledger.Gap{Cluster: "c", From: noon, To: noon.Add(time.Minute),
		Reason: ledger.GapStopped}); err != nil {
		t.Fatal(err)
	}
	sample := ledger.Sample{Cluster: "c", Namespace: "n", Set: "s", At: noon, Running: 1}
	if err := l.PutSamples(t.Context(), []ledger.Sample{sample}); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(server.Handler(server.Options{
		Ledger: l, Prices: ledger.Prices{{CPUHour: 10}}, Budgets: []prices.Budget{{Repository: "acme/app", PerMonth: 7}},
		Clock: clocktesting.NewFakePassiveClock(noon.Add(30 * time.Minute)),
		Log:   logr.Discard(), Registry: prometheus.NewRegistry(), Hosts: []string{"history.example.com"},
		Sets: func() []ledger.Sample {
			return []ledger.Sample{{Cluster: "c", Namespace: "n", Set: "s", At: noon.Add(30 * time.Minute), Running: 7},
				{Cluster: "c", Namespace: "n", Set: "new", At: noon.Add(30 * time.Minute), Running: 1}}
		},
	}))
	t.Cleanup(s.Close)
	return s, l
}

func get(t *testing.T, s *httptest.Server, path string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := s.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

func TestFiltersAreInTheAddress(t *testing.T) {
	s, _ := serve(t)
	for path, want := range map[string][]string{
		"/api/v1/jobs": {"second", "first"}, "/api/v1/jobs?runID=7": {"first"}, "/api/v1/jobs?jobID=job": {"first"},
		"/api/v1/jobs?lost=true": {"second"}, "/api/v1/jobs?from=29m30s": {"second"},
		"/api/v1/jobs?to=2026-03-04T12:00:30Z":                        {"first"},
		"/api/v1/jobs?from=90d&set=s&namespace=n&repository=acme/app": {"first"},
		"/api/v1/jobs?set=other":                                      nil, "/api/v1/jobs?limit=1": {"second"},
	} {
		status, body := get(t, s, path)
		var page ledger.Page
		if err := json.Unmarshal([]byte(body), &page); err != nil || status != http.StatusOK {
			t.Fatalf("%s: %d, %v: %s", path, status, err, body)
		}
		var got []string
		for _, job := range page.Jobs {
			got = append(got, job.RunnerUID)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

func TestEveryTableIsJSONAndCSV(t *testing.T) {
	s, _ := serve(t)
	for path, want := range map[string]string{
		"/api/v1/jobs": "name", "/api/v1/jobs/first": "name", "/api/v1/sets": "running", "/api/v1/samples": "running",
		"/api/v1/gaps":         "reason",
		"/api/v1/usage?by=job": "cost", "/api/v1/sizes": "saving", "/api/v1/waits?by=day": "secondsP95",
		"/api/v1/budgets":          "unpricedHours",
		"/api/v1/trends?by=branch": "runSecondsP95", "/api/v1/trends?every=week": "failed",
		"/api/v1/machines": "priced",
	} {
		status, body := get(t, s, path)
		if !json.Valid([]byte(body)) || status != http.StatusOK || !strings.Contains(body, `"`+want+`"`) {
			t.Errorf("%s: %d: %s", path, status, body)
		}
		mark := "?"
		if strings.Contains(path, "?") {
			mark = "&"
		}
		status, body = get(t, s, path+mark+"format=csv")
		lines, err := csv.NewReader(strings.NewReader(body)).ReadAll()
		if err != nil || status != http.StatusOK || len(lines) < 2 || !strings.Contains(strings.Join(lines[0], ","), want) {
			t.Errorf("%s as CSV: %d, %v: %s", path, status, err, body)
		}
	}
}

func TestNamesComeThroughAsTheyAre(t *testing.T) {
	s, _ := serve(t)
	_, body := get(t, s, "/api/v1/jobs/first")
	var job ledger.Job
	if err := json.Unmarshal([]byte(body), &job); err != nil || job.Name != hostile {
		t.Errorf("the name is %q, %v", job.Name, err)
	}
	if strings.Contains(body, "<script>") {
		t.Error("a browser that takes the answer for a page would run a script of it")
	}
	_, body = get(t, s, "/api/v1/jobs/first?format=csv")
	lines, err := csv.NewReader(strings.NewReader(body)).ReadAll()
	if err != nil || len(lines) != 2 || !strings.Contains(strings.Join(lines[1], "|"), "|'"+hostile+"|") {
		t.Errorf("lines are %q, %v", lines, err)
	}
}

func TestCostsAreToldByPrices(t *testing.T) {
	s, _ := serve(t)
	_, body := get(t, s, "/api/v1/usage?by=repository&from=1d")
	var usage []ledger.Usage
	if err := json.Unmarshal([]byte(body), &usage); err != nil || len(usage) != 1 || usage[0].Cost < 0.999 ||
		usage[0].Cost > 1.001 {
		t.Errorf("six minutes of a CPU at 10 an hour: %s, %v", body, err)
	}
}

// TestEveryFilterChoosesOrIsRefused: each table with each part of an address, with a value that no row has.
func TestEveryFilterChoosesOrIsRefused(t *testing.T) {
	s, _ := serve(t)
	for _, table := range []string{"jobs", "jobs/first", "usage", "waits", "sizes", "samples", "sets", "gaps", "trends",
		"changes"} {
		for _, part := range []string{"cluster=nope", "namespace=nope", "set=nope", "repository=nope", "workflow=nope", "name=nope",
			"runnerUID=nope", "runner=nope", "jobID=nope", "runID=4711", "event=nope", "branch=nope", "result=nope", "lostCause=nope", "node=nope",
			"text=nope", "lost=true&set=nope", "running=true&set=nope", "from=2030-01-01T00:00:00Z", "to=2000-01-01T00:00:00Z"} {
			name, _, _ := strings.Cut(part, "=")
			status, body := get(t, s, "/api/v1/"+table+"?"+part)
			switch {
			case status == http.StatusBadRequest && strings.Contains(body, name):
			case status == http.StatusNotFound && table == "jobs/first":
			case status != http.StatusOK, strings.Contains(body, `"c"`), strings.Contains(body, "acme"):
				t.Errorf("%s?%s: %d %s", table, part, status, body)
			}
		}
	}
	for path, want := range map[string]int{"/api/v1/sets?set=s&namespace=n&cluster=c": http.StatusOK,
		"/api/v1/sets?by=set": http.StatusBadRequest, "/api/v1/sizes?by=set": http.StatusBadRequest,
		"/api/v1/trends?branch=main&event=push": http.StatusBadRequest, "/api/v1/trends?every=hour": http.StatusBadRequest,
		"/api/v1/trends?by=day": http.StatusBadRequest, "/api/v1/changes?from=7d": http.StatusBadRequest,
		"/api/v1/usage?branch=main": http.StatusBadRequest,
		"/api/v1/gaps?namespace=n":  http.StatusBadRequest, "/api/v1/jobs/first?limit=1": http.StatusBadRequest} {
		if status, body := get(t, s, path); status != want || want == http.StatusOK && !strings.Contains(body, `"running":7`) {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}

// TestSetsLookAsTheyDoNow: those of the ledger's own cluster, and of a time that is over as they looked then.
func TestSetsLookAsTheyDoNow(t *testing.T) {
	s, l := serve(t)
	other := ledger.Sample{Cluster: "other", Namespace: "n", Set: "s", At: noon, Running: 2}
	if err := l.PutSamples(t.Context(), []ledger.Sample{other}); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]map[string]int64{
		"": {"c/s": 7, "c/new": 1, "other/s": 2}, "?set=s&cluster=c": {"c/s": 7}, "?set=new": {"c/new": 1},
		"?to=2026-03-04T12:10:00Z": {"c/s": 1, "other/s": 2},
	} {
		var sets []ledger.Sample
		_, body := get(t, s, "/api/v1/sets"+query)
		err := json.Unmarshal([]byte(body), &sets)
		got := map[string]int64{}
		for i := range sets {
			got[sets[i].Cluster+"/"+sets[i].Set] = sets[i].Running
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", query, err, diff)
		}
	}
}

// Every table that can be long has pages: headers say where the next one begins, and how much there is in all.
func TestEveryTableHasPages(t *testing.T) {
	s, l := serve(t)
	var jobs []ledger.Job
	for _, name := range []string{"acme/lib", "acme/web"} {
		jobs = append(jobs, ledger.Job{RunnerUID: name, Cluster: "c", Namespace: "n", Set: "s", Runner: "r", At: noon, Queued: noon.
			Add(-time.Minute), Created: noon, Started: noon, Finished: noon.Add(time.Minute), Repository: name, Name: "build"})
	}
	gap := ledger.Gap{Cluster: "c", From: noon.Add(time.Hour), To: noon.Add(2 * time.Hour), Reason: ledger.GapStopped}
	sample := ledger.Sample{Cluster: "c", Namespace: "n", Set: "s", At: noon.Add(time.Minute), Running: 2}
	if err := errors.Join(l.Put(t.Context(), jobs), l.AddUp(t.Context()), l.PutGap(t.Context(), gap),
		l.PutSamples(t.Context(), []ledger.Sample{sample})); err != nil {
		t.Fatal(err)
	}
	for table, want := range map[string]int{"usage?by=repository": 3, "waits?by=repository": 3, "sizes?set=s": 3, "gaps?cluster=c": 2,
		"samples?set=s": 2, "sets?cluster=c": 2} {
		for _, format := range []string{"json", "csv"} {
			pages, seen, next := 0, map[string]bool{}, ""
			for pages == 0 || next != "" && pages <= want {
				answer, err := s.Client().Get(s.URL + "/api/v1/" + table + "&limit=1&format=" + format + next)
				if err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(answer.Body)
				answer.Body.Close()
				if err != nil || answer.StatusCode != http.StatusOK || answer.Header.Get("X-Total") != strconv.Itoa(want) {
					t.Errorf("%s: %v, %s of %q: %s", table, err, answer.Status, answer.Header.Get("X-Total"), text)
				}
				seen[string(text)] = true
				pages++
				if next = answer.Header.Get("X-Next"); next != "" {
					next = "&after=" + next
				}
			}
			if pages != want || len(seen) != want {
				t.Errorf("%s as %s has %d pages, %d of them different, want %d", table, format, pages, len(seen), want)
			}
		}
	}
}

func TestWrongQuestionsSayWhatIsWrong(t *testing.T) {
	s, _ := serve(t)
	for path, want := range map[string]string{
		"/api/v1/jobs?color=red": "color", "/api/v1/jobs?from=yesterday": "30d", "/api/v1/jobs?limit=0": "from 1 to 1000",
		"/api/v1/jobs?limit=1001": "1000", "/api/v1/jobs?runID=x": "number", "/api/v1/jobs?lost=maybe": "true or false",
		"/api/v1/jobs?set=a&set=b": "single time", "/api/v1/jobs?format=xml": "json or csv",
		"/api/v1/usage?by=color": "repository",
		"/api/v1/jobs?after=x":   "next", "/api/v1/jobs?from=99999999999d": "30d",
	} {
		if status, body := get(t, s, path); status != http.StatusBadRequest || !strings.Contains(body, want) ||
			!json.Valid([]byte(body)) {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if status, body := get(t, s, "/api/v1/jobs/nobody"); status != http.StatusNotFound ||
		!strings.Contains(body, "retention") {
		t.Errorf("a job that is not there: %d %s", status, body)
	}
	request, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/api/v1/jobs", nil)
	answer, err := s.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("writing gives %d", answer.StatusCode)
	}
}

func TestProbesFollowTheDatabase(t *testing.T) {
	questions, l := serve(t)
	var stuck error
	s := httptest.NewServer(server.Probes(server.ProbeOptions{
		Ledger: l, Log: logr.Discard(), Registry: prometheus.NewRegistry(), Started: func() bool { return true },
		Health: func() error { return stuck },
	}))
	defer s.Close()
	for _, path := range []string{"/", "/jobs", "/api/v1/jobs", "/api/v1/jobs/first"} {
		if status, body := get(t, s, path); status != http.StatusNotFound {
			t.Errorf("where everybody may ask, %s is %d %s", path, status, body)
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		if status, body := get(t, s, path); status != http.StatusOK {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	l.Close()
	if status, _ := get(t, s, "/readyz"); status != http.StatusServiceUnavailable {
		t.Errorf("without a database /readyz gives %d", status)
	}
	if status, _ := get(t, s, "/healthz"); status != http.StatusOK {
		t.Errorf("without a database /healthz gives %d: a restart would not bring it back", status)
	}
	stuck = errors.New("writing hangs")
	if status, body := get(t, s, "/healthz"); status != http.StatusServiceUnavailable || strings.Contains(body, "writing") {
		t.Errorf("where only a restart helps /healthz gives %d %s", status, body)
	}
	if status, body := get(t, questions, "/api/v1/jobs"); status != http.StatusServiceUnavailable ||
		strings.Contains(body, "sql") {
		t.Errorf("without a database jobs are %d %s", status, body)
	}
}

// TestNoCellIsAFormula: spreadsheets run what begins like one, in whichever column.
func TestNoCellIsAFormula(t *testing.T) {
	s, l := serve(t)
	for i, begin := range []string{"=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"} {
		text := begin + "SUM(1)"
		job := ledger.Job{RunnerUID: fmt.Sprintf("cell-%d", i), Cluster: "c", Namespace: "n", Set: "s", Runner: "r", At: noon,
			Repository: text, Workflow: text, Ref: text, Name: text, Event: text, Node: text}
		if err := l.Put(t.Context(), []ledger.Job{job}); err != nil {
			t.Fatal(err)
		}
		_, body := get(t, s, "/api/v1/jobs/"+job.RunnerUID+"?format=csv")
		lines, err := csv.NewReader(strings.NewReader(body)).ReadAll()
		if err != nil || len(lines) != 2 {
			t.Fatalf("%v: %q", err, body)
		}
		quoted := 0
		for _, cell := range lines[1] {
			if quoted += strings.Count(cell, "'"); strings.HasPrefix(cell, begin) {
				t.Errorf("a cell is %q", cell)
			}
		}
		if quoted != 6 {
			t.Errorf("%d cells have an apostrophe: %q", quoted, lines[1])
		}
	}
}

// TestNegativeNumbersStayNumbers: a job that uses more than it requests saves less than nothing, and a spreadsheet must
// be able to add that up; its name is a formula all the same.
func TestNegativeNumbersStayNumbers(t *testing.T) {
	s, l := serve(t)
	job := ledger.Job{RunnerUID: "greedy", Cluster: "c", Namespace: "n", Set: "greedy", Runner: "r", At: noon,
		Started: noon, Finished: noon.Add(6 * time.Minute), Name: "-1", CPURequestMillis: new(int64(100)),
		CPUMicroseconds: new(int64(2 * 360 * 1_000_000))}
	if err := l.Put(t.Context(), []ledger.Job{job}); err != nil {
		t.Fatal(err)
	}
	if err := l.AddUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, body := get(t, s, "/api/v1/sizes?set=greedy&format=csv")
	lines, err := csv.NewReader(strings.NewReader(body)).ReadAll()
	if err != nil || len(lines) != 2 {
		t.Fatalf("%v: %q", err, body)
	}
	cells := map[string]string{}
	for i, name := range lines[0] {
		cells[name] = lines[1][i]
	}
	// 0.1 CPU was requested and 2 were used for a tenth of an hour, at 10 an hour; figures are at most 5 % too large.
	saving, err := strconv.ParseFloat(cells["saving"], 64)
	if err != nil || saving > -1.9 || saving < -2.05 || cells["name"] != "'-1" {
		t.Errorf("the saving is %q (%v) and the name %q", cells["saving"], err, cells["name"])
	}
}
