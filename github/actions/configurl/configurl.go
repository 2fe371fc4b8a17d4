// Package configurl understands config URLs: the web addresses of the organizations, repositories and enterprises at
// which runners register. It tells which of the three an address is, the address of its REST API, and the address to
// use in place of an invalid one.
package configurl

import (
	"cmp"
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

// URL is the parsed web address of the organization, repository or enterprise at which runners register.
type URL struct {
	// URL is the address as configured, without leading and trailing slashes.
	URL *url.URL
	// Scope decides which of the three names below are set.
	Scope Scope
	// Enterprise is set if Scope is ScopeEnterprise.
	Enterprise string
	// Organization is set if Scope is ScopeOrganization, and to the repository's owner if it is ScopeRepository.
	Organization string
	// Repository is set if Scope is ScopeRepository.
	Repository string
	// Hosted is true for github.com and *.ghe.com, and false for GitHub Enterprise Server, whose REST API is below
	// /api/v3. It is also false if the environment variable GITHUB_ACTIONS_FORCE_GHES is present.
	Hosted bool
}

// InvalidError reports a config URL that can't be used.
type InvalidError struct {
	// URL is the text that was given, without a user name or password.
	URL string
	// Reason is what is wrong with it.
	Reason string
	// Instead is the address to use, if URL shows it.
	Instead string
}

// Error returns the reason and the address to use, or the valid forms.
func (e *InvalidError) Error() string {
	use := cmp.Or(
		e.Instead, "https://HOST/ORGANIZATION, https://HOST/OWNER/REPOSITORY or https://HOST/enterprises/ENTERPRISE",
	)
	return fmt.Sprintf("invalid config URL %q: %s; use %s", e.URL, e.Reason, use)
}

// Parse parses https://HOST/ORGANIZATION, https://HOST/OWNER/REPOSITORY or https://HOST/enterprises/ENTERPRISE. It
// accepts http:// too, and ignores white space and slashes around the address, and a query or fragment after it. It
// fails with *InvalidError, which has the address to use instead if GitHub shows the given one for one of these three.
func Parse(in string) (*URL, error) {
	trimmed := strings.Trim(strings.TrimSpace(in), "/")
	config, problem := parse(trimmed)
	if problem != "" {
		return nil, &InvalidError{URL: withoutUserinfo(trimmed), Reason: problem, Instead: shownAs(trimmed)}
	}
	return config, nil
}

func parse(address string) (config *URL, problem string) {
	parsed, err := url.Parse(address)
	if err != nil {
		return nil, "it is not a URL" // the parser's text quotes the input, password and all
	}
	parsed.RawQuery, parsed.ForceQuery, parsed.Fragment, parsed.RawFragment = "", false, "", ""
	parsed.Path, parsed.RawPath = strings.TrimRight(parsed.Path, "/"), strings.TrimRight(parsed.RawPath, "/")
	if problem := problemOfAddress(parsed); problem != "" {
		return nil, problem
	}
	config = &URL{URL: parsed, Hosted: isHosted(parsed.Host)}
	return config, config.setScope(strings.Split(strings.Trim(parsed.Path, "/"), "/"))
}

// String returns the address as it is sent to GitHub.
func (c *URL) String() string { return c.URL.String() }

func problemOfAddress(u *url.URL) string {
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return "it must begin with https://"
	case u.Hostname() == "":
		return "it names no host"
	case strings.Contains(u.Host, "%"):
		return "its host has a zone or an escaped character"
	case u.User != nil:
		return "it must not hold a user name or password"
	}
	if _, isAPI := hostOfAPI(u.Host); isAPI || isAPIPath(u.Path) {
		return "it is an address of GitHub's API"
	}
	if otherHost.MatchString(u.Hostname()) && !strings.EqualFold(u.Hostname(), "www.github.com") {
		return "its host has no pages of organizations, repositories and enterprises"
	}
	return ""
}

// hostOfAPI returns the host of the web pages that belong to a hosted GitHub's API.
func hostOfAPI(host string) (web string, isAPI bool) {
	host = strings.ToLower(host)
	for _, prefix := range []string{"api.", "uploads."} {
		if web, isAPI = strings.CutPrefix(host, prefix); isAPI && isHosted(web) {
			return web, true
		}
	}
	return "", false
}

// otherHost matches github.com's hosts for other things, such as gists, files and downloads. The chart of scale sets
// has the same rule, and that of contentHost and otherPages.
var otherHost = regexp.MustCompile(`(?i)(\.github\.com|(^|\.)githubusercontent\.com|\.github\.io)$`)

// contentHost matches those of otherHost whose paths begin with owner and repository.
var contentHost = regexp.MustCompile(`(?i)^(raw\.githubusercontent|codeload\.github|ssh\.github)\.com$`)

// otherPages are names that nobody can have, because GitHub has pages about other things there.
var otherPages = []string{
	"account", "apps", "collections", "dashboard", "explore", "login", "marketplace", "notifications", "search",
	"settings", "sponsors", "stars", "topics", "users",
}

// isAPIPath reports whether a path is one of the REST API of a GitHub Enterprise Server.
func isAPIPath(path string) bool { return strings.HasPrefix(path+"/", "/api/v3/") }

// scpAddress matches an address for SSH without a scheme as git writes it: git@HOST:PATH.
var scpAddress = regexp.MustCompile(`^[\w.-]+@([\w.-]+):([^/].*)$`)

// shownAs returns the config URL for an address of an organization, repository or enterprise in another form: a page
// about it or below it, its address in the REST API or for git, or one without a scheme. It returns "" if the address
// doesn't show which organization, repository or enterprise is meant.
func shownAs(address string) string {
	if scp := scpAddress.FindStringSubmatch(address); scp != nil {
		address = "https://" + scp[1] + "/" + scp[2]
	}
	address = withoutUserinfo(address)
	if !strings.Contains(address, "://") {
		address = "https://" + address
	}
	shown, err := url.Parse(address)
	if err != nil || !strings.Contains(shown.Hostname(), ".") {
		return ""
	}
	use := url.URL{Scheme: "https", Host: shown.Host}
	switch shown.Scheme {
	case "http":
		use.Scheme = "http"
	case "ssh", "git":
		use.Host = shown.Hostname() // its port is not the web's
	}
	web, isAPI := hostOfAPI(use.Host)
	if isAPI {
		use.Host = web
	} else if contentHost.MatchString(use.Host) {
		use.Host = "github.com"
	}
	path := strings.Trim(shown.Path, "/")
	if isAPIPath("/" + path) {
		isAPI, path = true, strings.Trim(strings.TrimPrefix(path, "api/v3"), "/")
	}
	parts := strings.Split(path, "/")
	if isAPI && !slices.Contains([]string{"orgs", "repos", "enterprises"}, strings.ToLower(parts[0])) {
		return "" // others are numbers, or of no organization at all
	}
	parts = shownParts(parts)
	if parts == nil {
		return ""
	}
	instead := use.JoinPath(parts...).String()
	if _, problem := parse(instead); problem != "" {
		return ""
	}
	return instead
}

// shownParts returns the parts of a config URL's path for those of another address, nil if it names no organization or
// repository.
func shownParts(parts []string) []string {
	length := 2
	switch strings.ToLower(parts[0]) {
	case "orgs", "organizations":
		parts, length = parts[1:], 1
	case "repos":
		parts = parts[1:]
	}
	if len(parts) == 0 || slices.ContainsFunc(parts, isNoName) {
		return nil
	}
	parts = parts[:min(len(parts), length)]
	last := &parts[len(parts)-1]
	if len(*last) > len(".git") && strings.HasSuffix(strings.ToLower(*last), ".git") {
		*last = (*last)[:len(*last)-len(".git")]
	}
	return parts
}

// isNoName reports whether a part of a path can't be a name.
func isNoName(part string) bool { return part == "" || part == "." || part == ".." }

// setScope sets Scope and the names from the parts of the path, or returns what is wrong with them.
func (c *URL) setScope(parts []string) (problem string) {
	if slices.ContainsFunc(parts, isNoName) {
		return "its path has an empty or relative part"
	}
	switch page := strings.ToLower(parts[0]); {
	case slices.Contains(otherPages, page):
		return "GitHub has a page of its own there"
	case len(parts) == 1 && slices.Contains([]string{"enterprises", "organizations", "orgs"}, page):
		return "it doesn't say which"
	case page == "orgs" || page == "organizations":
		return "it is the address of a page about an organization"
	case strings.HasSuffix(strings.ToLower(parts[len(parts)-1]), ".git"):
		return "it is an address for git"
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

// RESTURL returns the address of a call to GitHub's REST API. It escapes each of the path's parts.
func (c *URL) RESTURL(parts ...string) *url.URL {
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

// RunnersURL returns the address of the runners in GitHub's REST API.
func (c *URL) RunnersURL() *url.URL {
	var owner []string
	switch c.Scope {
	case ScopeEnterprise:
		owner = []string{"enterprises", c.Enterprise}
	case ScopeRepository:
		owner = []string{"repos", c.Organization, c.Repository}
	default:
		owner = []string{"orgs", c.Organization}
	}
	return c.RESTURL(append(owner, "actions", "runners")...)
}

// userinfo matches more than a parser would, because a password that is not escaped may contain slashes.
var userinfo = regexp.MustCompile(`(?s)^([A-Za-z][A-Za-z0-9+.-]*://)?.*@`)

func withoutUserinfo(address string) string {
	return userinfo.ReplaceAllString(address, "$1")
}
