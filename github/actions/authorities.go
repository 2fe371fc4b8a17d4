package actions

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/harrier-ci/harrier/github/actions/credential"
)

// MaxCertificates is the largest text in bytes in which certificates are looked for. A ConfigMap has no more.
const MaxCertificates = 1 << 20

var (
	// ErrNoCertificate means that a text has no certificate in PEM form.
	ErrNoCertificate = errors.New("no certificate in PEM form")
	// ErrCertificates means that a text has a certificate that is not used, or is too long.
	ErrCertificates = errors.New("unusable certificates")
)

// CertPool returns a pool of the system's certificates and those in a text in PEM form, for [Options]. If the text is
// empty, it returns nil: the system's certificates only. It fails with ErrNoCertificate if the text is not empty and has
// no certificate that can be parsed, and with ErrCertificates if one has an RSA key of more than 8,192 bits: whoever
// chooses it would choose how long each handshake takes, which no deadline ends.
func CertPool(text string) (*x509.CertPool, error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > MaxCertificates {
		return nil, fmt.Errorf("%w: %d bytes, and no more than %d are read", ErrCertificates, len(text), MaxCertificates)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // a system whose certificates can't be read still has those in the text
	}
	found := 0
	for block, rest := pem.Decode([]byte(text)); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" || len(block.Headers) != 0 {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			continue // as the standard library does
		}
		found++
		if key, isRSA := certificate.PublicKey.(*rsa.PublicKey); isRSA && key.N.BitLen() > credential.MaxKeyBits {
			return nil, fmt.Errorf("%w: the key of certificate %d has %d bits, and more than %d are not used",
				ErrCertificates, found, key.N.BitLen(), credential.MaxKeyBits)
		}
	}
	// The pool keeps each certificate's DER, and parses it again when it is needed: that is a quarter of the memory.
	if !pool.AppendCertsFromPEM([]byte(text)) {
		return nil, ErrNoCertificate
	}
	return pool, nil
}

// ParseRSAKey reads the DER of a private key, PKCS#1 or PKCS#8, of at most 8,192 bits.
func ParseRSAKey(der []byte) (*rsa.PrivateKey, error) { return credential.ParseRSAKey(der) }
