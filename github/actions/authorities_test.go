package actions_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
)

// authority returns a certificate with an RSA key of so many bits, of which nobody has the private part.
func authority(t *testing.T, bits uint) string {
	t.Helper()
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	modulus := new(big.Int).Lsh(big.NewInt(1), bits-1)
	var public crypto.PublicKey = &rsa.PublicKey{N: modulus.SetBit(modulus, 0, 1), E: 65537}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, signer)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// A server that such an authority has signed would have each handshake compute for seconds or minutes.
func TestCertificateAuthoritiesWithHugeKeysAreRefused(t *testing.T) {
	good := authority(t, 8192)
	if pool, err := actions.CertPool(good); pool == nil || err != nil {
		t.Errorf("8192 bits: got %v", err)
	}
	for name, text := range map[string]string{
		"8193 bits": authority(t, 8193), "200,000 bits": good + authority(t, 200_000),
		"2 MiB": good + strings.Repeat("\n", 2<<20),
	} {
		if _, err := actions.CertPool(text); !errors.Is(err, actions.ErrCertificates) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
