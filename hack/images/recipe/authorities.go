package recipe

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// authoritiesPath is where Go's programs look for trusted certificates first.
const authoritiesPath = "/etc/ssl/certs/ca-certificates.crt"

// WriteAuthorities writes the certificates of public authorities as PEM: Mozilla's, in the version that go.mod pins. What the machine
// trusts on which an image is built must not decide whom the image trusts. Authorities that Mozilla trusts with a condition are left
// out, because a file can't express one.
func WriteAuthorities(to io.Writer) error {
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

// authoritiesFile writes the certificates to a file in a directory and returns its path.
func authoritiesFile(directory string) (string, error) {
	var content bytes.Buffer
	if err := WriteAuthorities(&content); err != nil {
		return "", err
	}
	file := filepath.Join(directory, filepath.Base(authoritiesPath))
	return file, os.WriteFile(file, content.Bytes(), 0o644)
}
