package failpoints

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// internet leads requests to GitHub, to an Azure Key Vault, or to the authority that lets in there.
type internet struct{ github http.RoundTripper }

func (i internet) RoundTrip(r *http.Request) (*http.Response, error) {
	switch host := r.URL.Host; {
	case host == gitHubHost:
		return i.github.RoundTrip(r)
	case r.Body != nil:
		_ = r.Body.Close()
	}
	switch {
	case strings.HasSuffix(r.URL.Path, "/oauth2/v2.0/token"):
		return respond(r, http.StatusOK, `{"access_token":"access"}`), nil
	case r.URL.Path == "/secrets/github" && r.Header.Get("Authorization") == "Bearer access":
		return respond(r, http.StatusOK, `{"value":"{\"github_token\":\"token\"}"}`), nil
	}
	return respond(r, http.StatusNotFound, ""), nil
}

// vaulted is a life with credentials that are in a vault and in no Secret.
func vaulted(w *world) {
	set := w.set(2, func(set *v1alpha1.AutoscalingRunnerSet) {
		set.Spec.VaultConfig = &v1alpha1.VaultConfig{
			Type: v1alpha1.VaultTypeAzureKeyVault, AzureKeyVault: &v1alpha1.AzureKeyVaultConfig{
				URL: "https://harrier.vault.azure.net", TenantID: "tenant", ClientID: "client",
				CertificatePath: w.certificate(),
			},
		}
	})
	w.create(set)
	if !w.listens() {
		return
	}
	w.queue(2, time.Minute)
	if !w.done() {
		return
	}
	w.rest()
	w.uninstall(set)
}

// certificate writes the file by which the manager proves itself to the vault.
func (w *world) certificate() string {
	path := filepath.Join(w.t.TempDir(), "client.pem")
	if err := os.WriteFile(path, identity(), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// identity is a certificate with its key. Both are made a single time: that takes as long as a whole play.
var identity = sync.OnceValue(func() []byte {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err) // the machine has no random numbers
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().AddDate(1, 0, 0)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	return append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
		pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})...)
})
