// Package tenants decides whether the administrator of a controller allows a scale set, as the admission policies of
// the chart do that are made from its value tenants.
package tenants

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// tenant is an entry of the value tenants of the controller's chart, from which the chart renders admission policies.
// Those are CEL. What they decide, and how they put it, is repeated here; a test in test/charts compares the two. An
// empty list allows everything.
type tenant struct {
	Namespaces   []string `json:"namespaces"`
	GitHubURLs   []string `json:"gitHubURLs"`
	RunnerGroups []string `json:"runnerGroups"`
	// MaxRunners 0 is no limit.
	MaxRunners int `json:"maxRunners"`

	// number is the entry's index in the value.
	number int
}

// Entries are the value as a whole.
type Entries []tenant

// Set has the fields of a scale set that entries limit.
type Set struct {
	Namespace, URL, Group string
	// MaxRunners is the most that it ever asks for, schedules included; nil if there is no limit.
	MaxRunners *int
}

// The forms that the schema of the controller's chart accepts.
var (
	namespacePattern = regexp.MustCompile(`^[a-z0-9*]([a-z0-9*-]*[a-z0-9*])?$`)
	allowedAddress   = regexp.MustCompile(`^https?://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?(/[A-Za-z0-9._~-]+)*/?$`)
)

// Read returns the entries in values of the controller's chart. What the chart refuses is an error.
func Read(controllerValues []byte) (Entries, error) {
	var values map[string]any
	if err := yaml.Unmarshal(controllerValues, &values); err != nil {
		return nil, fmt.Errorf("not values of the chart gha-runner-scale-set-controller: %w", err)
	}
	content, err := yaml.Marshal(values["tenants"])
	if err != nil {
		return nil, fmt.Errorf("tenants: %w", err)
	}
	var entries Entries
	if err := yaml.UnmarshalStrict(content, &entries); err != nil {
		return nil, fmt.Errorf("tenants: %w; an entry has the lists namespaces, gitHubURLs and runnerGroups, and "+
			"the number maxRunners", err)
	}
	for i := range entries {
		entries[i].number = i
		if err := entries[i].check(); err != nil {
			return nil, fmt.Errorf("tenants, entry %d: %w", i+1, err)
		}
	}
	return entries, nil
}

func (t tenant) check() error {
	for _, pattern := range t.Namespaces {
		if !namespacePattern.MatchString(pattern) {
			return fmt.Errorf("namespaces has %q, which the chart refuses: use names of namespaces, with * for any "+
				"characters", pattern)
		}
	}
	for _, address := range t.GitHubURLs {
		if !allowedAddress.MatchString(address) {
			return fmt.Errorf("gitHubURLs has %q, which the chart refuses: use https://HOST/ORGANIZATION, for example",
				address)
		}
	}
	if slices.Contains(t.RunnerGroups, "") || t.MaxRunners < 0 {
		return errors.New("runnerGroups has an empty name, or maxRunners is negative, which the chart " +
			"refuses: use [] and 0 for no limit")
	}
	return nil
}

func (t tenant) appliesTo(namespace string) bool {
	return len(t.Namespaces) == 0 || slices.ContainsFunc(t.Namespaces, func(pattern string) bool {
		return regexp.MustCompile(`^` + strings.ReplaceAll(pattern, "*", ".*") + `$`).MatchString(namespace)
	})
}

// plainAddress is the form of an address that can be below another: not one with a user, an escaped slash, or dots that
// lead up.
var plainAddress = regexp.MustCompile(`^https?://([a-z0-9.-]+|\[[0-9a-f:.]+\])(:[0-9]+)?(/[a-z0-9._~-]*[a-z0-9_~-][a-z0-9._~-]*)+/?$`)

func (t tenant) allowsAddress(address string) bool {
	if len(t.GitHubURLs) == 0 {
		return true
	}
	address = lowerASCII(address)
	return plainAddress.MatchString(address) && slices.ContainsFunc(t.GitHubURLs, func(allowed string) bool {
		parent := withoutUsualPort(strings.TrimSuffix(lowerASCII(allowed), "/"))
		rest, below := strings.CutPrefix(withoutUsualPort(address), parent)
		return below && (rest == "" || rest[0] == '/')
	})
}

// lowerASCII leaves other letters as they are: some of them have an ASCII letter as their lower case.
func lowerASCII(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, text)
}

// usualPort matches the port that an address means if it has none. A longer number that begins like it is another port.
var usualPort = regexp.MustCompile(`^(http://[^/]*[^/:]):80(/|$)|^(https://[^/]*[^/:]):443(/|$)`)

func withoutUsualPort(address string) string { return usualPort.ReplaceAllString(address, "$1$3$2$4") }

// defaultGroup is the group of a scale set that names none.
const defaultGroup = "Default"

func groupName(given string) string {
	if given == "" || lowerASCII(given) == lowerASCII(defaultGroup) {
		return defaultGroup
	}
	return given
}

func (t tenant) allowsGroup(group string) bool {
	return len(t.RunnerGroups) == 0 || slices.Contains(t.groups(), group)
}

func (t tenant) groups() (names []string) {
	for _, group := range t.RunnerGroups {
		names = append(names, groupName(group))
	}
	return names
}

func (t tenant) allowsNumber(maxRunners *int) bool {
	return t.MaxRunners == 0 || (maxRunners != nil && *maxRunners <= t.MaxRunners)
}

// where returns the entries that allow something.
func (all Entries) where(allows func(tenant) bool) Entries {
	return slices.DeleteFunc(slices.Clone(all), func(t tenant) bool { return !allows(t) })
}

// choices lists what the entries allow of something.
func (all Entries) choices(of func(tenant) []string) string {
	var texts []string
	for _, t := range all {
		texts = append(texts, of(t)...)
	}
	return strings.Join(texts, " or ")
}

// Decide returns the entry that allows the scale set as a whole, or else the refusal of the entries that come closest.
func (all Entries) Decide(set Set) (allowedBy int, refusal string) {
	const decides = ". The value tenants of the chart gha-runner-scale-set-controller decides; whoever " +
		"administers its release can change it"
	refused := func(format string, arguments ...any) (int, string) {
		return -1, fmt.Sprintf(format, arguments...) + decides
	}
	ofNamespace := all.where(func(t tenant) bool { return t.appliesTo(set.Namespace) })
	if len(ofNamespace) == 0 {
		return refused("namespace %s is in no entry of tenants", set.Namespace)
	}
	ofAddress := ofNamespace.where(func(t tenant) bool { return t.allowsAddress(set.URL) })
	if len(ofAddress) == 0 {
		shown := set.URL
		if strings.Contains(shown, "@") { // perhaps a password
			shown = "(not shown, because it has an @)"
		}
		return refused("githubConfigUrl %s is not allowed in namespace %s: it must be, or be below, %s", shown,
			set.Namespace,
			ofNamespace.choices(func(t tenant) []string { return t.GitHubURLs }))
	}
	group := groupName(set.Group)
	ofGroup := ofAddress.where(func(t tenant) bool { return t.allowsGroup(group) })
	if len(ofGroup) == 0 {
		return refused("runnerGroup %s is not allowed in namespace %s: it must be %s", group, set.Namespace,
			ofAddress.choices(tenant.groups))
	}
	ofLimit := ofGroup.where(func(t tenant) bool { return t.allowsNumber(set.MaxRunners) })
	if len(ofLimit) == 0 {
		number := "is not set"
		if set.MaxRunners != nil {
			number = strconv.Itoa(*set.MaxRunners) + " is not allowed"
		}
		return refused("maxRunners %s in namespace %s: it must be at most %s", number, set.Namespace,
			ofGroup.choices(func(t tenant) []string { return []string{strconv.Itoa(t.MaxRunners)} }))
	}
	return ofLimit[0].number, ""
}
