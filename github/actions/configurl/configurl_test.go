package configurl_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/harrier-ci/harrier/github/actions/configurl"
)

func TestConfigURL(t *testing.T) {
	for in, want := range map[string]struct {
		scope                    configurl.Scope
		enterprise, org, repo    string
		hosted                   bool
		registrationToken, start string
	}{
		"https://github.com/acme": {configurl.ScopeOrganization, "", "acme", "", true,
			"https://api.github.com/orgs/acme/actions/runners/registration-token", "https://github.com/acme"},
		"/https://github.com/acme//": {configurl.ScopeOrganization, "", "acme", "", true,
			"https://api.github.com/orgs/acme/actions/runners/registration-token", "https://github.com/acme"},
		"https://www.github.com/acme/web": {configurl.ScopeRepository, "", "acme", "web", true,
			"https://api.github.com/repos/acme/web/actions/runners/registration-token",
			"https://www.github.com/acme/web"},
		"https://github.com/Enterprises/big": {configurl.ScopeEnterprise, "big", "", "", true,
			"https://api.github.com/enterprises/big/actions/runners/registration-token",
			"https://github.com/Enterprises/big"},
		"https://acme.ghe.com/o": {configurl.ScopeOrganization, "", "o", "", true,
			"https://api.acme.ghe.com/orgs/o/actions/runners/registration-token", "https://acme.ghe.com/o"},
		"http://localhost/o/r": {configurl.ScopeRepository, "", "o", "r", false,
			"http://localhost/api/v3/repos/o/r/actions/runners/registration-token", "http://localhost/o/r"},
		"https://ghes.example:8443/o%20o": {configurl.ScopeOrganization, "", "o o", "", false,
			"https://ghes.example:8443/api/v3/orgs/o%20o/actions/runners/registration-token",
			"https://ghes.example:8443/o%20o"},
	} {
		got, err := configurl.Parse(in)
		if err != nil {
			t.Errorf("%q: %v", in, err)
			continue
		}
		if got.Scope != want.scope || got.Enterprise != want.enterprise || got.Organization != want.org ||
			got.Repository != want.repo || got.Hosted != want.hosted || got.String() != want.start {
			t.Errorf("%q: got %+v, want %+v", in, got, want)
		}
		if address := got.RunnersURL().JoinPath("registration-token").String(); address != want.registrationToken {
			t.Errorf("%q: registration token from %s, want %s", in, address, want.registrationToken)
		}
	}
}

func TestAddressOfRunners(t *testing.T) {
	for configURL, want := range map[string]string{
		"https://github.com/acme":                "https://api.github.com/orgs/acme/actions/runners",
		"https://github.com/acme/app":            "https://api.github.com/repos/acme/app/actions/runners",
		"https://ghes.example/enterprises/group": "https://ghes.example/api/v3/enterprises/group/actions/runners",
	} {
		parsed, err := configurl.Parse(configURL)
		if err != nil {
			t.Fatal(err)
		}
		if got := parsed.RunnersURL().String(); got != want {
			t.Errorf("%s: %s, want %s", configURL, got, want)
		}
	}
}

func TestHostedComparesHostWithPort(t *testing.T) {
	hosted := map[string]bool{
		"github.com": true, "GitHub.com": true, "www.github.com": true, "github.localhost": true, "x.ghe.com": true,
		"github.localhost:8080": false, "github.com:443": false, "localhost": false, "127.0.0.1:1": false,
		"ghe.com": false, "notghe.com": false, "github.com.example": false,
	}
	for host, want := range hosted {
		config, err := configurl.Parse("https://" + host + "/o")
		if err != nil {
			t.Fatal(err)
		}
		if config.Hosted != want {
			t.Errorf("%s: hosted %v, want %v", host, config.Hosted, want)
		}
	}
}

// The variable counts if merely present.
func TestForceGHESCountsWhenEmpty(t *testing.T) {
	t.Setenv("GITHUB_ACTIONS_FORCE_GHES", "")
	config, err := configurl.Parse("https://github.com/o")
	if err != nil {
		t.Fatal(err)
	}
	if config.Hosted {
		t.Error("github.com counts as hosted although the variable is present")
	}
	if got, want := config.RESTURL("x").String(), "https://github.com/api/v3/x"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestInvalidConfigURLSaysWhyAndHidesPasswords(t *testing.T) {
	for in, reason := range map[string]string{
		"":                                  "https://",
		"github.com/acme":                   "https://",
		"ftp://github.com/acme":             "https://",
		"https:///acme":                     "no host",
		"https://:443/acme":                 "no host",
		"https://github.com":                "empty",
		"https://github.com/a/b/c":          "3 parts",
		"https://github.com/a//b":           "empty",
		"https://github.com/../b":           "relative",
		"https://me:hunter2@github.com/o":   "password",
		"https://me:hunter2@github.com:x/o": "not a URL",
		"https://me:hun@ter2@git hub/o":     "not a URL",
		"https://me:hun/ter2@github.com/o":  "not a URL",
		"https:me:hunter2@//github.com/o":   "no host",
		"https://github.com/%zz":            "not a URL",
	} {
		_, err := configurl.Parse(in)
		var invalid *configurl.InvalidError
		if !errors.As(err, &invalid) {
			t.Errorf("%q: got %v, want *InvalidError", in, err)
			continue
		}
		if !strings.Contains(invalid.Reason, reason) {
			t.Errorf("%q: reason %q, want one with %q", in, invalid.Reason, reason)
		}
		if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "ter2") {
			t.Errorf("%q: the password is in %q", in, err)
		}
	}
}

// Config URLs that addresses of an organization, a repository and an enterprise stand for.
const (
	acme = "https://github.com/acme"
	web  = "https://github.com/acme/web"
	big  = "https://github.com/enterprises/big"
)

// Whatever GitHub shows for an organization, repository or enterprise is understood, or refused with the address to
// use.
func TestAddressesThatGitHubShows(t *testing.T) {
	for in, want := range map[string]string{
		"https://github.com/acme?tab=repositories":                    acme,
		"https://github.com/acme/#top":                                acme,
		"https://github.com/orgs/acme":                                acme,
		"https://github.com/orgs/acme/repositories?type=all":          acme,
		"https://github.com/Orgs/acme/":                               acme,
		"https://github.com/organizations/acme/settings/actions":      acme,
		"https://api.github.com/orgs/acme":                            acme,
		"https://api.github.com/orgs/acme/actions/runners":            acme,
		"github.com/acme":                                             acme,
		"www.github.com/acme":                                         "https://www.github.com/acme",
		"https://github.com/acme/web.git":                             web,
		"https://github.com/acme/web.git/":                            web,
		"https://github.com/acme/web/":                                web,
		"https://github.com/acme/web/tree/main/docs":                  web,
		"https://github.com/acme/web/settings/actions/runners?page=2": web,
		"https://api.github.com/repos/acme/web":                       web,
		"git@github.com:acme/web.git":                                 web,
		"ssh://git@github.com/acme/web.git":                           web,
		"ssh://git@github.com:22/acme/web":                            web,
		"git://github.com/acme/web.git":                               web,
		"https://me:hunter2@github.com/acme/web":                      web,
		"https://github.com/enterprises/big/settings/actions/runners": big,
		"https://api.github.com/enterprises/big":                      big,
		"https://api.big.ghe.com/orgs/acme":                           "https://big.ghe.com/acme",
		"https://big.ghe.com/orgs/acme/people":                        "https://big.ghe.com/acme",
		"https://ghes.example:8443/api/v3/orgs/acme":                  "https://ghes.example:8443/acme",
		"https://ghes.example/api/v3/repos/acme/web/actions/runners":  "https://ghes.example/acme/web",
		"http://ghes.example/api/v3/enterprises/big":                  "http://ghes.example/enterprises/big",
		"https://ghes.example/api/v3":                                 "",
		"https://raw.githubusercontent.com/acme/web/main/a.sh":        web,
		"https://codeload.github.com/acme/web/zip/refs/heads/main":    web,
		"ssh://git@ssh.github.com:443/acme/web.git":                   web,
		"https://uploads.github.com/repos/acme/web/releases/1/assets": web,
		"https://uploads.big.ghe.com/orgs/acme":                       "https://big.ghe.com/acme",
		"https://github.com/acme/settings":                            "https://github.com/acme/settings",
		"https://ghes.example/acme/users":                             "https://ghes.example/acme/users",
		"https://notgithub.com/acme":                                  "https://notgithub.com/acme",
		"https://api.github.com/users/acme":                           "",
		"https://api.github.com/organizations/123/teams":              "",
		"https://api.github.com/repositories/123":                     "",
		"https://ghes.example/api/v3/user/repos":                      "",
		"https://github.com/users/acme":                               "",
		"github.com/users/acme/projects/1":                            "",
		"https://github.com/apps/x":                                   "",
		"https://github.com/Settings":                                 "",
		"https://github.com/settings/apps/x/permissions":              "",
		"https://github.com/marketplace/actions/checkout":             "",
		"https://ghes.example/settings/profile":                       "",
		"https://github.com/enterprises":                              "",
		"https://github.com/organizations/":                           "",
		"https://github.com/orgs":                                     "",
		"https://gist.github.com/acme":                                "",
		"https://GIST.github.com/acme/0123":                           "",
		"https://acme.github.io/web":                                  "",
		"https://avatars.githubusercontent.com/u/1":                   "",
		"https://github.com/orgs/../x":                                "",
		"https://github.com/acme/.git":                                "",
		"https://github.com/acme/x.git.git":                           "",
		"acme/web":                                                    "",
	} {
		got := ""
		config, err := configurl.Parse(in)
		var invalid *configurl.InvalidError
		switch {
		case err == nil:
			got = config.String()
		case errors.As(err, &invalid):
			got = invalid.Instead
			if got != "" && !strings.HasSuffix(err.Error(), "; use "+got) {
				t.Errorf("%q: %v doesn't end with the address to use", in, err)
			}
		}
		if got != want {
			t.Errorf("%q: got %q (%v), want %q", in, got, err, want)
		}
	}
}

func FuzzParseConfigURL(f *testing.F) {
	for _, seed := range []string{
		"https://github.com/acme", "http://h:1/enterprises/e", "https://u:p@h/o/r", "//", "https://h/%2f/b",
		"https://[::1]:8/o",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		const password = "p4ssw0rd"
		if _, err := configurl.Parse("https://me:" + password + "@" + in); err == nil ||
			strings.Contains(err.Error(), password) {
			t.Errorf("%q with a password: %v", in, err)
		}
		config, err := configurl.Parse(in)
		var invalid *configurl.InvalidError
		if errors.As(err, &invalid) && invalid.Instead != "" {
			config, err = configurl.Parse(invalid.Instead)
			if err != nil {
				t.Errorf("%q: it says to use %q: %v", in, invalid.Instead, err)
			}
		}
		if err != nil {
			return
		}
		again, err := configurl.Parse(config.String())
		if err != nil || again.Scope != config.Scope || again.Organization != config.Organization ||
			again.Repository != config.Repository {
			t.Errorf("%q: parsed again: %+v, %v; first %+v", in, again, err, config)
		}
		address := config.RunnersURL().JoinPath("registration-token")
		if parsed, err := url.Parse(address.String()); err != nil || parsed.Host != address.Host {
			t.Errorf("%q: address %s: %v", in, address, err)
		}
	})
}
