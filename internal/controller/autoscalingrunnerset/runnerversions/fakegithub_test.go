package runnerversions_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/github/rest"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/runnerversions"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/feedback"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/pool"
)

// internet has the fake of GitHub at each of its names, behind a proxy that notes which hosts are connected to.
type internet struct {
	github      *fakegithub.Server
	clock       *clocktesting.FakeClock
	key         *rsa.PrivateKey // of the App 12
	options     actions.Options
	credentials actions.Credentials

	mu    sync.Mutex
	hosts []string
}

// newInternet starts it, on a day. permissions are those of the App, nil for all.
func newInternet(t *testing.T, day time.Time, permissions map[string]string) *internet {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	n := &internet{clock: clocktesting.NewFakeClock(day), key: key, credentials: actions.Credentials{Token: "pat"}}
	n.github = fakegithub.New(fakegithub.Options{Clock: n.clock, PATs: []string{"pat"}, Permissions: permissions,
		Apps: []fakegithub.App{{ID: "12", PublicKey: &key.PublicKey}}})
	server := httptest.NewUnstartedServer(n.github.Handler())
	var trusted *x509.CertPool
	server.TLS, trusted = certify(t, "api.github.com", "api.acme.ghe.com", "ghes.example.com")
	server.StartTLS()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.mu.Lock()
		n.hosts = append(n.hosts, r.Host)
		n.mu.Unlock()
		tunnel(w, server.Listener.Addr().String())
	}))
	t.Cleanup(func() { n.github.Close(); proxy.Close(); server.Close() })
	address, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	n.options = actions.Options{Clock: n.clock, RootCAs: trusted,
		Proxy: func(*http.Request) (*url.URL, error) { return address, nil }}
	return n
}

// certify returns a certificate for names, and who trusts it.
func certify(t *testing.T, names ...string) (*tls.Config, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: names, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true}
	made, err := x509.CreateCertificate(rand.Reader, form, form, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(made)
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(parsed)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{made}, PrivateKey: key}}}, trusted
}

// tunnel answers a CONNECT, whatever it asks for, with a connection to an address.
func tunnel(w http.ResponseWriter, address string) {
	there, err := net.Dial("tcp", address)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	here, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	_, _ = io.WriteString(here, "HTTP/1.1 200 Connection established\r\n\r\n")
	go func() { _, _ = io.Copy(there, here); _ = there.Close() }()
	go func() { _, _ = io.Copy(here, there); _ = here.Close() }()
}

// asApp has questions asked as the App.
func (n *internet) asApp() {
	n.credentials = actions.Credentials{App: &actions.AppCredentials{ID: "12", InstallationID: 7,
		PrivateKey: string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(n.key)}))}}
}

// sets are those of a manager.
type sets struct {
	*internet
	watcher *runnerversions.Watcher
	woken   chan struct{}
}

// manage returns a manager's watcher.
func (n *internet) manage(t *testing.T) *sets {
	t.Helper()
	calls := pool.New(pool.Limit, n.clock)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = calls.Start(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	s := &sets{internet: n, woken: make(chan struct{}, 16)}
	s.watcher = runnerversions.New(runnerversions.Options{
		REST: func(_ context.Context, of credentials.Reference) (*rest.Client, error) {
			client, err := actions.NewClient(of.GitHubConfigURL, n.credentials, n.options)
			if err != nil {
				return nil, err
			}
			return rest.New(client), nil
		},
		Budget: &feedback.Budget{},
	}, calls, n.clock, func(types.NamespacedName) { s.woken <- struct{}{} })
	return s
}

// newSet returns a set with an image at an address, whose credentials GitHub has accepted.
func newSet(name, configURL, image string) *v1alpha1.AutoscalingRunnerSet {
	set := &v1alpha1.AutoscalingRunnerSet{}
	set.Namespace, set.Name, set.Spec.GitHubConfigUrl = "team", name, configURL
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: v1alpha1.RunnerContainerName, Image: image}}
	set.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionCredentialsValid, Status: metav1.ConditionTrue}}
	return set
}

// look has a set observed until GitHub has answered what is due, and returns the last condition.
func (s *sets) look(set *v1alpha1.AutoscalingRunnerSet) metav1.Condition {
	for {
		var again time.Time
		known, condition := s.watcher.Observe(set, s.clock.Now(),
			func(at time.Time) { again = kube.EarlierOf(again, at) })
		set.Status.RunnerVersion, set.Status.Conditions = known, set.Status.Conditions[:1]
		if condition != nil {
			set.Status.Conditions = append(set.Status.Conditions, *condition)
		}
		if again.IsZero() || again.Sub(s.clock.Now()) > time.Minute {
			return set.Status.Conditions[len(set.Status.Conditions)-1]
		}
		<-s.woken // a question is on its way
	}
}

// asked returns how often an endpoint was called.
func (n *internet) asked(endpoint string) (times int) {
	for _, c := range n.github.Counters() {
		if c.Endpoint == endpoint {
			times += c.Count
		}
	}
	return times
}

// What GitHub answers over the wire leads to the right words: of an image that is fresh, of one 29 and 31 days after the
// next release, with and without the right to ask. Nobody but the set's own GitHub is spoken to.
func TestWhatGitHubOffersIsSaid(t *testing.T) {
	day := time.Date(2026, time.November, 28, 12, 0, 0, 0, time.UTC)
	next := func(days int) time.Time { return day.Add(-time.Duration(days) * 24 * time.Hour) }
	const hosted, residency, server = "https://github.com/acme", "https://acme.ghe.com/acme", "https://ghes.example.com/acme"
	for name, test := range map[string]struct {
		url, image string
		// the next release is so many days old, and GitHub answers the question for downloads with refusal, if any
		age, refusal         int
		app                  bool
		reason, says         string
		downloads, published int
	}{
		"fresh":                         {hosted, "runner:2.339.0", 29, 0, false, "", "", 1, 1},
		"29 days":                       {hosted, "runner:2.338.0", 29, 0, false, "Soon", "on 2026-11-29 GitHub stops giving jobs to runner version 2.338.0", 1, 1},
		"31 days":                       {hosted, "runner:2.338.0", 31, 0, false, "Refused", "since 2026-11-27 GitHub refuses runner version 2.338.0", 1, 1},
		"29 days, a repository":         {hosted + "/app", "runner:2.338.0", 29, 0, false, "Soon", "on 2026-11-29", 1, 1},
		"29 days, an enterprise":        {"https://github.com/enterprises/acme", "runner:2.338.0", 29, 0, false, "Soon", "on 2026-11-29", 1, 1},
		"29 days, an App":               {hosted, "runner:2.338.0", 29, 0, true, "Soon", "on 2026-11-29", 1, 1},
		"31 days, without the right":    {hosted, "runner:2.338.0", 31, 403, false, "Refused", "since 2026-11-27", 1, 1},
		"31 days, not found":            {hosted, "runner:2.338.0", 31, 404, false, "Refused", "since 2026-11-27", 1, 1},
		"the list of the build":         {residency, "runner:2.337.0", 29, 403, false, "Refused", "since 2026-11-04 GitHub refuses runner version 2.337.0", 1, 0},
		"data residency, first seen":    {residency, "runner:2.338.0", 31, 0, false, "", "", 1, 0},
		"Enterprise Server":             {server, "runner:2.338.0", 31, 0, false, "", "", 1, 0},
		"Enterprise Server, an old one": {server, "runner:2.330.0", 31, 404, false, "", "", 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			n := newInternet(t, day, nil)
			n.github.ReleaseRunner("2.339.0", next(test.age))
			if test.refusal != 0 {
				if _, err := n.github.AddFault(fakegithub.Fault{Endpoint: "runner-downloads", Status: test.refusal,
					Body: `{"message":"Resource not accessible by personal access token"}`}); err != nil {
					t.Fatal(err)
				}
			}
			if test.app {
				n.asApp()
			}
			got := n.manage(t).look(newSet("linux", test.url, test.image))
			if test.reason == "" && got.Type == v1alpha1.ConditionRunnerVersionExpires {
				t.Errorf("says %+v, want nothing", got)
			}
			if test.reason != "" && (got.Reason != test.reason || !strings.HasPrefix(got.Message, test.says)) {
				t.Errorf("says %+v, want %s: %s", got, test.reason, test.says)
			}
			if downloads, published := n.asked("runner-downloads"), n.asked("runner-releases"); downloads != test.downloads ||
				published != test.published {
				t.Errorf("asked for downloads %d times and for releases %d times", downloads, published)
			}
			own, _ := url.Parse(test.url)
			if test.url != server {
				own.Host = "api." + own.Host
			}
			n.mu.Lock()
			defer n.mu.Unlock()
			if slices.ContainsFunc(n.hosts, func(host string) bool { return host != own.Host+":443" }) {
				t.Errorf("connected to %q", n.hosts)
			}
		})
	}
}

// A version that is offered for longer than 30 days ends, also where nobody says when it was released. GitHub is asked
// once in twelve hours, and an App without the permission learns nothing.
func TestQuestionsOverTime(t *testing.T) {
	day := time.Date(2026, time.November, 28, 12, 0, 0, 0, time.UTC)
	n := newInternet(t, day, nil)
	n.github.ReleaseRunner("2.339.0", day.Add(-time.Hour))
	here, set := n.manage(t), newSet("linux", "https://acme.ghe.com/acme", "runner:2.338.0")
	for range 32 * 24 {
		here.look(set)
		n.clock.Step(time.Hour)
	}
	if got := here.look(set); got.Reason != "Refused" || !strings.Contains(got.Message, "first seen") {
		t.Errorf("says %+v", got)
	}
	if asked := n.asked("runner-downloads"); asked != 32*2+1 {
		t.Errorf("asked %d times in 32 days, want once in twelve hours", asked)
	}

	n = newInternet(t, day, map[string]string{"checks": "write"})
	n.asApp()
	set = newSet("linux", "https://acme.ghe.com/acme", "runner:2.338.0")
	if got := n.manage(t).look(set); got.Type == v1alpha1.ConditionRunnerVersionExpires || n.asked("runner-downloads") != 1 {
		t.Errorf("without the permission: %+v", got)
	}
}

// The answer for an address is kept as long as a set has it, and no longer: sets come and go for years.
func TestAnswersAreForgottenWithTheLastSet(t *testing.T) {
	n := newInternet(t, time.Date(2026, time.November, 28, 12, 0, 0, 0, time.UTC), nil)
	here, url := n.manage(t), "https://github.com/acme"
	a, b := newSet("a", url, "runner:2.338.0"), newSet("b", url, "runner:2.338.0")
	here.look(a)
	here.look(b)
	here.look(newSet("c", url, "runner:2.338.0"))
	if asked := n.asked("runner-downloads"); asked != 1 {
		t.Errorf("asked %d times for three sets of one address, want once", asked)
	}
	key := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "team", Name: name} }
	here.watcher.Forget(key("a"))
	here.watcher.Forget(key("c"))
	here.look(newSet("d", url, "runner:2.338.0"))
	if asked := n.asked("runner-downloads"); asked != 1 {
		t.Errorf("asked %d times while a set has the address, want once", asked)
	}
	here.watcher.Forget(key("d"))
	b.Spec.GitHubConfigUrl = url + "/app" // the last one leaves the address
	here.look(b)
	here.look(newSet("e", url, "runner:2.338.0"))
	if asked := n.asked("runner-downloads"); asked != 3 {
		t.Errorf("asked %d times, want once more for each of two addresses", asked)
	}
	deleted := newSet("e", url, "runner:2.338.0")
	deleted.DeletionTimestamp = new(metav1.NewTime(n.clock.Now()))
	here.watcher.Observe(deleted, n.clock.Now(), func(time.Time) {})
	here.look(newSet("f", url, "runner:2.338.0"))
	if asked := n.asked("runner-downloads"); asked != 4 {
		t.Errorf("asked %d times, want once more after a deletion", asked)
	}
}

func TestNothingIsLeftOfSetsThatAreGone(t *testing.T) {
	watcher := runnerversions.New(runnerversions.Options{}, pool.New(pool.Limit, clock.RealClock{}), clock.RealClock{},
		func(types.NamespacedName) {})
	now := time.Now()
	controllertest.WantNothingLeft(t, func(i int) {
		set := newSet(strconv.Itoa(i), "https://github.com/acme/first-"+strconv.Itoa(i), "runner:latest")
		watcher.Observe(set, now, func(time.Time) {})
		set.Spec.GitHubConfigUrl = "https://github.com/acme/second-" + strconv.Itoa(i)
		watcher.Observe(set, now, func(time.Time) {})
		watcher.Forget(types.NamespacedName{Namespace: set.Namespace, Name: set.Name})
	})
}
