package actions_test

import (
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/harrier-ci/harrier/github/actions"
)

// The environment's proxy is used if none is set. github.localhost is a hosted name for which Go uses
// proxies, so this also tests the hosted flow.
func TestProxyOfTheEnvironment(t *testing.T) {
	s := newServer(t)
	s.on("POST /orgs/acme/actions/runners/registration-token", reply{
		status: 201,
		body:   `{"token":"` + testRegistration + `"}`,
	})
	s.on("POST /actions/runner-registration", reply{do: s.register})
	s.on(getSetCall, reply{body: `{"id":7}`})
	t.Setenv("http_proxy", strings.Replace(s.URL, "http://", "http://me:hunter2@", 1))
	t.Setenv("no_proxy", "")
	token := actions.Credentials{Token: testToken}
	client, err := actions.NewClient("http://github.localhost/acme", token, actions.Options{
		Clock:  s.clock,
		Logger: s.log(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	if _, err := client.GetRunnerScaleSetByID(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	register := s.only("POST /actions/runner-registration")
	if got, want := register.header.Get("Proxy-Authorization"),
		"Basic "+base64.StdEncoding.EncodeToString([]byte("me:hunter2")); got != want {
		t.Errorf("Proxy-Authorization %q, want %q", got, want)
	}
	if strings.Contains(s.logText(), "hunter2") {
		t.Errorf("the proxy's password was logged: %s", s.logText())
	}
}

// A proxy that is set takes precedence over the environment's.
func TestProxyThatIsSet(t *testing.T) {
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	s := newServer(t)
	s.on(getSetCall, reply{body: `{"id":7}`})
	var asked atomic.Int32
	client := s.client(func(o *actions.Options) {
		o.Proxy = func(*http.Request) (*url.URL, error) { asked.Add(1); return nil, nil }
	})
	if _, err := client.GetRunnerScaleSetByID(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	if asked.Load() == 0 {
		t.Error("the proxy function was not asked")
	}
}

func TestProxyTroubleHidesItsPassword(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusProxyAuthRequired)
		fmt.Fprint(w, "you sent ", r.Header.Get("Authorization"))
	}))
	defer refusing.Close()
	for name, proxy := range map[string]func(*http.Request) (*url.URL, error){
		"away": http.ProxyURL(&url.URL{
			Scheme: "http",
			Host:   closed.Addr().String(),
			User:   url.UserPassword("me", "hunter2"),
		}),
		"SOCKS": http.ProxyURL(&url.URL{
			Scheme: "socks5",
			Host:   closed.Addr().String(),
			User:   url.UserPassword("me", "hunter2"),
		}),
		"unknown": http.ProxyURL(&url.URL{
			Scheme: "gopher",
			Host:   closed.Addr().String(),
			User:   url.UserPassword("me", "hunter2"),
		}),
		"refusing": http.ProxyURL(&url.URL{
			Scheme: "http",
			Host:   refusing.Listener.Addr().String(),
			User:   url.UserPassword("me", "hunter2"),
		}),
		"invalid": func(*http.Request) (*url.URL, error) {
			return url.Parse("http://me:hunter2@proxy:port")
		},
	} {
		for _, scheme := range []string{"http", "https"} {
			s := newServer(t)
			var reported strings.Builder
			var mu sync.Mutex
			token := actions.Credentials{Token: testToken}
			client, err := actions.NewClient(scheme+"://ghes.invalid/acme", token, actions.Options{
				Clock: s.clock, Logger: s.log(), Proxy: proxy,
				OnRequest: func(info actions.RequestInfo) {
					mu.Lock()
					defer mu.Unlock()
					fmt.Fprintln(&reported, info.Err)
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.GetRunnerScaleSetByID(t.Context(), 7)
			if err == nil {
				t.Fatalf("%s, %s: no error", name, scheme)
			}
			for where, text := range map[string]string{
				"error":  err.Error(),
				"log":    s.logText(),
				"report": reported.String(),
			} {
				for _, secret := range []string{"hunter2", testToken} {
					if strings.Contains(text, secret) {
						t.Errorf("%s, %s: a secret is in the %s: %s", name, scheme, where, text)
					}
				}
			}
			if name == "invalid" && strings.Count(reported.String(), "\n") != 1 {
				t.Errorf("an invalid proxy URL was tried again:\n%s", reported.String())
			}
		}
	}
}

// Only the given certificate authorities are trusted, and a call that fails because of an unknown one is not repeated.
func TestCertificateAuthorities(t *testing.T) {
	s := newServer(t)
	secure := httptest.NewUnstartedServer(s)
	secure.EnableHTTP2 = true
	secure.Config.ErrorLog = discardLog
	secure.StartTLS()
	defer secure.Close()
	s.Server.URL = secure.URL // the service's address in answers
	s.on(getSetCall, reply{body: `{"id":7}`})
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate())
	trusting := s.client(func(o *actions.Options) { o.RootCAs = roots })
	if _, err := trusting.GetRunnerScaleSetByID(t.Context(), 7); err != nil {
		t.Errorf("with its authority: %v", err)
	}

	attempts := 0
	stranger := s.client(func(o *actions.Options) { o.OnRequest = func(actions.RequestInfo) { attempts++ } })
	_, err := stranger.GetRunnerScaleSetByID(t.Context(), 7)
	var unknown x509.UnknownAuthorityError
	if !errors.As(err, &unknown) {
		t.Errorf("without: got %v, want x509.UnknownAuthorityError", err)
	}
	if attempts != 1 {
		t.Errorf("%d attempts, want 1", attempts)
	}
}

func TestConnectionsAreReused(t *testing.T) {
	s := newServer(t)
	var opened atomic.Int32
	counting := httptest.NewUnstartedServer(s)
	counting.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	counting.Start()
	defer counting.Close()
	s.Server.URL = counting.URL

	var together sync.WaitGroup
	s.on("GET "+runnersURL+"/1", reply{do: func(w http.ResponseWriter, r *http.Request) {
		together.Done()
		together.Wait() // so that all calls of a burst are in flight at the same time
		reply{body: `{"id":1}`}.write(w, r)
	}})
	// Failures must not cost the others their connections either.
	s.on("GET "+runnersURL+"/2", reply{status: 404, body: strings.Repeat("gone", 10000)})
	client := s.connected()
	for range 3 {
		together.Add(maxConcurrentCalls)
		var calls sync.WaitGroup
		for range maxConcurrentCalls {
			calls.Go(func() {
				if _, err := client.GetRunner(t.Context(), 1); err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
		if _, err := client.GetRunner(t.Context(), 2); !errors.Is(err, actions.ErrRunnerNotFound) {
			t.Errorf("got %v, want ErrRunnerNotFound", err)
		}
	}
	// A connection may be handed back a moment after its call returned, so that the next burst dials a few more.
	if got := opened.Load(); got > 2*maxConcurrentCalls {
		t.Errorf("%d connections for %d calls at a time", got, maxConcurrentCalls)
	}
}

func TestRedirectIsFollowedWithItsBody(t *testing.T) {
	s := newServer(t)
	s.on("POST "+scaleSetsURL, reply{status: 307, header: map[string]string{"Location": "/elsewhere"}})
	s.on("POST /elsewhere", reply{body: `{"id":7}`})
	if _, err := s.client().CreateRunnerScaleSet(t.Context(), &actions.RunnerScaleSet{Name: "big"}); err != nil {
		t.Fatal(err)
	}
	if got, want := s.only("POST /elsewhere").body, s.only("POST "+scaleSetsURL).body; got != want || got == "" {
		t.Errorf("redirected with body %q, want %q", got, want)
	}
}
