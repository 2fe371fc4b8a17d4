package ledger_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/harrier-ci/harrier/internal/kube/kinds"
	"github.com/harrier-ci/harrier/internal/meaning"
	"github.com/harrier-ci/harrier/operations/history/databasetest"
	history "github.com/harrier-ci/harrier/operations/history/ledger"
	"github.com/harrier-ci/harrier/operations/history/server"
	"github.com/harrier-ci/harrier/operations/plugin/ledger"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// served is a real ledger with one job, of which everything is known, and a gap.
func served(t *testing.T) *httptest.Server {
	t.Helper()
	l, err := history.Open(t.Context(), databasetest.SQLite(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	job := history.Job{
		RunnerUID: "uid", Cluster: "c", Namespace: "n", Set: "s", Runner: "r", At: noon, Repository: "acme/app",
		Workflow: "acme/app/.github/workflows/ci.yml",
		Ref:      "refs/heads/main", Name: "build", RunID: new(int64(7)), JobID: "job", JobNumber: new(int64(501)), Attempt: new(int64(1)),
		Event:         "push",
		LimitedReason: "MaxRunnersReached", LimitNumber: new(int64(3)), LimitedAssigned: new(int64(1)),
		Queued: noon.Add(-time.Second), Assigned: noon.Add(time.Second), Created: noon.Add(2 * time.Second),
		Registered: noon.Add(3 * time.Second), Placed: noon.Add(4 * time.Second),
		ImagePulled: noon.Add(5 * time.Second), ContainerUp: noon.Add(6 * time.Second),
		Started: noon.Add(7 * time.Second), Finished: noon.Add(6 * time.Minute), Ending: history.EndingRunnerGone,
		Result: "failed", LostCause: "Evicted", Rerun: "Done", RerunReason: "a word", RerunAttempt: new(int64(2)), Node: "node-7", NodeType: "large",
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
		Ledger: l, Prices: history.Prices{{CPUHour: 10}},
		Clock: clocktesting.NewFakePassiveClock(noon.Add(30 * time.Minute)),
		Log:   logr.Discard(), Registry: prometheus.NewRegistry(),
	}))
	t.Cleanup(s.Close)
	return s
}

// Each phase of a wait that the ledger tells has a meaning, and each that has one is told.
func TestPhasesOfTheLedgerHaveMeanings(t *testing.T) {
	from, err := ledger.At(served(t).URL + "/?by=set#top")
	if err != nil {
		t.Fatal(err)
	}
	page, err := from.Usage(t.Context(), url.Values{"by": {"repository"}})
	usage := page.Rows
	if err != nil || len(usage) != 1 {
		t.Fatalf("%v: %+v", err, usage)
	}
	waits := usage[0].Waits
	for _, phase := range meaning.Phases() {
		if waits[phase.Name] != 1 {
			t.Errorf("waits are %v, which has no %s", waits, phase.Name)
		}
	}
	if len(waits) != len(meaning.Phases()) {
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

// stateful returns a StatefulSet with the labels of the chart's.
func stateful(namespace, name, release string) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{
		"app.kubernetes.io/component": "history", "app.kubernetes.io/part-of": "harrier", "app.kubernetes.io/name": name,
		"app.kubernetes.io/instance": release,
	}}}
}

// installed is the CustomResourceDefinition of a release.
func installed(namespace, release string) *metav1.PartialObjectMetadata {
	crd := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "autoscalingrunnersets.actions.github.com",
		Annotations: map[string]string{"meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": namespace}}}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1",
		Kind: "CustomResourceDefinition"})
	return crd
}

// cluster is an API server with objects. Those of a single namespace may be listed, or of all if that is empty.
func cluster(allowed string, objects ...client.Object) client.Reader {
	var crd *metav1.PartialObjectMetadata // whose kind the fake client does not know
	if len(objects) > 0 {
		if first, is := objects[0].(*metav1.PartialObjectMetadata); is {
			crd, objects = first, objects[1:]
		}
	}
	return fake.NewClientBuilder().WithScheme(kinds.Scheme()).WithRESTMapper(kinds.Mapper()).WithObjects(objects...).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, into client.Object,
				_ ...client.GetOption) error {
				if crd == nil || key.Name != crd.Name {
					return apierrors.NewForbidden(schema.GroupResource{Resource: "customresourcedefinitions"}, key.Name, nil)
				}
				crd.DeepCopyInto(into.(*metav1.PartialObjectMetadata))
				return nil
			},
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
				options ...client.ListOption) error {
				if asked := (&client.ListOptions{}).ApplyOptions(options); allowed != "" && asked.Namespace != allowed {
					return apierrors.NewForbidden(schema.GroupResource{Resource: "statefulsets"}, "", nil)
				}
				return c.List(ctx, list, options...)
			},
		}).Build()
}

// TestTheLedgerIsThatOfTheManagersRelease: what anybody puts into his own namespace changes nothing, nor does another
// release beside the manager's. Others are found by name.
func TestTheLedgerIsThatOfTheManagersRelease(t *testing.T) {
	other := stateful("system", "other", "harrier")
	other.Labels["app.kubernetes.io/component"] = "controller-manager"
	crd, mine := installed("system", "harrier"), stateful("system", "harrier-history", "harrier")
	evil, second := stateful("evil", "harrier-history", "harrier"), stateful("system", "test-history", "test")
	for name, test := range map[string]struct {
		reader client.Reader
		wanted ledger.Wanted
		want   string
	}{
		"the manager's":          {cluster("", crd, mine, other), ledger.Wanted{}, "pod system/harrier-history-0"},
		"with one of a tenant":   {cluster("", crd, mine, evil), ledger.Wanted{}, "pod system/harrier-history-0"},
		"of a tenant alone":      {cluster("", crd, evil), ledger.Wanted{}, "there is no ledger in namespace system"},
		"with another release's": {cluster("", crd, mine, second), ledger.Wanted{}, "pod system/harrier-history-0"},
		"no release":             {cluster("", mine, evil), ledger.Wanted{}, "name the controller's namespace with --history-namespace"},
		"applied by hand":        {cluster("", installed("", ""), mine), ledger.Wanted{}, "is of no Helm release"},
		"by namespace":           {cluster("system", mine), ledger.Wanted{Namespace: "system"}, "pod system/harrier-history-0"},
		"another one's by name":  {cluster("", crd, mine, evil), ledger.Wanted{Namespace: "evil"}, "pod evil/harrier-history-0"},
		"by its pod":             {cluster("nowhere", crd), ledger.Wanted{Pod: "mine-0"}, "pod system/mine-0"},
		"by namespace and pod":   {cluster("nowhere"), ledger.Wanted{Namespace: "n", Pod: "mine-0"}, "pod n/mine-0"},
		"none":                   {cluster("", crd, other), ledger.Wanted{}, "history.enabled=true"},
		"several in a namespace": {cluster("", mine, second), ledger.Wanted{Namespace: "system"}, "choose by --history-pod one of harrier-history-0, test-history-0"},
		"not allowed":            {cluster("x", mine), ledger.Wanted{Namespace: "system"}, "the Role harrier-history in docs/kubectl-harrier.md"},
	} {
		found, err := ledger.Find(t.Context(), test.reader, &rest.Config{Host: "https://kubernetes"}, test.wanted)
		got := fmt.Sprint(err)
		if err == nil {
			got = found.Where
		}
		if !strings.Contains(got, test.want) {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// What is in the way is told with whose step is next, whatever stands before the ledger.
func TestAnswersThatAreNoTable(t *testing.T) {
	for name, test := range map[string]struct {
		code       int
		kind, body string
		want       string
	}{
		"the ledger's own words": {400, "application/json", `{"error":"from is \"x\": it must be a time"}`, `answers: from is "x"`},
		"no right":               {403, "application/json", "{}", "403 Forbidden; check --history-url"},
		"no pod":                 {503, "text/plain", "no endpoints", "503 Service"},
		"no table":               {404, "text/plain", "not found", "older than this plugin"},
		"a login":                {302, "text/html", "", "https://login.example"},
		"a password":             {401, "text/plain", "who?", "asks who comes"},
		"a page":                 {200, "text/html", "<html>", "check --history-url"},
		"a torn answer":          {200, "application/json", `[{"jobs":`, "read the answer"},
		"another type":           {200, "application/json", `{"jobs":"many"}`, "read the answer"},
		"too much":               {200, "application/json", `[{"repository":"` + strings.Repeat("a", 17<<20) + `"}]`, "more than 16 MiB"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", test.kind)
			w.Header().Set("Location", "https://login.example/?next=x")
			w.WriteHeader(test.code)
			_, _ = w.Write([]byte(test.body))
		}))
		from, err := ledger.At(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := from.Usage(t.Context(), nil); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %.500s, want %q", name, fmt.Sprint(err), test.want)
		}
		s.Close()
	}
}

// What the API server says in place of the ledger is told with whose step is next.
func TestPortsThatCannotBeForwarded(t *testing.T) {
	for name, test := range map[string]struct {
		code   int32
		reason metav1.StatusReason
		want   string
	}{
		"no right": {403, metav1.StatusReasonForbidden, "the Role harrier-history"},
		"no pod":   {404, metav1.StatusReasonNotFound, "whether the pod is ready"},
		"no node":  {500, metav1.StatusReasonInternalError, "kubectl port-forward -n system pod/ledger-0 8090 with --history-url http://localhost:8090"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/api/v1/namespaces/system/pods/ledger-0/portforward" {
				t.Errorf("%s: it asks for %s", name, r.URL)
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(int(test.code))
			_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
				Status: "Failure", Code: test.code, Reason: test.reason, Message: "no"})
		}))
		from, err := ledger.Find(t.Context(), cluster(""), &rest.Config{Host: s.URL, BearerToken: "secret"},
			ledger.Wanted{Namespace: "system", Pod: "ledger-0"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := from.Usage(t.Context(), nil); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
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
