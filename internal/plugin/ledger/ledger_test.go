package ledger_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	history "github.com/harrier-ci/harrier/internal/history/ledger"
	"github.com/harrier-ci/harrier/internal/history/server"
	"github.com/harrier-ci/harrier/internal/kube/kinds"
	"github.com/harrier-ci/harrier/internal/plugin/ledger"
	"github.com/harrier-ci/harrier/test/database"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// served is a real ledger with one job, of which everything is known, and a gap.
func served(t *testing.T) *httptest.Server {
	t.Helper()
	l, err := history.Open(t.Context(), database.SQLite(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	job := history.Job{
		RunnerUID: "uid", Cluster: "c", Namespace: "n", Set: "s", Runner: "r", At: noon, Repository: "acme/app",
		Workflow: "acme/app/.github/workflows/ci.yml",
		Ref:      "refs/heads/main", Name: "build", RunID: new(int64(7)), JobID: "job", Attempt: new(int64(2)),
		Event:  "push",
		Queued: noon, Assigned: noon.Add(time.Second), Created: noon.Add(2 * time.Second),
		Registered: noon.Add(3 * time.Second), Placed: noon.Add(4 * time.Second),
		ImagePulled: noon.Add(5 * time.Second), ContainerUp: noon.Add(6 * time.Second),
		Started: noon.Add(7 * time.Second), Finished: noon.Add(6 * time.Minute),
		Result: "failed", LostCause: "Evicted", Rerun: "Done", Node: "node-7", NodeType: "large",
		CPURequestMillis: new(int64(4000)), MemoryRequestBytes: new(int64(8 << 30)),
		MemoryLimitBytes: new(int64(8 << 30)), PeakMemoryBytes: new(int64(3 << 30)),
		CPUMicroseconds: new(int64(353_000_000)), CPUPeriods: new(int64(1000)),
		ThrottledPeriods: new(int64(100)), OOMKills: new(int64(1)),
	}
	err = errors.Join(l.Put(t.Context(), []history.Job{job}), l.AddUp(t.Context()),
		l.PutGap(t.Context(), history.Gap{Cluster: "c", From: noon, To: noon.Add(time.Minute),
			Reason: history.GapStopped}))
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(server.Handler(server.Options{
		Ledger: l, Prices: history.Prices{CPUHour: 10},
		Clock: clocktesting.NewFakePassiveClock(noon.Add(30 * time.Minute)),
		Log:   logr.Discard(), Registry: prometheus.NewRegistry(), Started: func() bool { return true },
	}))
	t.Cleanup(s.Close)
	return s
}

// fields returns what a value has in JSON.
func fields(t *testing.T, of any) (fields map[string]any) {
	t.Helper()
	text, err := json.Marshal(of)
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil {
		t.Fatal(err)
	}
	return fields
}

// Every field of ours is one of the API's, by name and type, with what the API says.
func TestRowsAreThoseOfTheAPI(t *testing.T) {
	s := served(t)
	from, err := ledger.At(s.URL + "/?by=set#top")
	if err != nil {
		t.Fatal(err)
	}
	first := func(rows any, err error) any {
		if err != nil || reflect.ValueOf(rows).Len() != 1 {
			t.Fatalf("%v: %+v", err, rows)
		}
		return reflect.ValueOf(rows).Index(0).Interface()
	}
	for path, ours := range map[string]any{
		"jobs/uid": first(func() (any, error) {
			jobs, _, err := from.Jobs(t.Context(), url.Values{"runID": {"7"}})
			return jobs, err
		}()),
		"usage?by=job": first(func() (any, error) { return from.Usage(t.Context(), url.Values{"by": {"job"}}) }()),
		"usage?by=set": first(func() (any, error) { return from.Usage(t.Context(), url.Values{"by": {"set"}}) }()),
		"usage?by=day": first(func() (any, error) { return from.Usage(t.Context(), url.Values{"by": {"day"}}) }()),
		"waits?by=set": first(func() (any, error) {
			waits, err := from.Waits(t.Context(), url.Values{"by": {"set"}})
			return waits[:min(1, len(waits))], err
		}()),
		"sizes": first(func() (any, error) { return from.Sizes(t.Context(), nil) }()),
		"gaps":  first(func() (any, error) { return from.Gaps(t.Context(), nil) }()),
	} {
		answer, err := s.Client().Get(s.URL + "/api/v1/" + path)
		if err != nil {
			t.Fatal(err)
		}
		var theirs any
		if err := json.NewDecoder(answer.Body).Decode(&theirs); err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if list, is := theirs.([]any); is {
			theirs = list[0]
		}
		for name, value := range fields(t, ours) {
			if want := theirs.(map[string]any)[name]; !reflect.DeepEqual(value, want) {
				t.Errorf("%s of %s is %v, the API says %v", name, path, value, want)
			}
		}
	}
	waits := first(from.Usage(t.Context(), nil)).(ledger.Usage).Waits
	for _, phase := range ledger.Phases {
		if waits[phase] != 1 {
			t.Errorf("waits are %v, which has no %s", waits, phase)
		}
	}
	if len(waits) != len(ledger.Phases) {
		t.Errorf("waits are %v", waits)
	}
}

func TestWrongAddresses(t *testing.T) {
	for _, address := range []string{"", "localhost:8090", "ftp://ledger", "http://", "://", "http://a b"} {
		if _, err := ledger.At(address); err == nil || !strings.Contains(err.Error(), "http://localhost:8090") {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// service returns a Service with the labels of the chart's.
func service(namespace, name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{
		"app.kubernetes.io/component": "history", "app.kubernetes.io/part-of": "harrier", "app.kubernetes.io/name": name,
	}}}
}

// cluster is an API server with Services that may be listed in one namespace, or in all if that is empty.
func cluster(allowed string, services ...client.Object) client.Reader {
	return fake.NewClientBuilder().WithScheme(kinds.Scheme()).WithObjects(services...).
		WithInterceptorFuncs(interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
				options ...client.ListOption) error {
				if asked := (&client.ListOptions{}).ApplyOptions(options); allowed != "" && asked.Namespace != allowed {
					return apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "", nil)
				}
				return c.List(ctx, list, options...)
			},
		}).Build()
}

func TestTheServiceIsFoundByItsLabels(t *testing.T) {
	other := service("system", "other")
	other.Labels["app.kubernetes.io/component"] = "controller-manager"
	one, two := service("system", "harrier-history"), service("evil", "harrier-history")
	for name, test := range map[string]struct {
		reader          client.Reader
		namespace, want string
	}{
		"anywhere":              {cluster("", one, other), "", "Service system/harrier-history"},
		"in its namespace":      {cluster("system", one, two), "system", "Service system/harrier-history"},
		"none":                  {cluster("", other), "", "history.enabled=true"},
		"none in the namespace": {cluster("", one), "runners", "no ledger in namespace runners"},
		"several":               {cluster("", one, two), "", "evil/harrier-history, system/harrier-history; choose by --history-namespace"},
		"not allowed":           {cluster("system", one), "", "name the controller's namespace with --history-namespace"},
		"not even there":        {cluster("x", one), "system", "the Role harrier-history in docs/kubectl-harrier.md"},
	} {
		found, err := ledger.Find(t.Context(), test.reader, &rest.Config{Host: "https://kubernetes"}, test.namespace)
		got := fmt.Sprint(err)
		if err == nil {
			got = found.Where
		}
		if !strings.Contains(got, test.want) {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// What is in the way is told with whose step is next, whether it is the API server's proxy or something else before the
// ledger.
func TestAnswersThatAreNoTable(t *testing.T) {
	status := func(code int32, reason metav1.StatusReason, message string) string {
		text, _ := json.Marshal(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
			Status: "Failure", Code: code, Reason: reason, Message: message})
		return string(text)
	}
	for name, test := range map[string]struct {
		code               int
		kind, body         string
		proxied, addressed string
	}{
		"the ledger's own words": {400, "application/json", `{"error":"from is \"x\": it must be a time"}`, `answers: from is "x": it must be a time`, `answers: from is "x"`},
		"no right":               {403, "application/json", status(403, metav1.StatusReasonForbidden, "services \"h:http\" is forbidden"), "the Role harrier-history", "403 Forbidden; check --history-url"},
		"no pod":                 {503, "application/json", status(503, metav1.StatusReasonServiceUnavailable, "no endpoints available"), "whether its pod is ready", "503 Service"},
		"no way":                 {500, "application/json", status(500, metav1.StatusReasonInternalError, "dial tcp: i/o timeout"), "networkPolicy.metricsFrom", "500 Internal"},
		"no Service":             {404, "application/json", status(404, metav1.StatusReasonNotFound, "services \"h\" not found"), "not found", "older than this plugin"},
		"a login":                {302, "text/html", "", "may be a login", "https://login.example"},
		"a password":             {401, "text/plain", "who?", "asks who comes", "asks who comes"},
		"a page":                 {200, "text/html", "<html>", "no ledger of jobs", "check --history-url"},
		"a torn answer":          {200, "application/json", `[{"jobs":`, "read the answer", "read the answer"},
		"another type":           {200, "application/json", `{"jobs":"many"}`, "read the answer", "read the answer"},
		"too much":               {200, "application/json", `[{"repository":"` + strings.Repeat("a", 17<<20) + `"}]`, "more than 16 MiB", "more than 16 MiB"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "" &&
				!strings.HasPrefix(r.URL.Path,
					"/api/v1/namespaces/system/services/harrier-history:http/proxy/api/v1/usage") {
				t.Errorf("a token of the cluster goes to %s", r.URL.Path)
			}
			w.Header().Set("Content-Type", test.kind)
			w.Header().Set("Location", "https://login.example/?next=x")
			w.WriteHeader(test.code)
			_, _ = w.Write([]byte(test.body))
		}))
		proxied, err := ledger.Find(t.Context(), cluster("", service("system", "harrier-history")),
			&rest.Config{Host: s.URL, BearerToken: "secret"}, "")
		if err != nil {
			t.Fatal(err)
		}
		addressed, err := ledger.At(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		for want, from := range map[string]*ledger.Ledger{test.proxied: proxied, test.addressed: addressed} {
			if _, err := from.Usage(t.Context(), nil); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %.500s, want %q", name, fmt.Sprint(err), want)
			}
		}
		s.Close()
	}
}

// Whoever is not there, or never answers, is given up, and a password in the address is not told.
func TestNobodyAnswers(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer s.Close()
	silent, err := ledger.At(strings.Replace(s.URL, "http://", "http://me:hidden@", 1))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer stop()
	if _, err := silent.Gaps(ctx, nil); !errors.Is(err, context.DeadlineExceeded) ||
		strings.Contains(err.Error(), "hidden") || !strings.Contains(err.Error(), "check --history-url") {
		t.Errorf("%v", err)
	}
	s.CloseClientConnections()
}
