package credential

import (
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
)

// rsaNumbers are those of a private key in PKCS#1, of which none belongs to another.
type rsaNumbers struct {
	Version          int
	N                *big.Int
	E                int
	D, P, Q          *big.Int
	DP, DQ, Inverse  *big.Int
	AdditionalPrimes []struct{ Prime, Exponent, Inverse *big.Int } `asn1:"optional,omitempty"`
}

// numberOf returns a number of so many bits.
func numberOf(bits uint) *big.Int {
	number := new(big.Int).Lsh(big.NewInt(1), bits-1)
	return number.SetBit(number, 0, 1)
}

// keyOf returns the DER of PKCS#1 with such numbers.
func keyOf(t *testing.T, change func(*rsaNumbers)) []byte {
	t.Helper()
	small := big.NewInt(3)
	numbers := rsaNumbers{N: numberOf(2048), E: 65537, D: small, P: small, Q: small, DP: small, DQ: small, Inverse: small}
	change(&numbers)
	der, err := asn1.Marshal(numbers)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// inPKCS8 wraps PKCS#1 as PKCS#8.
func inPKCS8(t *testing.T, key []byte) []byte {
	t.Helper()
	var wrapped struct {
		Version   int
		Algorithm struct {
			Name       asn1.ObjectIdentifier
			Parameters asn1.RawValue
		}
		Key []byte
	}
	wrapped.Algorithm.Name = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 1}
	wrapped.Algorithm.Parameters = asn1.NullRawValue
	wrapped.Key = key
	der, err := asn1.Marshal(wrapped)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// No number of a key that is too large is read: the parser would say that the key is none.
func TestKeysOfTooManyBitsAreRefusedByTheirLength(t *testing.T) {
	for name, change := range map[string]func(*rsaNumbers){
		"modulus, 8193 bits":    func(k *rsaNumbers) { k.N = numberOf(MaxKeyBits + 1) },
		"modulus, 20,000 bits":  func(k *rsaNumbers) { k.N = numberOf(20_000) },
		"modulus, 200,000 bits": func(k *rsaNumbers) { k.N = numberOf(200_000) },
		"private exponent":      func(k *rsaNumbers) { k.D = numberOf(200_000) },
		"prime":                 func(k *rsaNumbers) { k.P = numberOf(200_000) },
		"inverse":               func(k *rsaNumbers) { k.Inverse = numberOf(200_000) },
		"further prime": func(k *rsaNumbers) {
			k.Version = 1
			k.AdditionalPrimes = append(k.AdditionalPrimes, struct{ Prime, Exponent, Inverse *big.Int }{
				numberOf(200_000), big.NewInt(3), big.NewInt(3),
			})
		},
	} {
		der := keyOf(t, change)
		for form, text := range map[string]string{
			"PKCS#1": string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: der})),
			"PKCS#8": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: inPKCS8(t, der)})),
			"base64": base64.StdEncoding.EncodeToString(der),
		} {
			app := &AppCredentials{ID: "1", InstallationID: 2, PrivateKey: text}
			err := Credentials{App: app}.Validate()
			if err == nil || !strings.Contains(err.Error(), "more than 8192 are not read") {
				t.Errorf("%s, %s: got %v", name, form, err)
			}
		}
	}
	for name, bits := range map[string]uint{"8192 bits": MaxKeyBits, "2048 bits": 2048} {
		der := keyOf(t, func(k *rsaNumbers) { k.N = numberOf(bits) })
		if _, err := ParseRSAKey(der); err == nil || strings.Contains(err.Error(), "are not read") {
			t.Errorf("%s: got %v, want that it is no key", name, err)
		}
	}
}

// A text may be full of keys, each of which takes its time.
func TestFewKeysOfATextAreLookedAt(t *testing.T) {
	block := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: keyOf(t, func(*rsaNumbers) {})})
	if _, err := privateKeyOf(strings.Repeat(string(block), mostKeys+1)); err == nil ||
		!strings.Contains(err.Error(), "more than 4 private keys") {
		t.Errorf("got %v", err)
	}
}

// Whatever the standard library reads, this reads, or refuses for its size.
func FuzzParseRSAKey(f *testing.F) {
	f.Add(x509.MarshalPKCS1PrivateKey(appKey()))
	f.Add([]byte{0x30, 0x03, 0x02, 0x01, 0x00})
	f.Fuzz(func(t *testing.T, der []byte) {
		key, err := ParseRSAKey(der)
		if err == nil && key.N.BitLen() > MaxKeyBits {
			t.Errorf("%d bits", key.N.BitLen())
		}
		if len(der) > 4<<10 {
			return
		}
		known, problem := x509.ParsePKCS1PrivateKey(der)
		if problem == nil && (err != nil || !key.Equal(known)) {
			t.Errorf("got %v", err)
		}
	})
}
