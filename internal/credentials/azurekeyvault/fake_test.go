package azurekeyvault_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1" // as the product code
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v4"

	"github.com/harrier-ci/harrier/internal/credentials/azurekeyvault"
)

// azure is an authority and a vault in one server. It verifies assertions as Entra does.
type azure struct {
	*httptest.Server
	certificate *x509.Certificate
	secrets     map[string]string
	// refusal, if set, writes the vault's answer.
	refusal func(http.ResponseWriter)
}

func newAzure(t *testing.T) *azure {
	t.Helper()
	a := &azure{certificate: identity().certificate, secrets: map[string]string{}}
	routes := http.NewServeMux()
	routes.HandleFunc("POST /tenant/oauth2/v2.0/token", a.token)
	routes.HandleFunc("GET /secrets/{name}", a.secret)
	a.Server = httptest.NewTLSServer(routes)
	t.Cleanup(a.Close)
	return a
}

func (a *azure) vault(t *testing.T) azurekeyvault.Vault {
	t.Helper()
	return azurekeyvault.Vault{
		URL: a.URL + "/", TenantID: "tenant", ClientID: "client", CertificatePath: writeFile(t, identity().pem),
		HTTP: a.Client(), Authority: a.URL,
	}
}

func (a *azure) token(w http.ResponseWriter, r *http.Request) {
	if problem := a.problemOf(r); problem != "" {
		w.WriteHeader(http.StatusUnauthorized)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": "invalid_client", "error_description": problem})
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"access_token": "token-for-" + r.FormValue("scope"),
		"expires_in":   3599,
	})
}

func (a *azure) problemOf(r *http.Request) string {
	claims := jwt.RegisteredClaims{}
	token, err := jwt.ParseWithClaims(r.FormValue("client_assertion"), &claims, func(*jwt.Token) (any, error) {
		return a.certificate.PublicKey, nil
	})
	if err != nil {
		return "AADSTS700027: " + err.Error()
	}
	thumbprint := sha1.Sum(a.certificate.Raw)
	switch {
	case token.Header["x5t"] != base64.RawURLEncoding.EncodeToString(thumbprint[:]):
		return "unknown certificate"
	case claims.Issuer != "client" || claims.Subject != "client" || r.FormValue("client_id") != "client":
		return "wrong client"
	case !claims.VerifyAudience(a.URL+"/tenant/oauth2/v2.0/token", true):
		return "wrong audience"
	case claims.ExpiresAt.Sub(claims.NotBefore.Time) > 10*time.Minute || claims.ID == "":
		return "wrong lifetime or no id"
	case r.FormValue("grant_type") != "client_credentials":
		return "wrong grant"
	}
	return ""
}

func (a *azure) secret(w http.ResponseWriter, r *http.Request) {
	value, known := a.secrets[r.PathValue("name")]
	switch {
	case a.refusal != nil:
		a.refusal(w)
	case r.Header.Get("Authorization") != "Bearer token-for-https://vault.azure.net/.default":
		w.WriteHeader(http.StatusUnauthorized)
	case r.FormValue("api-version") == "":
		w.WriteHeader(http.StatusBadRequest)
	case !known:
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(
			`{"error":{"code":"SecretNotFound","message":"A secret with (name/id) x was not found"}}`,
		))
	default:
		_ = json.NewEncoder(w).Encode(map[string]string{"value": value, "id": a.URL})
	}
}

// credential is a certificate with its key.
type credential struct {
	certificate *x509.Certificate
	key         *rsa.PrivateKey
	pem         []byte
}

// identity is generated once, because generating a key takes a while.
var identity = sync.OnceValue(newCredential)

func newCredential() credential {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return credential{
		certificate: certificate,
		key:         key,
		pem:         append(pemOf("CERTIFICATE", der), pemOf("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key))...),
	}
}

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func writeFile(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "client.pem")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
