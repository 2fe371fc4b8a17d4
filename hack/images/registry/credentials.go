package registry

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Credentials are those for one registry. Without any, pushes are anonymous.
type Credentials struct {
	Username, Password string
	// IdentityToken is used instead of a password if the registry has issued one.
	IdentityToken string
}

// dockerConfig is the part of Docker's config.json that is about credentials.
type dockerConfig struct {
	Auths       map[string]dockerAuth `json:"auths"`
	CredsStore  string                `json:"credsStore"`
	CredHelpers map[string]string     `json:"credHelpers"`
}

type dockerAuth struct {
	Auth          string `json:"auth"`
	Username      string `json:"username"`
	Password      string `json:"password"`
	IdentityToken string `json:"identitytoken"`
}

// FindCredentials looks where "docker login" stores credentials: in config.json in DOCKER_CONFIG or ~/.docker, and in the
// credential helper that it names. It is no error if there are none.
func FindCredentials(ctx context.Context, host string) (Credentials, error) {
	directory := os.Getenv("DOCKER_CONFIG")
	if directory == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return Credentials{}, nil
		}
		directory = filepath.Join(home, ".docker")
	}
	content, err := os.ReadFile(filepath.Join(directory, "config.json"))
	if errors.Is(err, os.ErrNotExist) {
		return Credentials{}, nil
	}
	if err != nil {
		return Credentials{}, fmt.Errorf("read credentials of registries: %w", err)
	}
	var config dockerConfig
	if err := json.Unmarshal(content, &config); err != nil {
		return Credentials{}, fmt.Errorf("read credentials of registries in %s: %w", directory, err)
	}
	return config.credentials(ctx, host)
}

func (config dockerConfig) credentials(ctx context.Context, host string) (Credentials, error) {
	for _, key := range keysOf(host) {
		if helper := config.CredHelpers[key]; helper != "" {
			return askHelper(ctx, helper, key)
		}
		if found, ok := config.Auths[key]; ok {
			credentials, err := found.decode(key)
			if err != nil || credentials != (Credentials{}) {
				return credentials, err
			}
		}
	}
	if config.CredsStore != "" {
		return askHelper(ctx, config.CredsStore, keysOf(host)[0])
	}
	return Credentials{}, nil
}

// keysOf returns the names under which a host may be listed. Docker Hub has a historical one.
func keysOf(host string) []string {
	if host == dockerHubAPI {
		return []string{"https://index.docker.io/v1/", dockerHub}
	}
	return []string{host, "https://" + host}
}

func (auth dockerAuth) decode(key string) (Credentials, error) {
	credentials := Credentials{Username: auth.Username, Password: auth.Password, IdentityToken: auth.IdentityToken}
	if auth.Auth == "" {
		return credentials, nil
	}
	decoded, err := base64.StdEncoding.DecodeString(auth.Auth)
	username, password, found := strings.Cut(string(decoded), ":")
	if err != nil || !found {
		// The content is a secret, so the error must not show it.
		return Credentials{}, fmt.Errorf("credentials of %s are not base64 of name:password; log in again", key)
	}
	credentials.Username, credentials.Password = username, password
	return credentials, nil
}

// askHelper speaks the protocol of Docker's credential helpers: server name on stdin, JSON on stdout. A helper fails if it has no
// credentials, which means an anonymous push.
func askHelper(ctx context.Context, helper, server string) (Credentials, error) {
	command := exec.CommandContext(ctx, "docker-credential-"+helper, "get")
	command.Stdin = strings.NewReader(server)
	output, err := command.Output()
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		return Credentials{}, nil
	}
	if err != nil {
		return Credentials{}, fmt.Errorf("ask credential helper for %s: %w", server, err)
	}
	var answer struct{ Username, Secret string }
	if err := json.Unmarshal(output, &answer); err != nil {
		return Credentials{}, fmt.Errorf("read answer of credential helper %s: %w", helper, err)
	}
	if answer.Username == "<token>" {
		return Credentials{IdentityToken: answer.Secret}, nil
	}
	return Credentials{Username: answer.Username, Password: answer.Secret}, nil
}
