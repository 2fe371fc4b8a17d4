package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"
)

// validity is that of all certificates. A cluster may be kept for long, and a shorter validity would protect nothing on
// a test machine.
const validity = 365 * 24 * time.Hour

// keyPair is a certificate with its private key, both as PEM.
type keyPair struct{ certificate, key []byte }

// authority signs the certificates of one cluster.
type authority struct {
	keyPair
	parsed *x509.Certificate
	signer *ecdsa.PrivateKey
	now    time.Time
}

// identity is the subject of a certificate.
type identity struct {
	name   string
	groups []string
	// addresses and names are set for servers only.
	addresses []net.IP
	names     []string
}

func newAuthority(now time.Time) (*authority, error) {
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key of the authority: %w", err)
	}
	template, err := templateOf(identity{name: "harrier-test-cluster"}, now)
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = nil
	der, err := x509.CreateCertificate(rand.Reader, template, template, signer.Public(), signer)
	if err != nil {
		return nil, fmt.Errorf("sign the authority: %w", err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read the authority back: %w", err)
	}
	pair, err := encodePair(der, signer)
	return &authority{keyPair: pair, parsed: parsed, signer: signer, now: now}, err
}

// issue creates a certificate: for a server if the identity has addresses or names, otherwise for a client.
func (a *authority) issue(who identity) (keyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, fmt.Errorf("make key of %s: %w", who.name, err)
	}
	template, err := templateOf(who, a.now)
	if err != nil {
		return keyPair{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.parsed, key.Public(), a.signer)
	if err != nil {
		return keyPair{}, fmt.Errorf("sign certificate of %s: %w", who.name, err)
	}
	return encodePair(der, key)
}

func templateOf(who identity, now time.Time) (*x509.Certificate, error) {
	// Random, because serial numbers of one authority must differ and none are recorded here.
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("choose serial number: %w", err)
	}
	usage := x509.ExtKeyUsageClientAuth
	if len(who.addresses)+len(who.names) > 0 {
		usage = x509.ExtKeyUsageServerAuth
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: who.name, Organization: who.groups},
		// An hour back, in case the machine's clock is set back while the cluster starts.
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(validity),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage},
		IPAddresses: who.addresses, DNSNames: who.names,
	}, nil
}

func encodePair(der []byte, key *ecdsa.PrivateKey) (keyPair, error) {
	encoded, err := encodeKey(key)
	return keyPair{certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key: encoded}, err
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode private key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// serviceAccountKeys returns the private key that signs ServiceAccount tokens and the public key that verifies them.
func serviceAccountKeys() (private, public []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make key of ServiceAccount tokens: %w", err)
	}
	if private, err = encodeKey(key); err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, nil, fmt.Errorf("encode public key: %w", err)
	}
	return private, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}

// write stores the pair as name.crt and name.key, which only their owner can read.
func (pair keyPair) write(l layout, name string) error {
	if err := os.WriteFile(l.pki(name+".crt"), pair.certificate, 0o600); err != nil {
		return err
	}
	return os.WriteFile(l.pki(name+".key"), pair.key, 0o600)
}
