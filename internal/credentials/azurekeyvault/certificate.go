package azurekeyvault

import (
	"crypto/rsa"
	"crypto/sha1" // Entra identifies certificates by their SHA-1 thumbprint
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"os"
	"time"

	"github.com/golang-jwt/jwt/v4"
	"github.com/google/uuid"
	"k8s.io/utils/clock"
	"software.sslmate.com/src/go-pkcs12"
)

// assertionLifetime is how long an assertion is valid. Entra allows 10 min, and a request needs seconds; the rest is for clocks that
// differ.
const assertionLifetime = 5 * time.Minute

// CertificateError says why the certificate file can't be used.
type CertificateError struct {
	// Path is the file.
	Path string
	// Reason says what is wrong and how to correct it.
	Reason string
}

// Error names file and cause.
func (e *CertificateError) Error() string {
	return fmt.Sprintf("certificate %s of the vault's client is not usable: %s", e.Path, e.Reason)
}

// assertion returns a signed statement of the application's identity, valid for one audience.
func (v Vault) assertion(audience string) (string, error) {
	certificate, key, err := readCertificate(v.CertificatePath)
	if err != nil {
		return "", err
	}
	now := v.now()
	token := jwt.NewWithClaims(jwt.SigningMethodRS256, jwt.RegisteredClaims{
		Issuer: v.ClientID, Subject: v.ClientID, Audience: jwt.ClaimStrings{audience}, ID: uuid.NewString(),
		// Backdated by a minute, because a token from the future is refused.
		NotBefore: jwt.NewNumericDate(now.Add(-time.Minute)), ExpiresAt: jwt.NewNumericDate(now.Add(assertionLifetime)),
	})
	thumbprint := sha1.Sum(certificate.Raw)
	token.Header["x5t"] = base64.RawURLEncoding.EncodeToString(thumbprint[:])
	signed, err := token.SignedString(key)
	if err != nil {
		return "", fmt.Errorf("sign the assertion: %w", err)
	}
	return signed, nil
}

func (v Vault) now() time.Time {
	if v.Clock == nil {
		return clock.RealClock{}.Now()
	}
	return v.Clock.Now()
}

// readCertificate returns the key in a file and the certificate in it that belongs to the key. A file may hold a whole chain.
func readCertificate(path string) (*x509.Certificate, *rsa.PrivateKey, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, &CertificateError{Path: path, Reason: fmt.Sprintf("%v; mount it into the manager's pod, where the listeners' credentials are read", err)}
	}
	key, certificates := decodePEM(content)
	if key == nil {
		key, certificates = decodePKCS12(content)
	}
	if key == nil {
		return nil, nil, &CertificateError{Path: path, Reason: "it has no RSA private key; use a file with certificate and key, PEM or PKCS#12 without a password"}
	}
	for _, certificate := range certificates {
		if key.PublicKey.Equal(certificate.PublicKey) {
			return certificate, key, nil
		}
	}
	return nil, nil, &CertificateError{Path: path, Reason: "it has no certificate that belongs to its private key; put both into one file"}
}

// decodePEM returns a nil key if there is none.
func decodePEM(content []byte) (key *rsa.PrivateKey, certificates []*x509.Certificate) {
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if certificate, err := x509.ParseCertificate(block.Bytes); err == nil {
			certificates = append(certificates, certificate)
		}
		if found := rsaKey(block.Bytes); found != nil {
			key = found
		}
	}
	return key, certificates
}

// decodePKCS12 returns a nil key for anything but a PKCS#12 file with an RSA key and no password, as vaults export it.
func decodePKCS12(content []byte) (*rsa.PrivateKey, []*x509.Certificate) {
	found, certificate, _, err := pkcs12.DecodeChain(content, "")
	if err != nil {
		return nil, nil
	}
	key, _ := found.(*rsa.PrivateKey)
	return key, []*x509.Certificate{certificate}
}

// rsaKey returns nil for anything but an RSA key in PKCS#1 or PKCS#8.
func rsaKey(der []byte) *rsa.PrivateKey {
	if key, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		return key
	}
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil
	}
	key, _ := parsed.(*rsa.PrivateKey)
	return key
}
