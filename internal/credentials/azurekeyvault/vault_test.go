package azurekeyvault_test

import (
	"crypto/x509"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
	"software.sslmate.com/src/go-pkcs12"

	"github.com/harrier-ci/harrier/internal/credentials/azurekeyvault"
)

func TestSecret(t *testing.T) {
	server := newAzure(t)
	server.secrets["github"] = `{"github_token":"abc"}`
	got, err := server.vault(t).Secret(t.Context(), "github")
	if err != nil || got != `{"github_token":"abc"}` {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := server.vault(t).Secret(t.Context(), "gone"); !errors.Is(err, azurekeyvault.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
}

func TestRefusals(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(*azure, *azurekeyvault.Vault)
		status  int
		message string
	}{
		"the authority doesn't know the certificate": {
			change: func(_ *azure, v *azurekeyvault.Vault) { v.CertificatePath = writeFile(t, newCredential().pem) },
			status: http.StatusUnauthorized, message: "AADSTS700027",
		},
		"the assertion has expired": {
			change: func(_ *azure, v *azurekeyvault.Vault) {
				v.Clock = clocktesting.NewFakePassiveClock(time.Now().Add(-time.Hour))
			},
			status: http.StatusUnauthorized, message: "expired",
		},
		"the vault forbids it": {
			change: func(a *azure, _ *azurekeyvault.Vault) {
				a.refusal = func(w http.ResponseWriter) {
					w.WriteHeader(http.StatusForbidden)
					_, _ = w.Write([]byte(`{"error":{"code":"Forbidden","message":"no secrets get permission"}}`))
				}
			},
			status: http.StatusForbidden, message: "no secrets get permission",
		},
		"a page of a gateway": {
			change: func(a *azure, _ *azurekeyvault.Vault) {
				a.refusal = func(w http.ResponseWriter) {
					w.WriteHeader(http.StatusBadGateway)
					_, _ = w.Write([]byte("<html>"))
				}
			},
			status: http.StatusBadGateway, message: "502",
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := newAzure(t)
			vault := server.vault(t)
			test.change(server, &vault)
			_, err := vault.Secret(t.Context(), "github")
			var refusal *azurekeyvault.Error
			if !errors.As(err, &refusal) || refusal.StatusCode != test.status ||
				!strings.Contains(err.Error(), test.message) {
				t.Errorf("got %v, want %d and %q", err, test.status, test.message)
			}
		})
	}
}

func TestUnusableAnswersDontLeak(t *testing.T) {
	for _, body := range []string{
		`{"value": s3cret}`,
		`{"error":{"code":"Forbidden","message":"you sent token-for-https://vault.azure.net/.default"}}`,
		`{"error":{"message":"you sent eyJhbGciOiJSUzI1NiJ9.eyJzZWNyZXQiOiJzM2NyZXQifQ.token-for-"}}`,
	} {
		server := newAzure(t)
		server.refusal = func(w http.ResponseWriter) {
			if strings.Contains(body, "error") {
				w.WriteHeader(http.StatusForbidden)
			}
			_, _ = w.Write([]byte(body))
		}
		_, err := server.vault(t).Secret(t.Context(), "github")
		if err == nil || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "token-for-") {
			t.Errorf("got %v", err)
		}
	}
}

func TestUnusableAddress(t *testing.T) {
	for _, address := range []string{"", "my-vault", "http://my-vault.vault.azure.net", "https://",
		"https://vault.example.com", "https://my-vault.vault.azure.net.example.com"} {
		if _, err := (azurekeyvault.Vault{URL: address}).Secret(t.Context(), "github"); err == nil ||
			!strings.Contains(err.Error(), "https://NAME") {
			t.Errorf("%q: got %v", address, err)
		}
	}
}

// sentTo remembers where requests are sent, and answers none.
type sentTo []string

func (s *sentTo) RoundTrip(request *http.Request) (*http.Response, error) {
	*s = append(*s, request.URL.Scheme+"://"+request.URL.Host)
	return nil, errors.New("no network")
}

// A token is requested of the authority of the vault's cloud, and for no other host.
func TestClouds(t *testing.T) {
	for host, want := range map[string]string{
		"a.vault.azure.net":         "https://login.microsoftonline.com",
		"a.vault.azure.cn":          "https://login.chinacloudapi.cn",
		"A.Vault.USGovCloudAPI.net": "https://login.microsoftonline.us",
		"private.example.com":       "",
	} {
		sent := &sentTo{}
		_, err := azurekeyvault.Vault{
			URL: "https://" + host, CertificatePath: writeFile(t, identity().pem), HTTP: &http.Client{Transport: sent},
		}.Secret(t.Context(), "github")
		if got := strings.Join(*sent, " "); got != want || errors.Is(err, azurekeyvault.ErrAddress) != (want == "") {
			t.Errorf("%s: requests to %q, want %q; %v", host, got, want, err)
		}
	}
}

func TestCertificateFiles(t *testing.T) {
	server, ours, other := newAzure(t), identity(), newCredential()
	server.secrets["github"] = "abc"
	pkcs8, err := x509.MarshalPKCS8PrivateKey(ours.key)
	if err != nil {
		t.Fatal(err)
	}
	certificate := pemOf("CERTIFICATE", ours.certificate.Raw)
	pfx := func(password string) []byte {
		content, err := pkcs12.Modern.Encode(
			ours.key, ours.certificate, []*x509.Certificate{other.certificate}, password,
		)
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	for name, test := range map[string]struct {
		content []byte
		usable  bool
	}{
		"certificate and PKCS#1 key": {ours.pem, true},
		"PKCS#8 key, then a chain": {
			append(pemOf("PRIVATE KEY", pkcs8), append(pemOf("CERTIFICATE", other.certificate.Raw), certificate...)...),
			true,
		},
		"PKCS#12":                 {pfx(""), true},
		"PKCS#12 with a password": {pfx("secret"), false},
		"no key":                  {certificate, false},
		"no certificate":          {pemOf("PRIVATE KEY", pkcs8), false},
		"another's certificate": {
			append(pemOf("CERTIFICATE", other.certificate.Raw), pemOf("PRIVATE KEY", pkcs8)...), false,
		},
		"no PEM": {[]byte("0\x82"), false},
	} {
		vault := server.vault(t) // it knows ours
		vault.CertificatePath = writeFile(t, test.content)
		got, err := vault.Secret(t.Context(), "github")
		var unusable *azurekeyvault.CertificateError
		switch {
		case test.usable && (err != nil || got != "abc"):
			t.Errorf("%s: %v", name, err)
		case !test.usable && !errors.As(err, &unusable):
			t.Errorf("%s: got %v, want a CertificateError", name, err)
		}
	}
}
