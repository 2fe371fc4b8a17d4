package cluster

import (
	"crypto/x509"
	"encoding/pem"
	"net"
	"os"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

func parse(t *testing.T, encoded []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(encoded)
	if block == nil {
		t.Fatalf("no PEM: %q", encoded)
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

func TestServersAndClientsAreVerifiedByTheAuthority(t *testing.T) {
	now := time.Now()
	signer, err := newAuthority(now)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parse(t, signer.certificate))
	for name, each := range map[string]struct {
		who    identity
		usage  x509.ExtKeyUsage
		wanted bool
	}{
		"server as server": {identity{name: "s", names: []string{"api"}}, x509.ExtKeyUsageServerAuth, true},
		"server as client": {identity{name: "s", addresses: []net.IP{net.IPv4(192, 0, 2, 1)}}, x509.ExtKeyUsageClientAuth, false},
		"client as client": {identity{name: "c", groups: []string{"g"}}, x509.ExtKeyUsageClientAuth, true},
		"client as server": {identity{name: "c"}, x509.ExtKeyUsageServerAuth, false},
	} {
		pair, err := signer.issue(each.who)
		if err != nil {
			t.Fatal(err)
		}
		_, err = parse(t, pair.certificate).Verify(x509.VerifyOptions{
			Roots: roots, KeyUsages: []x509.ExtKeyUsage{each.usage}, CurrentTime: now.Add(validity / 2),
		})
		if (err == nil) != each.wanted {
			t.Errorf("%s: verification gives %v", name, err)
		}
	}
}

func TestCredentialsFitEachOther(t *testing.T) {
	l := layout{dir: t.TempDir()}
	if err := writeCredentials(l, "192.0.2.7", "https://192.0.2.7:17443"); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", l.kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != "https://192.0.2.7:17443" {
		t.Errorf("kubeconfig leads to %s", config.Host)
	}
	admin := parse(t, config.CertData)
	if len(admin.Subject.Organization) != 1 || admin.Subject.Organization[0] != "system:masters" {
		t.Errorf("administrator is in groups %q", admin.Subject.Organization)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(config.CAData)
	encoded, err := os.ReadFile(l.pki("apiserver.crt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"192.0.2.7", "127.0.0.1", apiServiceAddress, "kubernetes.default.svc"} {
		if _, err := parse(t, encoded).Verify(x509.VerifyOptions{Roots: roots, DNSName: name}); err != nil {
			t.Errorf("API server as %s: %v", name, err)
		}
	}
	info, err := os.Stat(l.pki("ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("key of the authority has mode %v", info.Mode())
	}
}
