package fakegithub

import (
	"fmt"
	"net/url"
	"strings"
)

// target is the scope a config URL names.
type target struct{ kind, owner, repo string }

// parseConfigURL reads "https://host/org", "…/owner/repo" or
// "…/enterprises/name"; anything else is an error.
func parseConfigURL(raw string) (target, error) {
	parsed, err := url.Parse(strings.Trim(raw, "/"))
	if err != nil {
		return target{}, fmt.Errorf("invalid config URL: %w", err)
	}
	parts := strings.Split(strings.Trim(parsed.Path, "/"), "/")
	switch {
	case parsed.Host == "" || parts[0] == "" || len(parts) > 2:
		return target{}, fmt.Errorf("invalid config URL %q: it must name an organization, a repository or an enterprise", raw)
	case len(parts) == 1:
		return target{kind: "orgs", owner: parts[0]}, nil
	case strings.EqualFold(parts[0], "enterprises"):
		return target{kind: "enterprises", owner: parts[1]}, nil
	}
	return target{kind: "repos", owner: parts[0], repo: parts[1]}, nil
}
