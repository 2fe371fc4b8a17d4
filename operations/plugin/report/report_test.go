package report_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/internal/output"
	"github.com/harrier-ci/harrier/operations/plugin/ledger"
	"github.com/harrier-ci/harrier/operations/plugin/report"
)

// asking runs the report on a ledger with these answers, one for each table. asked has the addresses that were asked
// for.
func asking(t *testing.T, answers map[string]string, options report.Options) (said, notes string, asked []string,
	err error) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.String())
		w.Header().Set("Content-Type", "application/json")
		answer, known := answers[strings.TrimPrefix(r.URL.Path, "/api/v1/")]
		if !known {
			answer = "[]"
		}
		if strings.HasPrefix(answer, `{"error"`) {
			w.WriteHeader(http.StatusBadRequest)
		}
		_, _ = w.Write([]byte(answer))
	}))
	defer s.Close()
	from, err := ledger.At(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	from.Where = "LEDGER"
	var out, errs bytes.Buffer
	err = report.Run(t.Context(), from, options, &out, &errs)
	return out.String(), errs.String(), asked, err
}

const usage = `[
{"repository":"acme/app","workflow":"acme/app/.github/workflows/ci.yml","jobs":120,"succeeded":100,"failed":12,"canceled":5,"lost":3,"runHours":60.25,"cpuHoursRequested":241,"gibHoursRequested":482,
 "cpuHoursUsed":70.5,"jobsWithKnownUsage":110,"waits":{"assigned":2,"created":1,"registered":1,"placed":60,"imagePulled":20,"containerUp":0,"started":6},"jobsWithKnownWait":100,"cost":9.4},
{"repository":"acme/lib","workflow":"acme/shared/.github/workflows/go.yml","jobs":30,"succeeded":30,"failed":0,"canceled":0,"lost":0,"runHours":1,"cpuHoursRequested":1,"gibHoursRequested":2,
 "cpuHoursUsed":0,"jobsWithKnownUsage":0,"jobsWithKnownWait":0,"cost":0.039}]`

func TestUsageForPeople(t *testing.T) {
	said, _, asked, err := asking(t, map[string]string{"usage": usage},
		report.Options{By: "workflow", Since: "30d", Format: output.Text})
	const want = `Jobs that have finished since 30d ago, from the ledger at LEDGER:

REPOSITORY  WORKFLOW                              JOBS  FAILED  LOST  HOURS  CPU HOURS  GIB HOURS     WAIT  LONGEST  COST
acme/app    ci.yml                                 120      12     3   60.2      241.0      482.0    1m30s   placed  9.40
acme/lib    acme/shared/.github/workflows/go.yml    30       0     0    1.0        1.0        2.0  unknown        -  0.04
Total                                              150      12     3   61.2      242.0      484.0    1m30s   placed  9.44

Of 50 of 150 jobs it is not known what they waited for.
`
	if diff := cmp.Diff(want, said); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff([]string{"/api/v1/usage?by=workflow&from=30d", "/api/v1/usage?by=all&from=30d",
		"/api/v1/gaps?from=30d"}, asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

// Each group has the columns of what it adds up by, and without prices there is no column of costs.
func TestGroups(t *testing.T) {
	rows := `[{"cluster":"c","namespace":"n","set":"linux","repository":"acme/app","workflow":"w","name":"build","day":"2026-03-04T00:00:00Z","jobs":1,"runHours":1,"cpuHoursRequested":2}]`
	for by, head := range map[string]string{"repository": "REPOSITORY  JOBS", "workflow": "REPOSITORY  WORKFLOW  JOBS",
		"job": "REPOSITORY  WORKFLOW  JOB    JOBS", "set": "NAMESPACE  SCALE SET  JOBS", "day": "DAY         JOBS"} {
		said, _, _, err := asking(t, map[string]string{"usage": rows}, report.Options{By: by, Format: output.Text})
		if err != nil || !strings.Contains(said, "\n"+head) || strings.Contains(said, "COST") ||
			!strings.Contains(said, "no prices are set for what jobs request: history.prices") {
			t.Errorf("by %s, %v:\n%s", by, err, said)
		}
		if table, _, _, _ := asking(t, map[string]string{"usage": rows},
			report.Options{By: by, Format: output.CSV}); !strings.Contains(table, ",cost,unpricedHours\n") {
			t.Errorf("by %s:\n%s", by, table)
		}
	}
	if len(report.Groups) != 5 {
		t.Errorf("groups are %v", report.Groups)
	}
}

// TestPagesHaveTheSumOfAllJobs: a page has some of the rows, and the total is that of a question of its own.
func TestPagesHaveTheSumOfAllJobs(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch asked := r.URL.Query(); {
		case strings.HasSuffix(r.URL.Path, "gaps"):
			_, _ = w.Write([]byte("[]"))
		case asked.Get("by") == "all" && asked.Get("limit") == "":
			_, _ = w.Write([]byte(`[{"jobs":1500,"runHours":99,"cpuHoursRequested":9,"cost":7}]`))
		case asked.Get("limit") == "1" && asked.Get("after") == "3":
			w.Header().Set("X-Next", "4")
			_, _ = w.Write([]byte(`[{"repository":"acme/app","jobs":2,"runHours":1,"cpuHoursRequested":9,"cost":1}]`))
		}
	}))
	defer s.Close()
	from, err := ledger.At(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	var out, notes bytes.Buffer
	err = report.Run(t.Context(), from, report.Options{By: "repository", Limit: 1, After: "3", Format: output.Text}, &out, &notes)
	for _, part := range []string{"acme/app       2", "Total       1500", "7.00", "--after 4"} {
		if err != nil || !strings.Contains(out.String(), part) {
			t.Errorf("lacks %q, %v:\n%s", part, err, out.String())
		}
	}
}

// Waits and sizes have pages, too, and say where the next one begins and how much there is in all.
func TestPagesOfWaitsAndSizes(t *testing.T) {
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "gaps") {
			_, _ = w.Write([]byte("[]"))
			return
		}
		asked = append(asked, r.URL.String())
		w.Header().Set("X-Next", "8")
		w.Header().Set("X-Total", "1500")
		_, _ = w.Write([]byte(`[{"repository":"acme/app","phase":"all","jobs":2}]`))
	}))
	defer s.Close()
	from, err := ledger.At(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	for want, options := range map[string]report.Options{
		"There are more groups, of 1500 in all: --after 8 shows": {Waits: true, By: "repository", Limit: 4, After: "4"},
		"There are more rows, of 1500 in all: --after 8 shows":   {RightSizing: true, Limit: 4, After: "4"},
	} {
		for _, options.Format = range []string{output.Text, output.JSON, output.CSV} {
			var out, notes bytes.Buffer
			if err := report.Run(t.Context(), from, options, &out, &notes); err != nil ||
				!strings.Contains(out.String()+notes.String(), want) {
				t.Errorf("%v:\n%s%s", err, out.String(), notes.String())
			}
			told := struct {
				Next  string
				Count int
			}{}
			if options.Format == output.JSON && (json.Unmarshal(out.Bytes(), &told) != nil || told.Next != "8" || told.Count != 1500) {
				t.Errorf("in JSON: %s", out.String())
			}
		}
	}
	for _, address := range asked {
		if !strings.Contains(address, "after=4") || !strings.Contains(address, "limit=4") {
			t.Errorf("asked for %s", address)
		}
	}
}

// TestWhatIsMissingForCostsIsNamed: prices alone make none if templates request nothing, which is the chart's default.
func TestWhatIsMissingForCostsIsNamed(t *testing.T) {
	for title, test := range map[string]struct{ rows, want, not string }{
		"nothing requested": {`[{"repository":"a","jobs":7,"runHours":3}]`,
			"7 of 7 jobs are in rows whose pods request neither CPU nor memory", "prices are set"},
		"some request nothing": {`[{"repository":"a","jobs":7,"runHours":3,"cpuHoursRequested":6,"cost":2},{"repository":"b","jobs":2,"runHours":1}]`,
			"2 of 9 jobs are in rows whose pods request neither", "prices are set"},
		"no price": {`[{"repository":"a","jobs":7,"runHours":3,"gibHoursRequested":6}]`, "no prices are set for what jobs request",
			"neither"},
		"a part without a price": {`[{"repository":"a","jobs":7,"runHours":8,"gibHoursRequested":6,"cost":1,"unpricedHours":2}]`,
			"Of 2.0 of 8.0 hours (25%) the cost is unknown", "no price is set"},
		"no run time":     {`[{"repository":"a","jobs":7}]`, "no run time of these jobs is known", "prices are set"},
		"as it should be": {`[{"repository":"a","jobs":7,"runHours":3,"gibHoursRequested":6,"cost":1}]`, "COST", "no cost"},
	} {
		said, _, _, err := asking(t, map[string]string{"usage": test.rows}, report.Options{By: "repository", Format: output.Text})
		if err != nil || !strings.Contains(said, test.want) || strings.Contains(said, test.not) {
			t.Errorf("%s, %v:\n%s", title, err, said)
		}
	}
}

const waits = `[
{"namespace":"n","set":"linux","phase":"limited","limitedReason":"MaxRunnersReached","limitNumber":3,"jobs":20,"secondsMean":10,"secondsP50":20,"secondsP95":25},
{"namespace":"n","set":"linux","phase":"limited","limitedReason":"QuotaExceeded","jobs":2,"secondsMean":2,"secondsP50":40,"secondsP95":40},
{"namespace":"n","set":"linux","phase":"assigned","jobs":40,"secondsMean":2.5,"secondsP50":2,"secondsP95":5},
{"namespace":"n","set":"linux","phase":"placed","jobs":38,"secondsMean":90,"secondsP50":60,"secondsP95":300},
{"namespace":"n","set":"linux","phase":"all","jobs":40,"secondsMean":104.5,"secondsP50":70,"secondsP95":310}]`

func TestWaitsForPeople(t *testing.T) {
	said, _, asked, err := asking(t, map[string]string{"waits": waits},
		report.Options{Waits: true, Since: "24h", Format: output.Text})
	const want = `How long jobs waited that have finished since 24h ago, from the ledger at LEDGER:

PHASE     JOBS   MEAN    P50    P95  WHOSE TIME IT IS
limited     20    10s    20s    25s  the scale set's own limit: at maxRunners (3)
limited      2     2s    40s    40s  the scale set's own limit: quota used up
assigned    40     3s     2s     5s  GitHub, until it gave the job to the scale set
placed      38  1m30s  1m00s  5m00s  the cluster, until a node had room
all         40  1m45s  1m10s  5m10s  in all
`
	if diff := cmp.Diff(want, said); diff != "" || err != nil || asked[0] != "/api/v1/waits?from=24h" {
		t.Errorf("%v, asked %q (-want +got):\n%s", err, asked, diff)
	}
	table, _, asked, err := asking(t, map[string]string{"waits": waits},
		report.Options{Waits: true, By: "set", Format: output.CSV})
	if err != nil || !strings.HasPrefix(table,
		"cluster,namespace,set,phase,limitedReason,limitNumber,jobs,secondsMean,secondsP50,secondsP95\n"+
			",n,linux,limited,MaxRunnersReached,3,20,10,20,25\n,n,linux,limited,QuotaExceeded,,2,2,40,40\n"+
			",n,linux,assigned,,,40,2.5,2,5\n") ||
		asked[0] != "/api/v1/waits?by=set" {
		t.Errorf("%v, asked %q:\n%s", err, asked, table)
	}
	document, _, _, err := asking(t, map[string]string{"waits": waits},
		report.Options{Waits: true, By: "set", Format: output.JSON})
	if err != nil || !strings.Contains(document, `"secondsP95": 310`) || !strings.Contains(document, `"set": "linux"`) {
		t.Errorf("%v:\n%s", err, document)
	}
}

const sizes = `[
{"cluster":"c","namespace":"n","set":"linux","repository":"acme/app","workflow":"acme/app/.github/workflows/ci.yml","name":"build","jobs":120,"measured":120,"runHours":60,
 "cpuRequestMillis":4000,"memoryRequestBytes":8589934592,"peakMemoryBytesP95":3328599655,"memoryFitBytes":4206886912,"cpuAverageMillisP95":1250,"throttledPercentP95":0,"saving":12.345},
{"cluster":"c","namespace":"n","set":"linux","repository":"acme/app","workflow":"acme/app/.github/workflows/ci.yml","name":"lint","jobs":10,"measured":10,"runHours":1,
 "cpuRequestMillis":500,"memoryRequestBytes":0,"peakMemoryBytesP95":0,"shortOfMemory":2,"cpuAverageMillisP95":900,"throttledPercentP95":40,"saving":-0.5},
{"cluster":"c","namespace":"n","set":"arm","repository":"acme/app","workflow":"acme/app/.github/workflows/ci.yml","name":"arm","jobs":3,"measured":0,"runHours":1,
 "cpuRequestMillis":1000,"memoryRequestBytes":1073741824,"saving":0}]`

func TestRightSizingForPeople(t *testing.T) {
	said, _, asked, err := asking(t, map[string]string{"sizes": sizes},
		report.Options{By: "repository", RightSizing: true, Since: "2026-03-04T12:00:00Z", Set: "linux",
			Format: output.Text})
	const want = `What jobs that have finished use of what they request since 2026-03-04T12:00:00Z, from the ledger at LEDGER:

REPOSITORY  WORKFLOW  JOB    SCALE SET  RUNS  KNOWN   CPU      P95  MEMORY      P95     FITS  THROTTLED   SAVING
acme/app    ci.yml    build  linux       120    120     4    1250m     8Gi   3175Mi   4012Mi         0%    12.35
acme/app    ci.yml    lint   linux        10     10  500m     900m    none  unknown  unknown        40%    -0.50
acme/app    ci.yml    arm    arm           3      0     1  unknown     1Gi  unknown  unknown    unknown  unknown

Unknown: runs in n/arm have left no figures. Whoever installs a scale set gets them with feedback.jobLog: true; jobs in pods of their own (containerMode kubernetes) and lost jobs leave none.

P95: of 100 runs 95 use no more, on average of CPU and at the peak of memory. FITS is a request and limit of memory that none of these runs would have exceeded, 20 % above their largest peak; it is unknown for less than 14 days or 20 runs, where a run is not measured, and where one was short of memory. Nothing is changed here.
`
	if diff := cmp.Diff(want, said); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if asked[0] != "/api/v1/sizes?from=2026-03-04T12%3A00%3A00Z&set=linux" {
		t.Errorf("asked %v", asked)
	}
	table, notes, _, err := asking(t, map[string]string{"sizes": sizes},
		report.Options{RightSizing: true, Format: output.CSV})
	lines, failed := csv.NewReader(strings.NewReader(table)).ReadAll()
	if err != nil || failed != nil || len(lines) != 4 ||
		strings.Join(lines[3], ",") != "c,acme/app,acme/app/.github/workflows/ci.yml,arm,n,arm,3,0,1,1000,,1073741824,,,0,,,0" ||
		!strings.Contains(notes, "feedback.jobLog") {
		t.Errorf("%v, %v: %s\n%s", err, failed, table, notes)
	}
}

// TestWorkDoneElsewhereIsNotMeasured, and gets no advice.
func TestWorkDoneElsewhereIsNotMeasured(t *testing.T) {
	said, _, _, err := asking(t, map[string]string{"sizes": `[{"namespace":"n","set":"dind","repository":"acme/app","workflow":"w","name":"image",
		"jobs":3,"measured":0,"elsewhere":2,"runHours":1,"cpuRequestMillis":1000,"memoryRequestBytes":9663676416,"saving":0}]`},
		report.Options{RightSizing: true, Format: output.Text})
	if err != nil || strings.Count(said, "not measured") != 4 || !strings.Contains(said, "Not measured: of runs in n/dind a part of the work") ||
		strings.Contains(said, "feedback.jobLog") || strings.Contains(said, "fits") {
		t.Errorf("%v:\n%s", err, said)
	}
}

// What is missing is said: no jobs at all, more rows than are told, times in which no ledger looked.
func TestWhatIsMissingIsSaid(t *testing.T) {
	many := "[" + strings.Repeat(`{"repository":"r","jobs":1},`, 999) + `{"repository":"r","jobs":1}]`
	gaps := `[{"cluster":"c","from":"2026-03-04T10:00:00Z","to":"2026-03-04T12:05:00Z","reason":"Stopped"},{"cluster":"c","from":"2026-03-04T13:00:00Z","to":"2026-03-04T13:00:30Z","reason":"Overflow"}]`
	for name, test := range map[string]struct {
		answers map[string]string
		want    string
	}{
		"nothing": {nil, "No jobs.\n\n-n names the namespace of runners; the ledger itself is found by --history-namespace.\n"},
		"many":    {map[string]string{"usage": many}, "These are the largest 1000 only;"},
		"gaps":    {map[string]string{"gaps": gaps}, "No ledger looked for 2h05m in all (2 gaps: Overflow, Stopped)."},
		"no gaps": {map[string]string{"gaps": `{"error":"the database is away"}`}, "Whether a ledger looked all the time is not known: the ledger at LEDGER answers: the database is away"},
	} {
		said, _, _, err := asking(t, test.answers,
			report.Options{By: "repository", Namespace: "n", Format: output.Text})
		if err != nil || !strings.Contains(said, test.want) {
			t.Errorf("%s: %v:\n%.2000s", name, err, said)
		}
		said, _, _, err = asking(t, test.answers, report.Options{By: "repository", Namespace: "n", Format: output.JSON})
		document := struct {
			Rows  []ledger.Usage
			Notes []string
		}{}
		if failed := json.Unmarshal([]byte(said), &document); err != nil || failed != nil || document.Rows == nil ||
			len(document.Notes) == 0 {
			t.Errorf("%s: %v, %v: %.500s", name, err, failed, said)
		}
	}
	if _, _, _, err := asking(t, map[string]string{"usage": `{"error":"from is \"x\": it must be a time"}`},
		report.Options{By: "repository"}); err == nil || !strings.Contains(err.Error(), "must be a time") {
		t.Errorf("a wrong time: %v", err)
	}
}

// What workflows name things is text on a terminal and in a spreadsheet, on one line; JSON has it as it is.
func TestHostileNames(t *testing.T) {
	for _, begin := range []string{"=", "+", "-", "@", "\t=", "\r@", " =", "＝", "\x1b]0;owned\x07=", "\u202e"} {
		evil := begin + "HYPERLINK(\"http://evil\",1)\nTotal \u009b31m"
		text, _ := json.Marshal(evil)
		row := `[{"jobs":1,"measured":0,"saving":-1`
		for _, field := range []string{"repository", "workflow", "name", "namespace", "set"} {
			row += `,"` + field + `":` + string(text)
		}
		for _, options := range []report.Options{{By: "job"}, {By: "set"}, {RightSizing: true},
			{Waits: true, By: "job"}} {
			for _, options.Format = range []string{output.Text, output.CSV, output.JSON} {
				said, notes, _, err := asking(t,
					map[string]string{"usage": row + "}]", "sizes": row + "}]", "waits": row + "}]"}, options)
				if err != nil || strings.ContainsFunc(said+notes, func(r rune) bool {
					return r != '\n' && !unicode.IsPrint(r)
				}) {
					t.Errorf("%+v: %v: %q %q", options, err, said, notes)
				}
				if options.Format == output.CSV {
					noFormulas(t, said)
				} else if options.Format == output.Text && strings.Count(said, "\n") > 7 ||
					!strings.Contains(said, "HYPERLINK") {
					t.Errorf("a name has made a line of its own, or is missing: %s", said)
				}
			}
		}
	}
}

// noFormulas fails if a cell of the only row is one.
func noFormulas(t *testing.T, table string) {
	t.Helper()
	lines, err := csv.NewReader(strings.NewReader(table)).ReadAll()
	if err != nil || len(lines) != 2 {
		t.Fatalf("%v: %s", err, table)
	}
	for _, cell := range lines[1] {
		if strings.ContainsAny(cell[:min(1, len(cell))], "=+-@") || strings.HasPrefix(cell, "＝") {
			t.Errorf("a cell is %q", cell)
		}
	}
}
