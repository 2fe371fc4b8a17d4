package main

import (
	"bytes"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
)

// An image must trust the same authorities wherever it is built.
func TestTheImagesAuthoritiesAreNotTheMachines(t *testing.T) {
	mine := filepath.Join(t.TempDir(), "mine.crt")
	if err := os.WriteFile(mine, []byte("of this machine"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", mine)
	var written bytes.Buffer
	if err := writeAuthorities(&written); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(written.Bytes(), []byte("of this machine")) {
		t.Error("the machine's certificates are among them")
	}
	if !x509.NewCertPool().AppendCertsFromPEM(written.Bytes()) {
		t.Error("no certificate can be read back")
	}
	if count := bytes.Count(written.Bytes(), []byte("BEGIN CERTIFICATE")); count < 100 {
		t.Errorf("%d authorities; Mozilla has more than 100", count)
	}
}
