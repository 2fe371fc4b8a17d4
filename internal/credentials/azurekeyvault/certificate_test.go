package azurekeyvault_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/harrier-ci/harrier/internal/credentials/azurekeyvault"
)

// refusal returns the text for a certificate path. Nobody is asked anything.
func refusal(t *testing.T, vault azurekeyvault.Vault) string {
	t.Helper()
	sent := &sentTo{}
	vault.URL, vault.HTTP = "https://my-vault.vault.azure.net", &http.Client{Transport: sent}
	got, err := vault.Secret(t.Context(), "github")
	var unusable *azurekeyvault.CertificateError
	if !errors.As(err, &unusable) || unusable.Cause == nil || len(*sent) > 0 {
		t.Fatalf("%s: got %q, %v, want a CertificateError with a cause", vault.CertificatePath, got, err)
	}
	return err.Error()
}

// Devices that never end, pipes that block, files of the system, and what isn't there: none of them can be told from
// another.
func TestUnusablePathsAllGetOneText(t *testing.T) {
	directory := t.TempDir()
	at := func(name string) string { return filepath.Join(directory, name) }
	if err := syscall.Mkfifo(at("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"large":      strings.Repeat("x", 1<<20+1),
		"other":      "a secret of the manager",
		"unreadable": "x",
	} {
		if err := os.WriteFile(at(name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(at("unreadable"), 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", at("link")); err != nil {
		t.Fatal(err)
	}
	want := refusal(t, azurekeyvault.Vault{CertificatePath: at("gone")})
	for _, path := range []string{
		"", "gone.pem", "/dev/zero", "/dev/null", "/proc/self/environ", "/etc", "/etc/passwd", "a\x00b",
		at("pipe"), at("large"), at("other"), at("unreadable"), at("link"), at("other") + "/below",
	} {
		if got := refusal(t, azurekeyvault.Vault{CertificatePath: path}); got != want {
			t.Errorf("%q: got %q, want %q", path, got, want)
		}
	}
	if strings.Contains(want, directory) {
		t.Errorf("the text has the path: %s", want)
	}
}

// A file system that doesn't answer costs the call its time, and no more.
func TestReadingACertificateEndsWithTheCall(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := azurekeyvault.Vault{
		URL: "https://my-vault.vault.azure.net", CertificatePath: "/dev/zero",
	}.Secret(ctx, "github")
	var unusable *azurekeyvault.CertificateError
	if !errors.As(err, &unusable) {
		t.Errorf("got %v, want a CertificateError", err)
	}
}

// mountedSecret returns a directory as the kubelet lays out a projected volume: files are links into a directory of the
// last update, which is a link itself.
func mountedSecret(t *testing.T) string {
	t.Helper()
	directory := t.TempDir()
	update := filepath.Join(directory, "..2026_01_02_03_04_05.1234")
	if err := os.Mkdir(update, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(update, "client.pem"), identity().pem, 0o600); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"..data": filepath.Base(update), "client.pem": "..data/client.pem"} {
		if err := os.Symlink(target, filepath.Join(directory, link)); err != nil {
			t.Fatal(err)
		}
	}
	return directory
}

func TestCertificatesOfAMountedSecret(t *testing.T) {
	directory := mountedSecret(t)
	absolute := filepath.Join(directory, "client.pem")
	server := newAzure(t)
	server.secrets["github"] = "abc"
	for name, vault := range map[string]azurekeyvault.Vault{
		"anywhere":                {CertificatePath: absolute},
		"below the directory":     {CertificatePath: absolute, CertificateDirectory: directory},
		"relative to it":          {CertificatePath: "client.pem", CertificateDirectory: directory},
		"with a slash at its end": {CertificatePath: absolute, CertificateDirectory: directory + "/"},
		"in a directory above":    {CertificatePath: absolute, CertificateDirectory: filepath.Dir(directory)},
	} {
		opened := server.vault(t)
		opened.CertificatePath, opened.CertificateDirectory = vault.CertificatePath, vault.CertificateDirectory
		if got, err := opened.Secret(t.Context(), "github"); err != nil || got != "abc" {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
}

// With a directory, nothing leads out of it, and a usable certificate elsewhere gets the same text as a file that
// doesn't exist.
func TestNothingLeadsOutOfTheCertificateDirectory(t *testing.T) {
	outside, directory := writeFile(t, identity().pem), mountedSecret(t)
	relative, err := filepath.Rel(directory, outside)
	if err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"absolute": outside, "relative": relative, "above": ".."} {
		if err := os.Symlink(target, filepath.Join(directory, link)); err != nil {
			t.Fatal(err)
		}
	}
	want := refusal(t, azurekeyvault.Vault{CertificatePath: filepath.Join(directory, "gone"),
		CertificateDirectory: directory})
	for _, path := range []string{outside, relative, directory + "/" + relative, filepath.Join(
		directory, "absolute",
	), filepath.Join(directory, "relative"),
		directory + "/above/" + filepath.Base(directory) + "/client.pem", directory, "/etc/passwd"} {
		if got := refusal(t, azurekeyvault.Vault{CertificatePath: path, CertificateDirectory: directory}); got != want {
			t.Errorf("%q: got %q, want %q", path, got, want)
		}
	}
	if !strings.Contains(want, directory) {
		t.Errorf("the text doesn't name the directory: %s", want)
	}
	if got := refusal(t, azurekeyvault.Vault{
		CertificatePath:      outside,
		CertificateDirectory: directory + "/gone",
	}); !strings.Contains(got, "/gone") {
		t.Errorf("a directory that doesn't exist: %s", got)
	}
}
