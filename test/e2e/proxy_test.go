package e2e

import (
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/hack/site"
	"github.com/harrier-ci/harrier/internal/fakegithub"
)

// hiddenHost has no address that anybody but the proxy knows. So a successful job shows that manager, listener and
// runner all used the proxy.
const hiddenHost = "github.example.test"

func TestProxyWithoutCredentials(t *testing.T) {
	t.Parallel()
	github := serve(t, fakegithub.Options{})
	p := startProxy(t, github.BaseURL, nil)
	s := prepare(t, github, "proxy", 1, 2)
	s.values["githubConfigUrl"] = "http://" + hiddenHost + "/" + site.Organization
	s.values["proxy"] = site.Values{"http": site.Values{"url": p.url}}
	s.install()
	s.awaitIdle(1)
	s.awaitSuccess(s.queue(2, time.Second))
	p.expectGitHubOnly(t)
}

func TestProxyWithCredentials(t *testing.T) {
	t.Parallel()
	const password = "pass:word@with/signs"
	github, authority := serveTLS(t, hiddenHost)
	p := startProxy(t, github.BaseURL, url.UserPassword("runners", password))
	s := prepare(t, github, "proxy-login", 1, 2)
	s.trust(authority, "/etc/github-ca")
	s.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "proxy-credentials"},
		StringData: map[string]string{"username": "runners", "password": password},
	})
	s.values["githubConfigUrl"] = "https://" + hiddenHost + "/" + site.Organization
	s.values["proxy"] = site.Values{"https": site.Values{"url": p.url, "credentialSecretRef": "proxy-credentials"}}
	s.install()
	s.awaitIdle(1)
	s.awaitSuccess(s.queue(2, time.Second))
	p.expectGitHubOnly(t)
	s.awaitIdle(1) // pods of runners are looked into
	s.seekInSight(url.QueryEscape(password))
}

// proxy forwards to one GitHub, whatever its host is called, by tunnels (CONNECT) or requests in absolute form.
type proxy struct {
	url    string
	github *url.URL
	login  string

	mutex    sync.Mutex
	hosts    []string
	forwards int
}

// startProxy serves where pods reach it. With a user it answers 407 to everybody else.
func startProxy(t *testing.T, github string, user *url.Userinfo) *proxy {
	t.Helper()
	target, err := url.Parse(github)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(nodeAddress(t), "0"))
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{url: "http://" + listener.Addr().String(), github: target}
	if user != nil {
		password, _ := user.Password()
		p.login = "Basic " + base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password))
	}
	server := &http.Server{Handler: p, ReadHeaderTimeout: limit}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return p
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Proxy-Authorization") != p.login {
		w.Header().Set("Proxy-Authenticate", "Basic")
		w.WriteHeader(http.StatusProxyAuthRequired)
		return
	}
	p.note(r.URL.Hostname())
	if r.Method == http.MethodConnect {
		p.tunnel(w)
		return
	}
	(&httputil.ReverseProxy{Rewrite: func(out *httputil.ProxyRequest) {
		out.Out.URL.Host = p.github.Host
		out.Out.Host = out.In.Host
	}}).ServeHTTP(w, r)
}

func (p *proxy) note(host string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.forwards++
	if !slices.Contains(p.hosts, host) {
		p.hosts = append(p.hosts, host)
	}
}

// tunnel connects both ends until one of them closes.
func (p *proxy) tunnel(w http.ResponseWriter) {
	there, err := net.Dial("tcp", p.github.Host)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer there.Close()
	here, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer here.Close()
	if _, err := here.Write([]byte("HTTP/1.1 200 OK\r\n\r\n")); err != nil {
		return
	}
	go func() {
		defer there.Close()
		_, _ = io.Copy(there, buffered)
	}()
	_, _ = io.Copy(here, there)
}

// expectGitHubOnly: nobody asked the proxy for anything else, such as the API server.
func (p *proxy) expectGitHubOnly(t *testing.T) {
	t.Helper()
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.forwards == 0 || !slices.Equal(p.hosts, []string{hiddenHost}) {
		t.Errorf("the proxy was asked %d times, for %v; want some, and %s only", p.forwards, p.hosts, hiddenHost)
	}
}
