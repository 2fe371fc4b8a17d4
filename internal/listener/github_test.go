package listener

import (
	"errors"
	"testing"

	"github.com/go-logr/logr"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/config"
)

// certificate is a self-signed one of a made-up authority.
const certificate = `-----BEGIN CERTIFICATE-----
MIIBjzCCATWgAwIBAgIUPAgdDkd5/NX/AWSJeXbhPskmIfgwCgYIKoZIzj0EAwIw
HDEaMBgGA1UEAwwRZXhhbXBsZSBhdXRob3JpdHkwIBcNMjYxMTIwMTQwOTA0WhgP
MjEyNjEwMjcxNDA5MDRaMBwxGjAYBgNVBAMMEWV4YW1wbGUgYXV0aG9yaXR5MFkw
EwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEfhmmHuH3lNSRx1bkqeaR+1KuDqT0mFlY
c4XhwUZKqDeCPalGGb+9HsSZmO4nydUeCJAq/LzrsHCcveJ78DJexaNTMFEwHQYD
VR0OBBYEFEdf82v74ChVyAEkXZAVu2kqCfpLMB8GA1UdIwQYMBaAFEdf82v74ChV
yAEkXZAVu2kqCfpLMA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSAAwRQIh
APXxecAZYTvnEVf0tg6JJAB/yLEwNwczl6l+eT0EqRXVAiAAkiKMwulK+2+gihgJ
VPcWscvYPX3ABjSutPTWMWUo1g==
-----END CERTIFICATE-----
`

func TestWhatAClientCanBeMadeFrom(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*config.Config)
		want   error
	}{
		"a token":             {func(*config.Config) {}, nil},
		"a private authority": {func(c *config.Config) { c.ServerRootCA = certificate }, nil},
		"no certificate":      {func(c *config.Config) { c.ServerRootCA = "nonsense" }, errUnusable},
		"a vault":             {func(c *config.Config) { c.Credentials, c.VaultType = nil, config.VaultTypeAzureKeyVault }, errUnusable},
		"an App without its key": {
			func(c *config.Config) { c.Credentials = &config.Credentials{AppID: "1", AppInstallationID: 2} }, actions.ErrInvalidCredentials,
		},
	} {
		t.Run(name, func(t *testing.T) {
			settings := &config.Config{ConfigureURL: "https://github.example/org", Credentials: &config.Credentials{Token: "t"}}
			test.change(settings)
			made, err := Connect(logr.Discard())(settings, nil)
			if !errors.Is(err, test.want) || (made == nil) != (test.want != nil) {
				t.Errorf("made %v, error %v, want error %v", made, err, test.want)
			}
		})
	}
}
