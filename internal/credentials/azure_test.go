package credentials_test

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/credentials"
)

// certificateFile has the certificate of Azure, which the manager's system trusts, with its key. It is the one of the
// vault's client, too.
var certificateFile string

// TestMain has the system trust the tests' Azure.
func TestMain(m *testing.M) {
	directory, err := os.MkdirTemp("", "azure")
	if err != nil {
		panic(err)
	}
	certificateFile = filepath.Join(directory, "azure.pem")
	if err := os.WriteFile(certificateFile, newCertificate(), 0o600); err != nil {
		panic(err)
	}
	if err := os.Setenv("SSL_CERT_FILE", certificateFile); err != nil {
		panic(err)
	}
	status := m.Run()
	_ = os.RemoveAll(directory)
	os.Exit(status)
}

func newCertificate() []byte {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		DNSNames: []string{"login.microsoftonline.com", "*.vault.azure.net"},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	var text bytes.Buffer
	for _, block := range []*pem.Block{
		{Type: "CERTIFICATE", Bytes: certificate}, {Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)},
	} {
		if err := pem.Encode(&text, block); err != nil {
			panic(err)
		}
	}
	return text.Bytes()
}

// azure is a proxy behind which there are Azure's authority and vaults, all with the same secrets.
type azure struct {
	proxy, servers *httptest.Server
	secrets        map[string]string
	// redirect, if set, is the answer of the authority.
	redirect string

	mu sync.Mutex
	// logins are the users and passwords that the proxy was given, and asked the hosts that were asked.
	logins, asked []string
}

func newAzure(t *testing.T, secrets map[string]string) *azure {
	t.Helper()
	a := &azure{secrets: secrets}
	certificate, err := tls.LoadX509KeyPair(certificateFile, certificateFile)
	if err != nil {
		t.Fatal(err)
	}
	a.servers = httptest.NewUnstartedServer(http.HandlerFunc(a.answer))
	a.servers.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	a.servers.StartTLS()
	t.Cleanup(a.servers.Close)
	a.proxy = httptest.NewServer(http.HandlerFunc(a.connect))
	t.Cleanup(a.proxy.Close)
	return a
}

func (a *azure) answer(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.asked = append(a.asked, r.Host)
	a.mu.Unlock()
	name, ofVault := strings.CutPrefix(r.URL.Path, "/secrets/")
	value, known := a.secrets[name]
	switch {
	case !ofVault && a.redirect != "":
		http.Redirect(w, r, a.redirect, http.StatusFound)
	case !ofVault:
		_, _ = io.WriteString(w, `{"access_token": "t"}`)
	case !known:
		w.WriteHeader(http.StatusNotFound)
	default:
		_ = json.NewEncoder(w).Encode(map[string]string{"value": value})
	}
}

// connect leads to Azure, whatever host is asked for.
func (a *azure) connect(w http.ResponseWriter, r *http.Request) {
	login, _ := strings.CutPrefix(r.Header.Get("Proxy-Authorization"), "Basic ")
	text, _ := base64.StdEncoding.DecodeString(login)
	a.mu.Lock()
	a.logins = append(a.logins, string(text))
	a.mu.Unlock()
	server, err := net.Dial("tcp", a.servers.Listener.Addr().String())
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer server.Close()
	client, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer client.Close()
	fmt.Fprint(client, "HTTP/1.1 200 Connected\r\n\r\n")
	go func() { _, _ = io.Copy(server, client) }() // ends with the connections
	_, _ = io.Copy(client, server)
}

// seen returns the users and passwords that the proxy was given, each a single time, and the number of requests.
func (a *azure) seen() (logins []string, requests int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Compact(slices.Clone(a.logins)), len(a.asked)
}

// reference is one to a secret of the vault, which is reached through the proxy.
func (a *azure) reference() credentials.Reference {
	reference := vaultReference()
	reference.Vault.Proxy = &v1alpha1.ProxyConfig{HTTPS: &v1alpha1.ProxyServerConfig{Url: a.proxy.URL}}
	return reference
}

// vaultReference is a reference to a secret of a vault, which is in Azure's public cloud.
func vaultReference() credentials.Reference {
	reference := githubReference()
	reference.GitHubConfigSecret = "in-vault"
	reference.Vault = &v1alpha1.VaultConfig{
		Type: v1alpha1.VaultTypeAzureKeyVault,
		AzureKeyVault: &v1alpha1.AzureKeyVaultConfig{
			URL: "https://v.vault.azure.net", TenantID: "tenant", ClientID: "client", CertificatePath: certificateFile,
		},
	}
	return reference
}
