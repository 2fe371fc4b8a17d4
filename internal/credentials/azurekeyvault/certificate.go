package azurekeyvault

import (
	"context"
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // Entra identifies certificates by their SHA-1 thumbprint
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/golang-jwt/jwt/v4"
	"github.com/google/uuid"
	"k8s.io/utils/clock"
	"software.sslmate.com/src/go-pkcs12"

	"github.com/harrier-ci/harrier/github/actions"
)

// An assertion is valid for assertionLifetime. Entra allows 10 min, and a request needs seconds; the rest is for clocks
// that differ.
const assertionLifetime = 5 * time.Minute

// maxCertificate bounds a certificate file: a chain with its key has some kilobytes.
const maxCertificate = 1 << 20

// CertificateError reports that the certificate file can't be used. Whoever may create a scale set chooses the path, in
// the manager's file system. So the text is always the same: it must not tell which files exist.
type CertificateError struct {
	// Directory is the only one that may have the file; "" means any.
	Directory string
	// Cause names the file and its fault. It is for the manager's log only.
	Cause error
}

// Error names the form that a usable file has.
func (e *CertificateError) Error() string {
	place := "in the manager's pod"
	if e.Directory != "" {
		place = "below " + e.Directory + " " + place
	}
	return "there is no usable certificate: the path must be that of a regular file of at most 1 MiB " + place +
		", with the client's certificate and its RSA key, PEM or PKCS#12 without a password; the controller's chart " +
		"mounts it with volumes and volumeMounts"
}

// assertion returns a signed statement of the application's identity, valid for one audience.
func (v Vault) assertion(ctx context.Context, audience string) (string, error) {
	certificate, key, err := v.certificate(ctx)
	if err != nil {
		return "", err
	}
	now := v.now()
	token := jwt.NewWithClaims(jwt.SigningMethodRS256, jwt.RegisteredClaims{
		Issuer: v.ClientID, Subject: v.ClientID, Audience: jwt.ClaimStrings{audience}, ID: uuid.NewString(),
		// Backdated by a minute, because a token from the future is refused.
		NotBefore: jwt.NewNumericDate(now.Add(-time.Minute)), ExpiresAt: jwt.NewNumericDate(now.Add(assertionLifetime)),
	})
	thumbprint := sha1.Sum(certificate.Raw) //nolint:gosec // a name, as above, not a proof
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

// certificate returns the key in the client's file and the certificate in it that belongs to the key. A file may hold a
// whole chain. It fails with *CertificateError, also if the file system doesn't answer before the call's deadline.
func (v Vault) certificate(ctx context.Context) (*x509.Certificate, *rsa.PrivateKey, error) {
	content, err := v.readCertificate(ctx)
	if err != nil {
		return nil, nil, &CertificateError{Directory: v.CertificateDirectory, Cause: err}
	}
	key, certificates := decodePEM(content)
	if key == nil {
		key, certificates = decodePKCS12(content)
	}
	unusable := func(problem string) error {
		return &CertificateError{
			Directory: v.CertificateDirectory,
			Cause:     fmt.Errorf("%s %s", v.CertificatePath, problem),
		}
	}
	if key == nil {
		return nil, nil, unusable("has no RSA private key, or a password")
	}
	for _, certificate := range certificates {
		if key.PublicKey.Equal(certificate.PublicKey) {
			return certificate, key, nil
		}
	}
	return nil, nil, unusable("has no certificate that belongs to its private key")
}

// readCertificate reads the client's file. A file system that hangs costs a goroutine until it answers, not the caller.
func (v Vault) readCertificate(ctx context.Context) ([]byte, error) {
	type answer struct {
		content []byte
		err     error
	}
	answers := make(chan answer, 1)
	go func() {
		content, err := readRegular(v.CertificateDirectory, v.CertificatePath)
		answers <- answer{content, err}
	}()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case got := <-answers:
		return got.content, got.err
	}
}

// readRegular reads a small regular file. A named pipe would block whoever opens it, and a device may never end, so
// neither is opened: the file is looked at before it is opened, and again afterwards, because it may have been replaced
// in between.
func readRegular(directory, path string) ([]byte, error) {
	files, closeFiles, err := filesBelow(directory)
	if err != nil {
		return nil, err
	}
	defer closeFiles()
	if path, err = files.nameOf(path); err != nil {
		return nil, err
	}
	if err := requireRegular(files.stat(path)); err != nil {
		return nil, err
	}
	file, err := files.open(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if err := requireRegular(file.Stat()); err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(file, maxCertificate+1))
	if err == nil && len(content) > maxCertificate {
		err = fmt.Errorf("%s: %w", path, errTooLarge)
	}
	return content, err
}

var (
	errNotRegular = errors.New("not a regular file")
	errTooLarge   = errors.New("larger than 1 MiB")
)

// requireRegular takes the answer of a stat.
func requireRegular(info os.FileInfo, err error) error {
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s: %w", info.Name(), errNotRegular)
	case info.Size() > maxCertificate:
		return fmt.Errorf("%s: %w", info.Name(), errTooLarge)
	}
	return nil
}

// files are the places where certificates may be.
type files struct {
	nameOf func(path string) (string, error)
	stat   func(name string) (os.FileInfo, error)
	open   func(name string, flag int, mode os.FileMode) (*os.File, error)
}

// filesBelow returns the files below a directory, from which no link leads out; "" means all files. Links within it
// work, so that a mounted Secret does, whose files are links.
func filesBelow(directory string) (files, func(), error) {
	if directory == "" {
		same := func(path string) (string, error) { return path, nil }
		return files{nameOf: same, stat: os.Stat, open: os.OpenFile}, func() {}, nil
	}
	root, err := os.OpenRoot(directory)
	if err != nil {
		return files{}, nil, err
	}
	relative := func(path string) (string, error) {
		if !filepath.IsAbs(path) {
			return path, nil
		}
		return filepath.Rel(directory, path)
	}
	return files{nameOf: relative, stat: root.Stat, open: root.OpenFile}, func() { _ = root.Close() }, nil
}

// decodePEM returns a nil key if there is none.
func decodePEM(content []byte) (key *rsa.PrivateKey, certificates []*x509.Certificate) {
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if certificate, err := x509.ParseCertificate(block.Bytes); err == nil {
			certificates = append(certificates, certificate)
		}
		if found, err := actions.ParseRSAKey(block.Bytes); err == nil {
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
