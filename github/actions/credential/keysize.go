package credential

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"math/bits"
)

// MaxKeyBits bounds the modulus of an RSA key. GitHub generates keys of 2,048 bits. Whoever writes a Secret or a bundle
// of certificates chooses its keys, the time to read and to use one grows with the cube of its bits, and no context ends
// that: 8,192 bits take 30 ms, 200,000 minutes.
const MaxKeyBits = 8192

// errNoKey means that a text has the form of a private key and is none.
var errNoKey = errors.New("it is no whole RSA key: some of it is missing or was changed")

// ParseRSAKey reads PKCS#1, which GitHub generates, or PKCS#8, into which tools convert it. Keys of more than
// MaxKeyBits are refused by the length of their numbers in the DER, before any of these is read.
func ParseRSAKey(der []byte) (*rsa.PrivateKey, error) {
	largest, err := largestNumber(der, mostNested)
	switch {
	case err != nil:
		return nil, errNoKey
	case largest > MaxKeyBits:
		return nil, fmt.Errorf("it has %d bits, and more than %d are not read: GitHub's keys have 2048", largest, MaxKeyBits)
	}
	if key, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		return key, nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, errNoKey
	}
	key, isRSA := parsed.(*rsa.PrivateKey)
	if !isRSA {
		return nil, errors.New("it is not an RSA key, as GitHub's are")
	}
	return key, nil
}

// mostNested is the depth to which lists in a private key are looked at: PKCS#8 has the key as octets in a list,
// PKCS#1 its numbers in a list, and further primes in lists of a list.
const mostNested = 6

// largestNumber returns the bits of the largest number in a list in DER, and in lists and octets in it. It is an error
// if the DER is no list, or can't be read to its end.
func largestNumber(der []byte, nested int) (largest int, err error) {
	var list asn1.RawValue
	rest, err := asn1.Unmarshal(der, &list)
	if err != nil || len(rest) > 0 || list.Tag != asn1.TagSequence || !list.IsCompound {
		return 0, errNoKey
	}
	for rest = list.Bytes; len(rest) > 0; {
		var element asn1.RawValue
		if rest, err = asn1.Unmarshal(rest, &element); err != nil {
			return 0, errNoKey
		}
		inside := 0
		switch {
		case element.Class != asn1.ClassUniversal: // attributes of PKCS#8, which nobody reads
		case element.Tag == asn1.TagInteger:
			inside = bitsOf(element.Bytes)
		case nested == 0:
		case element.Tag == asn1.TagSequence:
			if inside, err = largestNumber(element.FullBytes, nested-1); err != nil {
				return 0, err
			}
		case element.Tag == asn1.TagOctetString: // of other kinds of keys these are no list
			inside, _ = largestNumber(element.Bytes, nested-1)
		}
		largest = max(largest, inside)
	}
	return largest, nil
}

// bitsOf returns the length of a number in DER. A zero byte in front only says that it is not negative.
func bitsOf(number []byte) int {
	for len(number) > 0 && number[0] == 0 {
		number = number[1:]
	}
	if len(number) == 0 {
		return 0
	}
	return 8*(len(number)-1) + bits.Len8(number[0])
}
