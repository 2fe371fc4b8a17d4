package actions

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestCertPool(t *testing.T) {
	if pool, err := CertPool(""); pool != nil || err != nil {
		t.Errorf("without PEM: %v, %v; want nil, which means the system's", pool, err)
	}
	if pool, err := CertPool("no PEM"); pool != nil || !errors.Is(err, ErrNoCertificate) {
		t.Errorf("without a certificate: %v, %v; want ErrNoCertificate", pool, err)
	}
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	own := server.Certificate()
	pool, err := CertPool(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Raw})))
	if err != nil {
		t.Fatal(err)
	}
	system, err := x509.SystemCertPool()
	if err != nil {
		t.Fatal(err)
	}
	system.AddCert(own)
	if !pool.Equal(system) {
		t.Error("the pool is not the system's certificates and the given one")
	}
}
