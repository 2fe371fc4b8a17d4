package why

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"unicode"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/output"
	"github.com/harrier-ci/harrier/operations/doctor/snapshot"
	"github.com/harrier-ci/harrier/operations/finding"
	"github.com/harrier-ci/harrier/operations/plugin/ledger"
)

// lostRow is a job that was lost as the ledger has it, and gone that of runner, which the cluster may know better.
const (
	lostRow = `{"runnerUID":"u1","cluster":"c","namespace":"runners","set":"linux","runner":"linux-old-runner-1","at":"2026-03-04T12:00:00Z","repository":"acme/app",
 "workflow":"acme/app/.github/workflows/ci.yml","name":"build","runID":1234567890,"jobID":"0B0BD3C5","event":"push","attempt":2,"rerun":"Done",
 "queued":"2026-03-04T12:00:00Z","assigned":"2026-03-04T12:00:10Z","created":"2026-03-04T12:00:12Z","placed":"2026-03-04T12:01:12Z","started":"2026-03-04T12:01:30Z","finished":"2026-03-04T12:03:30Z",
 "lostCause":"NodeLost","node":"node-7","nodeType":"c7.large","cpuRequestMillis":1500,"memoryRequestBytes":2147483648,"peakMemoryBytes":3221225472,"cpuMicroseconds":60000000,"oomKills":1}`
	ownRow = `{"runnerUID":"u2","namespace":"runners","set":"linux","runner":"` + runner +
		`","repository":"acme/app","name":"build (linux)","runID":1234567890,"result":"succeeded"}`
	otherRow = `{"runnerUID":"u3","namespace":"elsewhere","set":"linux","runner":"r3","repository":"acme/other","name":"another repository's","runID":1234567890,"result":"succeeded"}`
)

// remembering is a ledger that answers each filter of jobs; it notes what it is asked.
func remembering(t *testing.T, rows map[string]string) (open Opener, asked *[]string) {
	asked = &[]string{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		if r.URL.Path != "/api/v1/jobs" || query.Get("limit") != "256" {
			t.Errorf("asked for %s", r.URL)
		}
		query.Del("limit")
		*asked = append(*asked, query.Encode())
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"jobs":[` + rows[query.Encode()] + `],"next":"` + rows["next"] + `"}`))
	}))
	t.Cleanup(s.Close)
	from, err := ledger.At(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	from.Where = "LEDGER"
	return func(context.Context) (*ledger.Ledger, error) { return from, nil }, asked
}

// recalled runs the command with a ledger, and returns its answer as text and as JSON.
func recalled(t *testing.T, cluster snapshot.Cluster, subject string, options Options) (said string, told answer,
	err error) {
	t.Helper()
	var text, document bytes.Buffer
	options.Namespace, options.Format = "runners", output.Text
	err = Run(t.Context(), cluster, subject, options, &text)
	options.Format = output.JSON
	_ = Run(t.Context(), cluster, subject, options, &document)
	if document.Len() > 0 {
		if failed := json.Unmarshal(document.Bytes(), &told); failed != nil {
			t.Errorf("%v: %s", failed, document.String())
		}
	}
	return text.String() + document.String(), told, err
}

// A job whose runner is gone is told from the ledger alone.
func TestForgottenJobs(t *testing.T) {
	open, asked := remembering(t, map[string]string{"runID=1234567890": lostRow + "," + otherRow})
	said, told, err := recalled(t, server(nil), "https://github.com/Acme/app/actions/runs/1234567890",
		Options{Everywhere: true, Ledger: open})
	if !errors.Is(err, finding.ErrProblems) || len(told.Jobs) != 1 || told.Jobs[0].State != Lost ||
		told.Jobs[0].From == "" || told.Ledger.Where != "LEDGER" || told.Jobs[0].WaitSeconds != 90 {
		t.Errorf("%v: %+v", err, told)
	}
	for _, part := range []string{
		`Job "build" of acme/app, run 1234567890: lost with its runner`,
		"from the ledger at LEDGER: the cluster has forgotten the runner", "node node-7 (c7.large)",
		"placed  after 1m00s", "1m30s in all, the longest for placed: the cluster",
		"runners/linux-old-runner-1 of scale set linux", "NodeLost: the ledger keeps the cause only",
		"nobody: it runs again in attempt 2",
		"the cluster's administrator: to lose no more jobs so, run long jobs on nodes that stay",
		"requested CPU 1500m, requested memory 2Gi, used CPU 500m on average, peak of memory 3Gi, processes killed for " +
			"lack of memory: 1",
	} {
		if !strings.Contains(said, part) {
			t.Errorf("lacks %q:\n%s", part, said)
		}
	}
	if !slices.Equal(*asked, []string{"runID=1234567890", "runID=1234567890"}) { // as text and as JSON
		t.Errorf("asked %q", *asked)
	}
}

func TestHowFarForgottenJobsWere(t *testing.T) {
	for want, fields := range map[State]string{
		Ended: `"result":"canceled"`, Running: `"started":"2026-03-04T12:01:30Z"`, Starting: `"created":"2026-03-04T12:01:30Z"`, Lost: `"lostCause":"Evicted","result":"failed"`,
	} {
		open, _ := remembering(t, map[string]string{
			"runner=gone": `{"runnerUID":"u","namespace":"runners","runner":"gone","name":"n",` + fields + `}`, "jobID=gone": ""})
		if _, told, _ := recalled(t, server(nil), "gone",
			Options{Everywhere: true, Ledger: open}); len(told.Jobs) != 1 || told.Jobs[0].State != want {
			t.Errorf("%s: %+v", fields, told.Jobs)
		}
	}
}

// Whatever names a job is asked for, in one namespace if there is -n. What the cluster knows is not told twice.
func TestWhatTheLedgerIsAsked(t *testing.T) {
	for subject, want := range map[string][]string{
		"0B0BD3C5":                    {"jobID=0B0BD3C5", "jobID=0b0bd3c5", "runner=0B0BD3C5"},
		"pod/linux-old-runner-1":      {"runner=linux-old-runner-1"},
		"linux-old-runner-1-workflow": {"jobID=linux-old-runner-1-workflow", "runner=linux-old-runner-1-workflow", "runner=linux-old-runner-1"},
		"42":                          {"runID=42", "jobID=42", "runner=42"},
	} {
		open, asked := remembering(t, map[string]string{})
		_, _, err := recalled(t, server(nil), subject, Options{Ledger: open})
		for i := range want {
			want[i] = "namespace=runners&" + want[i]
			parts := strings.Split(want[i], "&")
			slices.Sort(parts)
			want[i] = strings.Join(parts, "&")
		}
		if !slices.Equal((*asked)[:len(want)], want) || err == nil ||
			!strings.Contains(err.Error(), "The ledger at LEDGER has no such job, either") {
			t.Errorf("%s: asked %q, want %q: %v", subject, *asked, want, err)
		}
	}
	objects := []client.Object{runnerWith(nil), podWith(nil)}
	open, asked := remembering(t, map[string]string{"runID=1234567890": ownRow + "," + lostRow + "," + lostRow,
		"next": "more"})
	said, told, _ := recalled(t, server(nil, objects...), "https://github.com/acme/app/actions/runs/1234567890",
		Options{Everywhere: true, Ledger: open})
	if len(told.Jobs) != 2 || told.Jobs[0].State != Running || told.Jobs[1].State != Lost ||
		!strings.Contains(said, "knows more jobs than the 256") {
		t.Errorf("of a run: %+v\n%s", told.Jobs, said)
	}
	*asked = nil
	if _, told, err := recalled(t, server(nil, objects...), runner,
		Options{Everywhere: true, Ledger: open}); err != nil || len(told.Jobs) != 1 || len(*asked) > 0 {
		t.Errorf("of a runner that is there: %v, %+v, asked %q", err, told.Jobs, *asked)
	}
	if _, told, _ := recalled(t, server(podsOnly, objects...), "1234567890",
		Options{Everywhere: true, Ledger: open}); len(told.Jobs) != 2 || told.Jobs[0].Runner != runner {
		t.Errorf("of pods alone: %+v", told.Jobs)
	}
}

// Without a ledger the cluster's answer is as ever, and what is missing is said.
func TestWithoutALedger(t *testing.T) {
	away := func(context.Context) (*ledger.Ledger, error) {
		return nil, errors.New("there is no ledger\x1b[31m here")
	}
	broken, _ := remembering(t, map[string]string{"runID=1234567890": "{"})
	for name, open := range map[string]Opener{"away": away, "broken": broken} {
		said, told, err := recalled(t, server(nil, runnerWith(nil), podWith(nil)),
			"https://github.com/acme/app/actions/runs/1234567890", Options{Everywhere: true, Ledger: open})
		if err != nil || len(told.Jobs) != 1 || told.Ledger.Problem == "" ||
			!strings.Contains(said, "The ledger of jobs could not be asked, so jobs whose runners are gone are "+
				"missing here: ") {
			t.Errorf("%s: %v, %+v\n%s", name, err, told, said)
		}
		if strings.ContainsFunc(said, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
			t.Errorf("%s: %q", name, said)
		}
	}
	var missing *NotFoundError
	if _, _, err := recalled(t, server(nil), job, Options{Everywhere: true, Ledger: away}); !errors.As(err, &missing) ||
		!strings.Contains(err.Error(), "there is no ledger") {
		t.Errorf("nothing is there, and no ledger: %v", err)
	}
	if _, _, err := recalled(t, server(func(any, string) bool { return true }), job,
		Options{Everywhere: true, Ledger: away}); err == nil ||
		!strings.Contains(err.Error(), "neither runners nor pods") ||
		!strings.Contains(err.Error(), "there is no ledger") {
		t.Errorf("nothing can be read, and there is no ledger: %v", err)
	}
}

// What the ledger says reaches a terminal as text only: workflows have named it.
func TestHostileRows(t *testing.T) {
	evil, _ := json.Marshal("a\x1b]0;owned\x07\u009b31m\u202e\nNext      nobody: relax")
	row := `{"runnerUID":"u"`
	for _, field := range []string{"namespace", "set", "runner", "repository", "workflow", "name", "jobID", "event",
		"rerun", "result", "lostCause", "node", "nodeType"} {
		row += `,"` + field + `":` + string(evil)
	}
	open, _ := remembering(t, map[string]string{"runner=gone": row + "}"})
	said, told, _ := recalled(t, server(nil), "pod/gone", Options{Everywhere: true, Ledger: open})
	if len(told.Jobs) != 1 || strings.ContainsFunc(said, func(r rune) bool {
		return r != '\n' && !unicode.IsPrint(r)
	}) {
		t.Errorf("%q", said)
	}
	for line := range strings.SplitSeq(said, "\n") {
		if strings.HasPrefix(line, "Next") {
			t.Errorf("a name has made a line of its own: %s", said)
		}
	}
	if told.Jobs[0].Reason == string(v1alpha1.LostCauseEvicted) {
		t.Error("an unknown cause became a known one")
	}
}
