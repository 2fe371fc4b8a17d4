package access_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/harrier-ci/harrier/internal/kube/kinds"
	"github.com/harrier-ci/harrier/operations/history/access"
	"github.com/harrier-ci/harrier/operations/history/databasetest"
	"github.com/harrier-ci/harrier/operations/history/ledger"
	"github.com/harrier-ci/harrier/operations/history/prices"
	"github.com/harrier-ci/harrier/operations/history/server"
)

const audience = "history.harrier-system.svc"

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// apiServer knows users by tokens, and what each may.
type apiServer struct {
	// ignorant servers know no audiences.
	ignorant, away bool
	reviews        int
}

// rights are namespaces in which somebody may get scale sets, "" for all, and what he may get besides.
var rights = map[string][]string{"alice": {"a"}, "bob": {"b"}, "ops": {""}, "boss": {access.EveryCluster}}

func (a *apiServer) create(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
	a.reviews++
	if a.away {
		return errors.New("connection refused")
	}
	switch review := object.(type) {
	case *authenticationv1.TokenReview:
		user, of, _ := strings.Cut(review.Spec.Token, "@")
		_, known := rights[user]
		review.Status.Authenticated = known && (a.ignorant || of == review.Spec.Audiences[0])
		review.Status.User.Username = user
		if !a.ignorant {
			review.Status.Audiences = review.Spec.Audiences
		}
	case *authorizationv1.SubjectAccessReview:
		for _, right := range rights[review.Spec.User] {
			if path := review.Spec.NonResourceAttributes; path != nil {
				review.Status.Allowed = path.Path == right && path.Verb == "get"
			} else if asked := review.Spec.ResourceAttributes; right != access.EveryCluster {
				review.Status.Allowed = (right == "" || right == asked.Namespace) && asked.Verb == "get" &&
					asked.Resource == "autoscalingrunnersets" && asked.Group == "actions.github.com"
			}
		}
	default:
		return fmt.Errorf("unexpected %T", object)
	}
	return nil
}

// open returns the API of a ledger with jobs of two namespaces and two clusters, for users whom a guard knows.
func open(t *testing.T, api *apiServer, proxy *access.Proxy) http.Handler {
	t.Helper()
	l, err := ledger.Open(t.Context(), databasetest.SQLite(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	for _, of := range []struct{ cluster, namespace string }{{"here", "a"}, {"here", "b"}, {"there", "a"}} {
		name := of.namespace + "-" + of.cluster
		err = errors.Join(err, l.Put(t.Context(), []ledger.Job{{RunnerUID: name, Cluster: of.cluster,
			Namespace: of.namespace, Set: "s", Runner: name, Name: "job-" + name, Repository: "acme/" + name, At: noon,
			Started: noon, Finished: noon.Add(time.Minute), CPURequestMillis: new(int64(1000))}}),
			l.PutSamples(t.Context(), []ledger.Sample{{Cluster: of.cluster, Namespace: of.namespace, Set: "set-" + name,
				At: noon}}))
	}
	if err = errors.Join(err, l.AddUp(t.Context())); err != nil {
		t.Fatal(err)
	}
	kube := fake.NewClientBuilder().WithScheme(kinds.Scheme()).
		WithInterceptorFuncs(interceptor.Funcs{Create: api.create}).Build()
	questions := server.Handler(server.Options{Ledger: &access.View{Ledger: l, Cluster: "here"}, Log: logr.Discard(),
		Sets: func() []ledger.Sample {
			return []ledger.Sample{{Cluster: "here", Namespace: "a", Set: "set-a-here", At: noon.Add(time.Minute)},
				{Cluster: "here", Namespace: "b", Set: "set-b-here", At: noon.Add(time.Minute)}}
		},
		Prices: ledger.Prices{{CPUHour: 60}}, Budgets: []prices.Budget{{Namespace: "a", PerMonth: 5}, {Namespace: "b", PerMonth: 5},
			{Repository: "acme/a-here", PerMonth: 5}, {Repository: "acme/a-there", PerMonth: 5}},
		Clock: clocktesting.NewFakePassiveClock(noon.Add(30 * time.Minute)), Registry: prometheus.NewRegistry()})
	return access.NewGuard(kube, "here", audience, proxy, logr.Discard()).Around(questions)
}

func ask(handler http.Handler, path string, header http.Header) *httptest.ResponseRecorder {
	request := httptest.NewRequest(http.MethodGet, path, nil)
	request.Host = "localhost"
	request.Header = header
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request)
	return answer
}

func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

// TestEverybodySeesWhatHeMay asks for every table as every user: none has a row of a namespace that he may not read, or
// of another cluster.
func TestEverybodySeesWhatHeMay(t *testing.T) {
	handler := open(t, &apiServer{}, nil)
	sees := map[string][]string{"alice": {"a-here"}, "bob": {"b-here"}, "ops": {"a-here", "b-here"},
		"boss": {"a-here", "b-here", "a-there"}}
	for user, may := range sees {
		for _, query := range []string{"", "namespace=a", "namespace=b", "namespace=a&cluster=here",
			"namespace=a&cluster=there", "cluster=there", "namespace=a&namespace=b", "namespace=%00a"} {
			for _, table := range []string{"jobs", "usage?by=job", "usage?by=repository", "usage?by=set", "waits?by=job", "sizes", "machines",
				"trends?by=job", "trends?by=repository", "trends?by=branch", "trends?by=set", "changes",
				"samples", "sets?from=1d", "jobs?runnerUID=a-here", "jobs?runnerUID=b-here", "jobs?runnerUID=a-there",
				"jobs/a-here", "jobs/b-here", "jobs/a-there"} {
				path := "/api/v1/" + table + map[bool]string{true: "&", false: "?"}[strings.Contains(table, "?")] + query
				answer := ask(handler, path, bearer(user+"@"+audience))
				for _, row := range []string{"a-here", "b-here", "a-there"} {
					if strings.Contains(answer.Body.String(), row) && !strings.Contains(strings.Join(may, " "), row) {
						t.Errorf("%s sees %s of %s: %s", user, row, path, answer.Body)
					}
				}
			}
		}
	}
	for path, want := range map[string]int{"jobs": http.StatusForbidden, "gaps?namespace=a": http.StatusOK, "gaps?namespace=b": http.StatusForbidden,
		"gaps": http.StatusForbidden, "jobs?namespace=a": http.StatusOK, "trends": http.StatusForbidden,
		"trends?namespace=a": http.StatusOK, "trends?namespace=b": http.StatusForbidden, "changes?namespace=a": http.StatusOK,
		"changes": http.StatusForbidden, "changes?namespace=b": http.StatusForbidden,
		"jobs?namespace=b": http.StatusForbidden, "jobs/a-here": http.StatusOK, "jobs/b-here": http.StatusNotFound,
		"jobs/a-there": http.StatusNotFound, "jobs?namespace=a&cluster=there": http.StatusForbidden} {
		answer := ask(handler, "/api/v1/"+path, bearer("alice@"+audience))
		if answer.Code != want {
			t.Errorf("%s for alice is %d: %s", path, answer.Code, answer.Body)
		}
	}
	var page ledger.Page
	answer := ask(handler, "/api/v1/jobs", bearer("boss@"+audience))
	if err := json.Unmarshal(answer.Body.Bytes(), &page); err != nil || len(page.Jobs) != 3 {
		t.Errorf("who may see all clusters sees %s", answer.Body)
	}
}

func TestOnlyTokensForTheLedgerOpenIt(t *testing.T) {
	for token, want := range map[string]int{"": 401, "alice": 401, "alice@other": 401, "mallory@" + audience: 401,
		"alice@" + audience: 200, strings.Repeat("x", 9<<10): 401} {
		if answer := ask(open(t, &apiServer{}, nil), "/api/v1/jobs?namespace=a", bearer(token)); answer.Code != want {
			t.Errorf("the token %.40q gives %d: %s", token, answer.Code, answer.Body)
		}
	}
	ignorant := ask(open(t, &apiServer{ignorant: true}, nil), "/api/v1/jobs?namespace=a", bearer("alice@"+audience))
	if ignorant.Code != http.StatusUnauthorized {
		t.Errorf("a server that knows no audiences opens it: %d", ignorant.Code)
	}
	away := ask(open(t, &apiServer{away: true}, nil), "/api/v1/jobs?namespace=a", bearer("alice@"+audience))
	if away.Code != http.StatusServiceUnavailable || strings.Contains(away.Body.String(), "refused") {
		t.Errorf("without the API server it answers %d: %s", away.Code, away.Body)
	}
}

// TestMadeUpTokensCostTheAPIServerLittle, and known ones are asked about once a minute.
func TestMadeUpTokensCostTheAPIServerLittle(t *testing.T) {
	api := &apiServer{}
	handler := open(t, api, nil)
	for range 20 {
		if answer := ask(handler, "/api/v1/jobs?namespace=a", bearer("alice@"+audience)); answer.Code != http.StatusOK {
			t.Fatal(answer.Body)
		}
	}
	if api.reviews != 3 { // whose token, all clusters, the namespace
		t.Errorf("20 questions of one user are %d reviews", api.reviews)
	}
	for i := range 100 {
		ask(handler, "/api/v1/jobs", bearer(fmt.Sprint("made-up-", i)))
	}
	if api.reviews > 3+10 {
		t.Errorf("100 made-up tokens are %d reviews", api.reviews-3)
	}
	if answer := ask(handler, "/api/v1/jobs?namespace=a", bearer("alice@"+audience)); answer.Code != http.StatusOK {
		t.Errorf("behind the same address a known user gets %d", answer.Code)
	}
}

func TestAProxyProvesItself(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("hidden\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	proxy := access.Proxy{UserHeader: "X-Forwarded-User", GroupsHeader: "X-Forwarded-Groups", SecretFile: file}
	header := func(secret string, users ...string) http.Header {
		return http.Header{access.SecretHeader: {secret}, "X-Forwarded-User": users}
	}
	handler := open(t, &apiServer{}, &proxy)
	for name, test := range map[string]struct {
		header http.Header
		want   int
	}{
		"the proxy": {header("hidden", "alice"), 200}, "another user": {header("hidden", "bob"), 403},
		"no secret": {header("", "alice"), 401}, "a wrong one": {header("hidden2", "alice"), 401},
		"nobody": {header("hidden"), 401}, "two": {header("hidden", "alice", "boss"), 401},
		"one of Kubernetes": {header("hidden", "system:admin"), 401}, "a token": {bearer("alice@" + audience), 401},
	} {
		if answer := ask(handler, "/api/v1/jobs?namespace=a", test.header); answer.Code != test.want {
			t.Errorf("%s: %d %s", name, answer.Code, answer.Body)
		}
	}
	proxy.SecretFile = ""
	certified := open(t, &apiServer{}, &proxy)
	for proven, want := range map[bool]int{false: 401, true: 200} {
		request := httptest.NewRequest(http.MethodGet, "/api/v1/jobs?namespace=a", nil)
		request.Host = "localhost"
		request.Header = header("", "alice")
		if request.TLS = (&tls.ConnectionState{}); proven {
			request.TLS.VerifiedChains = [][]*x509.Certificate{{}}
		}
		answer := httptest.NewRecorder()
		if certified.ServeHTTP(answer, request); answer.Code != want {
			t.Errorf("with a certificate (%t): %d", proven, answer.Code)
		}
	}
}

// TestNothingIsSeenWithoutAGrant: a way to the ledger that says of nobody who asks shows nothing.
func TestNothingIsSeenWithoutAGrant(t *testing.T) {
	view := &access.View{}
	_, err := view.Job(t.Context(), "uid")
	_, other := view.Sets(t.Context(), ledger.Filter{From: noon})
	for _, err := range []error{err, other} {
		if refused, is := errors.AsType[*access.RefusedError](err); !is || refused.Status != http.StatusForbidden {
			t.Errorf("%v", err)
		}
	}
}
