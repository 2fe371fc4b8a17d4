package actions

import (
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
)

// Scope is the level of GitHub at which a scale set is registered.
type Scope string

// The scopes that a config URL can name.
const (
	ScopeOrganization Scope = "organization"
	ScopeRepository   Scope = "repository"
	ScopeEnterprise   Scope = "enterprise"
)

// forceGHESVariable makes every host count as GitHub Enterprise Server. As in GitHub's own clients, its presence
// is enough, whatever its value.
const forceGHESVariable = "GITHUB_ACTIONS_FORCE_GHES"

// ConfigURL is the parsed web address of the organization, repository or enterprise at which runners register.
type ConfigURL struct {
	// URL is the address as configured, without leading and trailing slashes.
	URL *url.URL
	// Scope says which of the three names below are set.
	Scope Scope
	// Enterprise is set if Scope is ScopeEnterprise.
	Enterprise string
	// Organization is set if Scope is ScopeOrganization, and to the repository's owner if it is ScopeRepository.
	Organization string
	// Repository is set if Scope is ScopeRepository.
	Repository string
	// Hosted is true for github.com and *.ghe.com, and false for GitHub Enterprise Server, whose REST API is below /api/v3. It is
	// also false if the environment variable GITHUB_ACTIONS_FORCE_GHES is present.
	Hosted bool
}

// InvalidConfigURLError reports a config URL that can't be used.
type InvalidConfigURLError struct {
	// URL is the text that was given, without a user name or password.
	URL string
	// Reason says what is wrong with it.
	Reason string
}

// Error returns the reason and the valid forms.
func (e *InvalidConfigURLError) Error() string {
	return fmt.Sprintf("invalid config URL %q: %s; use https://HOST/ORGANIZATION, https://HOST/OWNER/REPOSITORY or https://HOST/enterprises/ENTERPRISE",
		e.URL, e.Reason)
}

// ParseConfigURL parses https://HOST/ORGANIZATION, https://HOST/OWNER/REPOSITORY or https://HOST/enterprises/ENTERPRISE. It
// accepts http:// too, and ignores white space and slashes around the address. It fails with *InvalidConfigURLError.
func ParseConfigURL(in string) (*ConfigURL, error) {
	trimmed := strings.Trim(strings.TrimSpace(in), "/")
	parsed, err := url.Parse(trimmed)
	if err != nil {
		// The parser's text quotes the input, password and all.
		return nil, &InvalidConfigURLError{URL: withoutUserinfo(trimmed), Reason: "it is not a URL"}
	}
	config := &ConfigURL{URL: parsed, Hosted: isHosted(parsed.Host)}
	reason := problemOfAddress(parsed)
	if reason == "" {
		reason = config.setScope(strings.Split(strings.Trim(parsed.Path, "/"), "/"))
	}
	if reason != "" {
		return nil, &InvalidConfigURLError{URL: withoutUserinfo(trimmed), Reason: reason}
	}
	return config, nil
}

// String returns the address as it is sent to GitHub.
func (c *ConfigURL) String() string { return c.URL.String() }

func problemOfAddress(u *url.URL) string {
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return "it must begin with https://"
	case u.Hostname() == "":
		return "it names no host"
	case u.User != nil:
		return "it must not hold a user name or password"
	}
	return ""
}

// setScope sets Scope and the names from the parts of the path, or returns what is wrong with them.
// A repository of an organization called "enterprises" can't be expressed; GitHub reserves that name.
func (c *ConfigURL) setScope(parts []string) (problem string) {
	if slices.ContainsFunc(parts, func(part string) bool { return part == "" || part == "." || part == ".." }) {
		return "its path has an empty or relative part"
	}
	switch {
	case len(parts) == 1:
		c.Scope, c.Organization = ScopeOrganization, parts[0]
	case len(parts) == 2 && strings.EqualFold(parts[0], "enterprises"):
		c.Scope, c.Enterprise = ScopeEnterprise, parts[1]
	case len(parts) == 2:
		c.Scope, c.Organization, c.Repository = ScopeRepository, parts[0], parts[1]
	default:
		return fmt.Sprintf("its path has %d parts", len(parts))
	}
	return ""
}

// isHosted compares the host including its port, as GitHub's own clients do: github.localhost is hosted,
// github.localhost:8080 is not.
func isHosted(host string) bool {
	if _, forced := os.LookupEnv(forceGHESVariable); forced {
		return false
	}
	host = strings.ToLower(host)
	return host == "github.com" || host == "www.github.com" || host == "github.localhost" ||
		strings.HasSuffix(host, ".ghe.com")
}

// restURL returns the address of a call to GitHub's REST API. It escapes each of the path's parts.
func (c *ConfigURL) restURL(parts ...string) *url.URL {
	base := &url.URL{Scheme: c.URL.Scheme, Host: c.URL.Host, Path: "/api/v3"}
	if c.Hosted {
		base.Host = "api." + strings.TrimPrefix(strings.ToLower(c.URL.Host), "www.")
		base.Path = "/"
	}
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	return base.JoinPath(parts...)
}

func (c *ConfigURL) registrationTokenURL() *url.URL {
	return c.runnersURL().JoinPath("registration-token")
}

// runnersURL returns the address of the runners in GitHub's REST API.
func (c *ConfigURL) runnersURL() *url.URL {
	var owner []string
	switch c.Scope {
	case ScopeEnterprise:
		owner = []string{"enterprises", c.Enterprise}
	case ScopeRepository:
		owner = []string{"repos", c.Organization, c.Repository}
	default:
		owner = []string{"orgs", c.Organization}
	}
	return c.restURL(append(owner, "actions", "runners")...)
}

// userinfo matches more than a parser would, because a password that is not escaped may contain slashes.
var userinfo = regexp.MustCompile(`(?s)^([A-Za-z][A-Za-z0-9+.-]*://)?.*@`)

func withoutUserinfo(address string) string {
	return userinfo.ReplaceAllString(address, "$1")
}
