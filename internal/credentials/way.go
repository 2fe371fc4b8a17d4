package credentials

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"slices"
	"strings"

	"github.com/harrier-ci/harrier/github/actions"
)

// Way says how an address is reached, as far as that decides who can have answered there: by https the host, and the
// certificates that are trusted beside the system's. Answers that came by one way came from one server, whoever asked.
// A proxy doesn't count, because it can't forge a certificate. Whoever asks by http may have chosen who answers, so that
// way is the namespace's own. Two ways are the same if they are equal; the empty way leads nowhere.
type Way string

// WayTo returns the way to a config URL for those in a namespace, with the certificates in PEM that they trust beside
// the system's. Their order and what is written between them don't matter.
func WayTo(configURL, namespace, rootCAs string) Way {
	config, err := actions.ParseConfigURL(configURL)
	if err != nil {
		return ""
	}
	host := strings.ToLower(config.URL.Host)
	if config.URL.Scheme != "https" {
		return Way(config.URL.Scheme + "://" + host + " of namespace " + namespace)
	}
	way := "https://" + strings.TrimSuffix(host, ":443")
	if rootCAs == "" {
		return Way(way)
	}
	return Way(way + " with certificates " + digestOf(rootCAs))
}

// digestOf identifies the certificates in a bundle: the blocks that crypto/x509 reads. None is parsed; one that it can't
// use makes the way another one, which costs nobody anything.
func digestOf(bundle string) string {
	var certificates []string
	for block, rest := pem.Decode([]byte(bundle)); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" && len(block.Headers) == 0 {
			digest := sha256.Sum256(block.Bytes)
			certificates = append(certificates, hex.EncodeToString(digest[:]))
		}
	}
	slices.Sort(certificates)
	all := sha256.Sum256([]byte(strings.Join(slices.Compact(certificates), " ")))
	return hex.EncodeToString(all[:])
}
