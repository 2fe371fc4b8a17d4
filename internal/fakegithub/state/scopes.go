package state

import (
	"strings"
)

// Scope is an organization, a repository or an enterprise: what a config URL
// names. Scale sets and runners of different scopes don't see each other.
type Scope struct {
	ID    int
	Key   string // "orgs/acme", "repos/acme/app" or "enterprises/acme", lower case
	Owner string // organization, repository owner or enterprise
	Repo  string // empty unless the scope is a repository

	names map[string]*Runner // registered runners by lower-case name
}

// Scope returns the scope of a key, creating it when it is new. owner and repo
// are kept in the spelling of the first caller.
func (s *State) Scope(kind, owner, repo string) *Scope {
	key := ScopeKey(kind, owner, repo)
	if sc, ok := s.scopes[key]; ok {
		return sc
	}
	s.lastScope++
	sc := &Scope{ID: s.lastScope, Key: key, Owner: owner, Repo: repo, names: map[string]*Runner{}}
	s.scopes[key] = sc
	return sc
}

// ScopeKey is the canonical name of a scope; kind is orgs, repos or enterprises.
func ScopeKey(kind, owner, repo string) string {
	key := kind + "/" + owner
	if repo != "" {
		key += "/" + repo
	}
	return strings.ToLower(key)
}

// ScopeByKey returns nil when nobody has registered with that key.
func (s *State) ScopeByKey(key string) *Scope { return s.scopes[key] }

// covers tells whether a job of this owner and repository belongs to the scope.
// An enterprise covers everything; an unset field of the job fits any scope.
func (sc *Scope) covers(owner, repo string) bool {
	if strings.HasPrefix(sc.Key, "enterprises/") {
		return true
	}
	ownerFits := owner == "" || strings.EqualFold(owner, sc.Owner)
	repoFits := repo == "" || sc.Repo == "" || strings.EqualFold(repo, sc.Repo)
	return ownerFits && repoFits
}

// RunnerGroup is a runner group as the service answers it. Groups are shared by
// all scopes of one fake.
type RunnerGroup struct {
	ID        int    `json:"id"`
	Name      string `json:"name"`
	Size      int    `json:"size"`
	IsDefault bool   `json:"isDefaultGroup"`
}

// AddRunnerGroup creates a group, or returns the one of that name.
func (s *State) AddRunnerGroup(name string) RunnerGroup {
	if g := s.RunnerGroups(name); len(g) > 0 {
		return g[0]
	}
	g := RunnerGroup{ID: len(s.groups) + 1, Name: name}
	s.groups = append(s.groups, g)
	return g
}

// RunnerGroups returns the groups of that name, compared without regard to case;
// all groups when name is empty.
func (s *State) RunnerGroups(name string) []RunnerGroup {
	found := []RunnerGroup{}
	for _, g := range s.groups {
		if name == "" || strings.EqualFold(g.Name, name) {
			found = append(found, g)
		}
	}
	return found
}

func (s *State) groupName(id int) (string, bool) {
	for _, g := range s.groups {
		if g.ID == id {
			return g.Name, true
		}
	}
	return "", false
}
