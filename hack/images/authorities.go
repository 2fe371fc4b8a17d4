package main

import (
	"encoding/pem"
	"fmt"
	"io"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// authoritiesPath is the first file in which Go's programs look for trusted certificates.
const authoritiesPath = "/etc/ssl/certs/ca-certificates.crt"

// writeAuthorities writes the certificates of public authorities as PEM: Mozilla's, in the version that go.mod pins.
// What the machine trusts on which an image is built must not decide whom the image trusts. Authorities that Mozilla
// trusts with a condition are left out, because a file can't express one.
func writeAuthorities(to io.Writer) error {
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(to, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return fmt.Errorf("write certificates: %w", err)
		}
	}
	return nil
}
