package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"

	"github.com/harrier-ci/harrier/hack/site"
	"github.com/harrier-ci/harrier/internal/fakegithub"
)

// Only the ConfigMap makes anybody trust this GitHub's certificate: a job runs only if manager, listener and runner use
// it.
func TestGitHubServerWithAnAuthorityOfItsOwn(t *testing.T) {
	t.Parallel()
	github, authority := serveTLS(t, nodeAddress(t))
	s := prepare(t, github, "authority", 1, 2)
	s.trust(authority, "/usr/local/share/ca-certificates/")
	s.install()
	s.awaitIdle(1)
	s.awaitSuccess(s.queue(2, time.Second))
}

// serveTLS serves a GitHub of the test's own by HTTPS, as the host, and returns the certificates to trust (PEM).
func serveTLS(t *testing.T, host string) (github *fakegithub.ControlClient, authority []byte) {
	t.Helper()
	authority, key, err := cert.GenerateSelfSignedCertKey(host, []net.IP{net.ParseIP(nodeAddress(t))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(authority, key)
	if err != nil {
		t.Fatal(err)
	}
	github = serve(t,
		fakegithub.Options{TLS: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}})
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	github.HTTP = &http.Client{Transport: transport}
	return github, authority
}

// trust makes the ConfigMap and has the chart give it to controller, listener and, below the directory, runners.
func (s *scaleSet) trust(authority []byte, runnerMountPath string) {
	s.t.Helper()
	const name, key = "github-server-ca", "ca.crt"
	s.makeNamespace()
	s.create(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Data:       map[string]string{key: string(authority)},
	})
	s.values["githubServerTLS"] = site.Values{
		"certificateFrom": site.Values{"configMapKeyRef": site.Values{"name": name, "key": key}},
		"runnerMountPath": runnerMountPath,
	}
}
