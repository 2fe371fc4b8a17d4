package credential

import (
	"bytes"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// maxPrivateKey is the largest text in bytes that is looked at: ten times the PEM of an RSA key of 16,384 bits,
// base64-encoded again.
const maxPrivateKey = 160 << 10

var (
	// pemBlock is a block as RFC 7468 has it, whatever became of its white space. The labels must be the same; see
	// privateKeyOf.
	pemBlock = regexp.MustCompile(`(?s)-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END ([A-Z0-9 ]+)-----`)
	// notBase64 matches what secret managers, shells and editors put between the lines of a key: white space, and line
	// ends written as a backslash and a letter.
	notBase64 = regexp.MustCompile(`\s+|\\[nrt]`)
)

// privateKeyOf reads the private key of a GitHub App: the PEM that GitHub generates, and whatever became of it on its
// way as long as it can be read in one way only. White space doesn't count, nor whether a line end is written as a
// backslash and an n, quotes around it, other blocks beside it, or another base64 around it or instead of it. Errors
// name what is wrong and quote nothing of the text.
func privateKeyOf(text string) (*rsa.PrivateKey, error) {
	text = strings.ReplaceAll(text, "\x00", "") // of UTF-16, as some shells write files
	switch {
	case len(text) > maxPrivateKey:
		return nil, fmt.Errorf("it has %d KiB, and no key has more than %d", len(text)>>10, maxPrivateKey>>10)
	case strings.TrimSpace(text) == "":
		return nil, errors.New("it is empty")
	case strings.Contains(text, "-----BEGIN"):
		return keyInPEM(text)
	}
	decoded, err := decodeBase64(strings.Trim(strings.TrimSpace(text), `"'`))
	switch {
	case err != nil && strings.Contains(text, "BEGIN"):
		return nil, errors.New("the five hyphens before and after BEGIN and END are not as GitHub wrote them")
	case err == nil && bytes.Contains(decoded, []byte("-----BEGIN")):
		return keyInPEM(string(decoded))
	case err == nil:
		if key, err := ParseRSAKey(decoded); !errors.Is(err, errNoKey) {
			return key, err
		}
	}
	return nil, errors.New("it is neither PEM nor an RSA key in base64")
}

// mostKeys is the number of private keys that are looked at in a text, each of which takes its time.
const mostKeys = 4

// keyInPEM returns the only private key in PEM.
func keyInPEM(text string) (*rsa.PrivateKey, error) {
	var found []*rsa.PrivateKey
	problem, keys := errors.New("its END line is missing: it was cut off"), 0
	for _, block := range pemBlock.FindAllStringSubmatch(text, -1) {
		if strings.HasSuffix(block[1], "PRIVATE KEY") {
			keys++
		}
		if keys > mostKeys {
			return nil, fmt.Errorf("it holds more than %d private keys: keep one", mostKeys)
		}
		key, err := keyInBlock(block[1], block[2], block[3])
		if err != nil {
			problem = err
			continue
		}
		found = append(found, key)
	}
	switch len(found) {
	case 0:
		return nil, problem
	case 1:
		return found[0], nil
	default:
		return nil, fmt.Errorf("it holds %d private keys: keep one", len(found))
	}
}

func keyInBlock(label, body, end string) (*rsa.PrivateKey, error) {
	switch {
	case label != end:
		return nil, errors.New("its BEGIN and END lines differ")
	case !strings.HasSuffix(label, "PRIVATE KEY"):
		return nil, fmt.Errorf("it is no private key but a %s", strings.ToLower(label))
	case strings.HasPrefix(label, "ENCRYPTED"), strings.Contains(body, "ENCRYPTED"):
		return nil, errors.New("it is encrypted with a password: decrypt it with openssl rsa")
	case label != "RSA PRIVATE KEY" && label != "PRIVATE KEY":
		return nil, fmt.Errorf("it is in the form %q, and GitHub's keys are RSA keys in PEM", strings.ToLower(label))
	}
	der, err := decodeBase64(body)
	if err != nil {
		return nil, errors.New("characters between its BEGIN and END lines are missing or don't belong there")
	}
	return ParseRSAKey(der)
}

// decodeBase64 takes both alphabets, with and without padding.
func decodeBase64(text string) ([]byte, error) {
	text = strings.TrimRight(notBase64.ReplaceAllString(text, ""), "=")
	return base64.RawStdEncoding.DecodeString(strings.NewReplacer("-", "+", "_", "/").Replace(text))
}
