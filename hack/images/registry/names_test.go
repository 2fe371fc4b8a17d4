package registry

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseReference(t *testing.T) {
	for name, want := range map[string]Reference{
		"registry.example.com/team/harrier:test": {Host: "registry.example.com", Repository: "team/harrier", Tag: "test"},
		"localhost:5000/harrier":                 {Host: "localhost:5000", Repository: "harrier", Tag: "latest"},
		"team/harrier:1":                         {Host: dockerHubAPI, Repository: "team/harrier", Tag: "1"},
		"harrier":                                {Host: dockerHubAPI, Repository: "library/harrier", Tag: "latest"},
	} {
		got, err := ParseReference(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for _, name := range []string{"", "a b", "host.example/", "host.example/a@sha256:00", "host.example/a:", "host.example/UPPER"} {
		if got, err := ParseReference(name); err == nil {
			t.Errorf("%q: got %+v, want an error", name, got)
		}
	}
}

func TestOnlyThisMachineIsTrustedWithoutTLS(t *testing.T) {
	for host, want := range map[string]string{
		"localhost": "http", "localhost:5000": "http", "127.0.0.1:5000": "http", "192.0.2.1:5000": "https", "ghcr.io": "https",
	} {
		if got := (Reference{Host: host}).scheme(); got != want {
			t.Errorf("%s: %s, want %s", host, got, want)
		}
	}
}

func TestFindCredentials(t *testing.T) {
	directory := t.TempDir()
	t.Setenv("DOCKER_CONFIG", directory)
	if got, err := FindCredentials(t.Context(), "registry.example.com"); err != nil || got != (Credentials{}) {
		t.Errorf("without a file: %+v, %v", got, err)
	}
	// bWU6c2VjcmV0 is me:secret
	config := `{"auths": {"registry.example.com": {"auth": "bWU6c2VjcmV0"}, "broken.example.com": {"auth": "?"},
		"https://index.docker.io/v1/": {"identitytoken": "t"}}}`
	if err := os.WriteFile(filepath.Join(directory, "config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]Credentials{
		"registry.example.com": {Username: "me", Password: "secret"},
		dockerHubAPI:           {IdentityToken: "t"},
		"other.example.com":    {},
	} {
		if got, err := FindCredentials(t.Context(), host); err != nil || got != want {
			t.Errorf("%s: %+v, %v", host, got, err)
		}
	}
	if _, err := FindCredentials(t.Context(), "broken.example.com"); err == nil {
		t.Error("credentials that can't be decoded: no error")
	}
}
