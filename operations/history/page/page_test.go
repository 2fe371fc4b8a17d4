package page_test

import (
	"context"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/meaning"
	"github.com/harrier-ci/harrier/operations/history/databasetest"
	"github.com/harrier-ci/harrier/operations/history/ledger"
	"github.com/harrier-ci/harrier/operations/history/page"
	"github.com/harrier-ci/harrier/operations/history/page/pagetest"
)

// noon is the end of the invented day.
var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// site is the pages with their ledger and clock.
type site struct {
	*httptest.Server
	ledger *ledger.Ledger
	clock  *clocktesting.FakeClock
}

// empty serves pages of a ledger without a row.
func empty(t *testing.T) site {
	t.Helper()
	return serve(t, databasetest.SQLite(t))
}

// serve serves pages of a ledger in a file.
func serve(t *testing.T, file string) site {
	t.Helper()
	l, err := ledger.Open(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	s := site{ledger: l, clock: clocktesting.NewFakeClock(noon.Add(20 * time.Second))}
	s.Server = httptest.NewServer(page.Handler(page.Options{
		Ledger: l, Prices: pagetest.Prices, Cluster: pagetest.Cluster{At: noon}, Name: pagetest.Name, Clock: s.clock,
		Log: logr.Discard(),
	}))
	t.Cleanup(s.Close)
	return s
}

// invented serves the pages of the invented day.
func invented(t *testing.T) site {
	t.Helper()
	content, err := day()
	if err != nil {
		t.Fatal(err)
	}
	file := databasetest.SQLite(t)
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return serve(t, file)
}

// day returns a database with the invented day. It takes seconds to write under the race detector.
var day = sync.OnceValues(func() ([]byte, error) {
	directory, err := os.MkdirTemp("", "page-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(directory)
	file := filepath.Join(directory, "history.db")
	l, err := ledger.Open(context.Background(), file)
	if err != nil {
		return nil, err
	}
	err = pagetest.Fill(context.Background(), l, noon)
	l.Close() // what it has written is in the file then
	if err != nil {
		return nil, err
	}
	return os.ReadFile(file)
})

func (s site) get(t *testing.T, path string) (*http.Response, string) {
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
	return answer, string(body)
}

// all are pages of each kind.
var all = []string{
	"/", "/?from=2d&namespace=research", "/set?cluster=" + pagetest.Name + "&namespace=team-web&set=linux",
	"/set?namespace=research&set=gpu", "/set?namespace=research&set=gone", "/jobs",
	"/jobs?from=7d&text=test&result=failed",
	"/jobs?lostCause=NodeLost", "/job?runnerUID=" + pagetest.Lost, "/job?runnerUID=" + pagetest.Harmful, "/usage",
	"/usage?by=job", "/usage?by=workflow", "/usage?by=set", "/usage?by=day&from=30d",
	"/trends", "/trends?by=branch&from=90d", "/trends?by=event&every=week", "/trends?by=set", "/run?run=19123456789",
	"/run?run=19200000001", "/run?run=4711",
}

// tags matches what html/template leaves between texts.
var tags = regexp.MustCompile(`(?s)<svg.*?</svg>|<[^>]*>`)

// text returns what a person reads, without the pictures.
func text(body string) string {
	return strings.Join(strings.Fields(html.UnescapeString(tags.ReplaceAllString(body, " "))), " ")
}

func TestPeoplesQuestionsAreAnswered(t *testing.T) {
	s := invented(t)
	for path, wants := range map[string][]string{
		// Why does a set not grow, and what waits?
		"/": {"Jobs that wait longest", "test (node 24) acme/web, run 19200000001 2026-03-04 11:48:00", "at maxRunners", "whoever installs the scale set linux ci.yml main",
			"4 jobs besides wait whose names nobody here knows",
			"6 jobs wait : 3 in gpu (no node with room), 3 in linux (at maxRunners). 16 run.",
			"Somebody has to act : gpu (no node with room, the cluster's administrator).", "lost: NodeLost was run again", "NodeLost", "no ledger ran", "2026-03-03 21:10:00",
			// Is it GitHub, the queue, the image or the node?
			"jobs that have finished waited", "95 of 100", "5 node", "6 image", "image, volumes and network were there"},
		"/set?cluster=" + pagetest.Name + "&namespace=research&set=gpu": {"Limited by no node with room",
			"3 jobs wait : no node with room. 4 run. Somebody has to act : that is for the cluster's administrator.", "gpu-7k2xq", "registered", "3 Insufficient nvidia.com/gpu", "kubectl harrier doctor --namespace research",
			// What is it short of, and whose step is next?
			"for its labels pool gpu", "nvidia.com/gpu 1", "What to do add nodes, or make the template ask for less",
			"the cluster's administrator",
			"Half of the jobs", "5 node", "the pod had a node: room, quota, requests", "6 image",
			"image, volumes and network were there"},
		"/set?cluster=" + pagetest.Name + "&namespace=team-web&set=linux": {"test (node 24) acme/web 19200000001",
			"3 jobs wait , the longest since 2026-03-04 11:48:00 : at maxRunners. 12 run.", "limited: at maxRunners", "What runs now", "NodeLost 1 deploy", "The node was shut down",
			// How long does its runner work?
			"Runner version 2.338.0", "runner version ends soon in nine days GitHub stops giving jobs to runner version 2.338.0",
			"GitHub takes it until"},
		// What happened to the job?
		"/job?runnerUID=" + pagetest.Lost: {"deploy", "lost: NodeLost", "The node was shut down",
			"It was run again. The workflow run's attempt 2 has it.", "karpenter.sh/capacity-type=spot", "Cost 0.0",
			"19123456789", "attempt 1", "acme/api", "linux-lost1", "kubectl harrier why --namespace team-web linux-lost1",
			"Other jobs of this name and run", "succeeded", "queue", "image", "run 9 min"},
		"/jobs?text=DEPLOY":       {"deploy", "lost: NodeLost", "succeeded"},
		"/jobs?runID=19123456789": {"deploy", "lost: NodeLost", "succeeded"},
		// Why does my run wait?
		"/run?run=" + url.QueryEscape("https://github.com/acme/web/actions/runs/19200000001/job/7?pr=2"): {"1 of its jobs waits , 0 run",
			"test (node 24) acme/web 2026-03-04 11:48:00 at maxRunners :", "linux"},
		"/run?run=19123456789": {"None of its jobs waits , 0 run, 2 have ended, 1 was lost", "attempt 1", "was run again"},
		"/run?run=4711":        {"Nobody here knows a job of this run", "GitHub keeps jobs of these", "linux in team-web"},
		"/run?run=yesterday":   {"the number of a workflow run, or the address"},
		"/run":                 {"the number of a workflow run, or its address"},
		// Is my job slower than last week?
		"/trends":             {"What got worse last week", "test (node 24) acme/web/.github/workflows/ci.yaml slower", "By day", "2026-02-24"},
		"/trends?branch=main": {"test (node 24) acme/web/.github/workflows/ci.yaml slower"},
		"/trends?event=push":  {"test (node 24) acme/web/.github/workflows/ci.yaml slower"},
		"/trends?every=week&repository=acme%2Fweb&name=lint": {"Nothing, by more than chance", "Week of", "main", "(pull requests)"},
		"/usage?by=workflow":        {"acme/models/.github/workflows/train.yaml", "Cost", "Saving", "train (large)"},
		"/usage?by=repository":      {"acme/models", "acme/web", "CPU·h requested", "GiB·h requested"},
		"/usage?by=day&from=2d":     {"2026-03-03", "2026-03-04"},
		"/job?runnerUID=nobody":     {"Not Found", "retention"},
		"/nowhere":                  {"there is no such page"},
		"/jobs?colour=red":          {"Bad Request", "colour", "no such filter"},
		"/set":                      {"the name of a scale set"},
		"/jobs?from=1h&to=2h":       {"before to"},
		"/jobs?from=" + "yesterday": {"such as 24h or 30d"},
	} {
		_, body := s.get(t, path)
		for _, want := range wants {
			if !strings.Contains(text(body), want) {
				t.Errorf("%s does not say %q:\n%s", path, want, text(body))
			}
		}
	}
	_, body := s.get(t, "/job?runnerUID="+pagetest.Lost)
	if !strings.Contains(body, `href="https://github.com/acme/api/actions/runs/19123456789/attempts/1"`) ||
		!strings.Contains(body, `href="job?runnerUID=`+pagetest.Again+`"`) {
		t.Error("the job does not lead to its run on GitHub, or to its other attempt")
	}
	for _, path := range []string{"/job?runnerUID=" + pagetest.Lost, "/run?run=19123456789"} {
		_, body := s.get(t, path)
		if !strings.Contains(body, `href="https://github.com/acme/api/actions/runs/19123456789/job/55123456001"`) {
			t.Errorf("%s does not lead to the job's log on GitHub", path)
		}
	}
}

func TestDearestWorkflowIsFirst(t *testing.T) {
	s := invented(t)
	usage, err := s.ledger.UsageBy(t.Context(), ledger.ByWorkflow, ledger.Filter{}, ledger.Prices{})
	if err != nil {
		t.Fatal(err)
	}
	dearest, most := "", 0.0
	for _, u := range usage { // by hand: the page must not be its own judge
		if cost := 0.031*u.CPUHoursRequested + 0.004*u.GiBHoursRequested; cost > most {
			dearest, most = u.Workflow, cost
		}
	}
	_, body := s.get(t, "/usage?by=workflow")
	if first := regexp.MustCompile(`<th scope="row"><a [^>]*><bdi>([^<]*)`).FindStringSubmatch(body); first == nil ||
		first[1] != dearest {
		t.Errorf("the first is %q, the dearest %q", first, dearest)
	}
}

func TestEveryPageIsWholeWithoutARow(t *testing.T) {
	s := empty(t)
	for _, path := range all {
		answer, body := s.get(t, path)
		want := http.StatusOK
		if strings.HasPrefix(path, "/job?") {
			want = http.StatusNotFound
		}
		if answer.StatusCode != want || !strings.HasSuffix(strings.TrimSpace(body), "</html>") {
			t.Errorf("%s: %d: %s", path, answer.StatusCode, body)
		}
	}
}

func TestNamesOfOthersCanDoNothing(t *testing.T) {
	s := invented(t)
	for _, path := range append(all, "/jobs?text="+url.QueryEscape(pagetest.Hostile), "/jobs?colour="+
		url.QueryEscape(pagetest.Hostile), "/set?namespace="+url.QueryEscape(pagetest.Hostile)+"&set="+
		url.QueryEscape(pagetest.Hostile), "/"+url.PathEscape(`"><script>`)) {
		_, body := s.get(t, path)
		for _, harm := range []string{"<script>", "<img src=x", "\u202e", "\x1b", "\x00"} {
			if strings.Contains(body, harm) {
				t.Errorf("%.60s has %q", path, harm)
			}
		}
		if strings.Contains(body, "ZgotmplZ") {
			t.Errorf("%.60s has an address that html/template does not trust", path)
		}
		for _, handler := range []string{" onclick=", " onload=", " style="} {
			if strings.Contains(tags.FindString(body), handler) {
				t.Errorf("%.60s has %s, which its policy forbids", path, handler)
			}
		}
	}
	_, body := s.get(t, "/job?runnerUID="+pagetest.Harmful)
	if title := regexp.MustCompile(`<h1>(.*)</h1>`).FindStringSubmatch(body); title == nil ||
		len([]rune(html.UnescapeString(title[1]))) != 100 || !strings.HasSuffix(title[1], "…") {
		t.Errorf("the title is %q", title)
	}
}

// TestNoLoadIsLarge: with as many sets, jobs and gaps as any page shows, whose names are as long as any it shows.
func TestNoLoadIsLarge(t *testing.T) {
	s := invented(t)
	long := strings.Repeat("x", 1000)
	var many []ledger.Job
	var samples []ledger.Sample
	for i := range 210 {
		at := noon.Add(-time.Duration(i) * 5 * time.Minute)
		many = append(many, ledger.Job{
			RunnerUID: fmt.Sprintf("00000000-0000-4000-8000-%012d", i), Cluster: pagetest.Name, Namespace: "team-web",
			Set: "linux", Runner: fmt.Sprintf("linux-%d-%s", i, long[:50]), At: at, Started: at,
			Finished: at.Add(time.Hour), Result: "failed", LostCause: "Evicted",
			Repository: long[:i%9] + "/" + long, Workflow: long[:i%7] + long, Name: long[:i%5] + "&" + long,
			Node: long[:60], Created: at.Add(-time.Minute), Queued: at.Add(-time.Minute), PeakMemoryBytes: new(int64(1 << 30)),
			RunID: new(int64(7)),
		})
	}
	for i := range 60 {
		set := ledger.Sample{Cluster: pagetest.Name, Namespace: "team", Set: fmt.Sprintf("%s-%d", long[:60], i), Waiting: 4,
			EffectiveMax: new(int64(5)), LimitedReason: "MaxRunnersReached"}
		for half := range 48 {
			set.At, set.Running = noon.Add(-time.Duration(half)*30*time.Minute), int64(half*7%11)
			samples = append(samples, set)
		}
		at := noon.Add(-time.Duration(i) * 20 * time.Minute)
		gap := ledger.Gap{Cluster: pagetest.Name, From: at, To: at.Add(time.Second), Reason: ledger.GapStopped}
		if err := s.ledger.PutGap(t.Context(), gap); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.ledger.PutSamples(t.Context(), samples); err != nil {
		t.Fatal(err)
	}
	if err := s.ledger.Put(t.Context(), many); err != nil {
		t.Fatal(err)
	}
	if err := s.ledger.AddUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	beside := 0
	for _, path := range []string{"/style.css", "/live.js", "/icon.svg"} {
		_, body := s.get(t, path)
		beside += len(body)
	}
	for _, path := range append(all, "/job?runnerUID="+many[0].RunnerUID) {
		_, body := s.get(t, path)
		t.Logf("%s: %d bytes", path, len(body)+beside)
		if len(body)+beside > 200_000 {
			t.Errorf("%s takes %d bytes", path, len(body)+beside)
		}
	}
}

func TestBrowsersAreToldToTrustNobodyElse(t *testing.T) {
	s := invented(t)
	for _, path := range append(all, "/nowhere", "/jobs?colour=red", "/style.css", "/live.js", "/icon.svg") {
		answer, body := s.get(t, path)
		policy := answer.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'",
			"frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: the policy %q lacks %s", path, policy, want)
			}
		}
		if strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") {
			t.Errorf("%s: the policy is %q", path, policy)
		}
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY"} {
			if got := answer.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q", path, name, got)
			}
		}
		for _, source := range regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(body, -1) {
			if address, err := url.Parse(html.UnescapeString(source[1])); err != nil ||
				(address.Host != "" && address.Host != "github.com") {
				t.Errorf("%s leads to %q", path, source[1])
			}
		}
	}
	request, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/jobs", nil)
	answer, err := s.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("writing gives %d", answer.StatusCode)
	}
}

func TestPagesSayThatTheDatabaseIsAway(t *testing.T) {
	s := invented(t)
	s.ledger.Close()
	for _, path := range all {
		if answer, body := s.get(t, path); answer.StatusCode != http.StatusServiceUnavailable ||
			!strings.Contains(body, "the log of the ledger says why") || strings.Contains(body, "sql") {
			t.Errorf("%s: %d: %s", path, answer.StatusCode, body)
		}
	}
}

// The page of a set in another cluster says of the limit in the ledger what its row says; a lost job has the meaning of
// its cause, and the phases of its wait have their names.
func TestPagesHaveTheWordsOfTheMeaning(t *testing.T) {
	s := empty(t)
	var samples []ledger.Sample
	for i, row := range meaning.All() {
		samples = append(samples, ledger.Sample{Cluster: "other", Namespace: "ns", Set: fmt.Sprint("set-", i), At: noon,
			LimitedReason: row.Reason})
	}
	if err := s.ledger.PutSamples(t.Context(), samples); err != nil {
		t.Fatal(err)
	}
	for i, row := range meaning.All() {
		if row.Advice == "" {
			continue
		}
		_, body := s.get(t, fmt.Sprint("/set?cluster=other&namespace=ns&set=set-", i))
		if said := text(body); !strings.Contains(said, text(html.EscapeString(row.Advice))) ||
			(row.Actor != meaning.Nobody && !strings.Contains(said, row.Actor.String())) {
			t.Errorf("%s: lacks %q: %s", row.Reason, row.Advice, said)
		}
	}
	for i, cause := range v1alpha1.LostCauses {
		uid := fmt.Sprintf("00000000-0000-4000-8000-%012d", i)
		at := func(minute int) time.Time { return noon.Add(time.Duration(minute-60) * time.Minute) }
		if err := s.ledger.Put(t.Context(), []ledger.Job{{
			RunnerUID: uid, Cluster: "other", Namespace: "ns", Set: "set-1", Runner: "r", At: at(7), LostCause: string(cause),
			LimitedReason: "MaxRunnersReached", LimitNumber: new(int64(3)), LimitedAssigned: new(int64(30)),
			Queued: at(0), Assigned: at(1), Created: at(2), Registered: at(3), Placed: at(4), ImagePulled: at(5),
			ContainerUp: at(6), Started: at(7), Finished: at(8),
		}}); err != nil {
			t.Fatal(err)
		}
		_, body := s.get(t, "/job?runnerUID="+uid)
		said := text(body)
		if want := meaning.OfLoss(cause).Meaning; !strings.Contains(said, want) {
			t.Errorf("%s: lacks %q: %s", cause, want, said)
		}
		for n, phase := range meaning.Phases() {
			if want := fmt.Sprint(n+1, " ", phase.Few); !strings.Contains(said, want) ||
				!strings.Contains(said, phase.Reached) {
				t.Errorf("lacks %q and %q: %s", want, phase.Reached, said)
			}
		}
	}
}
