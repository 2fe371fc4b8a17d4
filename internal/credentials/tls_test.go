package credentials_test

import (
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials"
)

func withCA(key string, optional bool) credentials.Reference {
	reference := githubReference()
	reference.TLS = &v1alpha1.TLSConfig{CertificateFrom: &v1alpha1.TLSCertificateSource{
		ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "ca"},
			Key:                  key,
			Optional:             &optional,
		},
	}}
	return reference
}

func TestCertificateAuthoritiesAreAddedToTheSystems(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	text := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	f := newFixture(t)
	f.store.configMaps[client.ObjectKey{
		Namespace: "runners",
		Name:      "ca",
	}] = map[string]string{"ca.crt": text, "bad": "s3cret"}

	resolved, err := f.Resolve(t.Context(), withCA("ca.crt", false))
	if err != nil || resolved.RootCAs != text {
		t.Fatalf("got %v, %v", resolved, err)
	}
	pool, err := actions.CertPool(resolved.RootCAs)
	if err != nil {
		t.Fatal(err)
	}
	transport := server.Client().Transport.(*http.Transport)
	transport.TLSClientConfig.RootCAs = pool
	response, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatalf("the server's certificate is not trusted: %v", err)
	}
	_ = response.Body.Close()
	f.mustClient(t, withCA("ca.crt", false))

	_, err = f.Resolve(t.Context(), withCA("bad", false))
	var invalid *credentials.InvalidError
	if !errors.As(err, &invalid) {
		t.Fatalf("got %v", err)
	}
	mustName(t, err, "ConfigMap runners/ca", "bad")
	mustNotLeak(t, err)
}

func TestMissingCertificateAuthorities(t *testing.T) {
	f := newFixture(t)
	_, err := f.Resolve(t.Context(), withCA("ca.crt", false))
	mustName(t, err, "ConfigMap runners/ca", "create it")
	if _, err := f.Resolve(t.Context(), withCA("ca.crt", true)); err != nil {
		t.Errorf("an optional one is missed: %v", err)
	}
	f.store.configMaps[client.ObjectKey{Namespace: "runners", Name: "ca"}] = map[string]string{}
	_, err = f.Resolve(t.Context(), withCA("other.crt", false))
	mustName(t, err, "other.crt", "add it")
}
