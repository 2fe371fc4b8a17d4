package fakegithub

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/internal/fakegithub/checks"
	"github.com/harrier-ci/harrier/internal/fakegithub/state"
)

// restCaller makes a call of the REST API about a repository.
type restCaller struct{ app, owner, repo string }

// restCall wraps a handler of the REST API about a repository: the credential must be good, have the permission
// NAME=LEVEL, none for what is public, and be within its limits. The handler runs under the lock.
func restCall(
	permission string, handle func(*Server, time.Time, restCaller, *request) reply,
) func(*Server, *request) reply {
	return func(s *Server, r *request) (rep reply) {
		s.do(func(now time.Time) {
			credential := bearer(r.Header.Get("Authorization"), "Bearer")
			if !s.tokens.acceptsREST(now, credential) {
				rep = restError(http.StatusUnauthorized, "Bad credentials")
				return
			}
			rep = s.tokens.limited(now, spender{credential, coreResource}, coreLimit, func() reply {
				if refused := s.tokens.permit(now, credential, permission, r.Method); refused != nil {
					return *refused
				}
				of := s.tokens.installation[credential]
				return handle(s, now, restCaller{app: of.app, owner: r.PathValue("owner"), repo: r.PathValue("repo")}, r)
			})
			rep.header["X-Accepted-GitHub-Permissions"] = permission
		})
		return rep
	}
}

// permit returns the refusal of a call that the credential may not make, nil if it may. A personal access token may do
// all but write checks.
func (t *tokens) permit(now time.Time, credential, permission, method string) *reply {
	name, level, _ := strings.Cut(permission, "=")
	who, isInstallation := t.installation[credential]
	refused := restError(http.StatusForbidden, "Resource not accessible by integration")
	switch has := who.permissions[name]; {
	case !isInstallation && permission == "checks=write":
		refused = restError(http.StatusForbidden, "You must authenticate via a GitHub App.")
	case isInstallation && who.permissions != nil && has != level && has != "write":
	case method != http.MethodGet && !t.mayCreate(now, who.app+"/"+credential[:min(4, len(credential))]):
		refused = restError(http.StatusForbidden,
			"You have exceeded a secondary rate limit. Please wait a few minutes before you try again.")
		refused.header = map[string]string{"Retry-After": "60"}
	default:
		return nil
	}
	return &refused
}

// restFailure is the REST API's answer to a refusal.
func restFailure(err error) reply {
	refused, ok := errors.AsType[*state.Error](err)
	if !ok || refused.Kind == state.RunNotFound {
		return restError(http.StatusNotFound, "Not Found")
	}
	return restError(http.StatusForbidden, refused.Message)
}

// orNull is nil for the zero value, which the REST API writes as null.
func orNull[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}

// listReleased answers with the files of the newest runner or, of actions/runner itself, with its newest releases: that
// repository is on github.com only.
func listReleased(s *Server, now time.Time, of restCaller, r *request) reply {
	if of.owner != "" {
		return restReply(http.StatusOK, s.state.Releases(now).Downloads())
	}
	if r.Host != "api.github.com" {
		return restError(http.StatusNotFound, "Not Found")
	}
	perPage := min(number(r.URL.Query().Get("per_page"), defaultPerPage), mostPerPage)
	return restReply(http.StatusOK, s.state.Releases(now).Newest(perPage))
}

// checkRunAnswer is a check run as the REST API writes it.
type checkRunAnswer struct {
	ID int64 `json:"id"`
	checks.Content
}

func listCheckRuns(s *Server, _ time.Time, of restCaller, r *request) reply {
	found := s.checks.Of(of.owner, of.repo, r.PathValue("sha"), r.URL.Query().Get("check_name"))
	if r.URL.Query().Get("filter") != "all" { // the newest of each name
		found = slices.DeleteFunc(slices.Clone(found), func(c checks.CheckRun) bool {
			return slices.ContainsFunc(found, func(other checks.CheckRun) bool {
				return other.App == c.App && other.Name == c.Name && other.ID > c.ID
			})
		})
	}
	slices.Reverse(found)
	listed := []checkRunAnswer{}
	for _, check := range pageOf(found, r) {
		listed = append(listed, checkRunAnswer{check.ID, check.Content})
	}
	return restReply(http.StatusOK, struct {
		TotalCount int              `json:"total_count"`
		CheckRuns  []checkRunAnswer `json:"check_runs"`
	}{len(found), listed})
}

func createCheckRun(s *Server, now time.Time, of restCaller, r *request) reply {
	var content checks.Content
	if err := json.Unmarshal(r.body, &content); err != nil {
		return restError(http.StatusBadRequest, "Problems parsing JSON")
	}
	if content.Name == "" || content.HeadSHA == "" {
		return restError(http.StatusUnprocessableEntity, "Invalid request")
	}
	check := s.checks.Create(now, of.app, of.owner, of.repo, content)
	return restReply(http.StatusCreated, checkRunAnswer{check.ID, check.Content})
}

func updateCheckRun(s *Server, now time.Time, of restCaller, r *request) reply {
	id, err := strconv.ParseInt(r.PathValue("check"), 10, 64)
	if err != nil {
		return restFailure(err)
	}
	var content checks.Content
	if err := json.Unmarshal(r.body, &content); err != nil {
		return restError(http.StatusBadRequest, "Problems parsing JSON")
	}
	check, found := s.checks.Update(now, of.app, of.owner, of.repo, id, content)
	if !found {
		return restError(http.StatusNotFound, "Not Found")
	}
	return restReply(http.StatusOK, checkRunAnswer{check.ID, check.Content})
}

const (
	defaultPerPage = 30
	mostPerPage    = 100
)

// listedRunner is a runner as the REST API lists it.
type listedRunner struct {
	ID     int           `json:"id"`
	Name   string        `json:"name"`
	OS     string        `json:"os"`
	Status string        `json:"status"`
	Busy   bool          `json:"busy"`
	Labels []listedLabel `json:"labels"`
}

type listedLabel struct {
	ID   int    `json:"id"`
	Name string `json:"name"`
	Type string `json:"type"`
}

// listRunners answers one page of the runners of an organization, a repository or an enterprise.
func (s *Server) listRunners(r *request) (rep reply) {
	key, ok := restScope(r)
	if !ok {
		return restError(http.StatusNotFound, "Not Found")
	}
	query := r.URL.Query()
	s.do(func(now time.Time) {
		credential := bearer(r.Header.Get("Authorization"), "Bearer")
		if !s.tokens.acceptsREST(now, credential) {
			rep = restError(http.StatusUnauthorized, "Bad credentials")
			return
		}
		rep = s.tokens.limited(now, spender{credential, coreResource}, coreLimit, func() reply {
			all := s.registered(key, query.Get("name"))
			return restReply(http.StatusOK, struct {
				TotalCount int            `json:"total_count"`
				Runners    []listedRunner `json:"runners"`
			}{len(all), pageOf(all, r)})
		})
	})
	return rep
}

// restScope returns the key of the scope in a request's path, and whether there can be one.
func restScope(r *request) (key string, ok bool) {
	kind, owner, repo := r.PathValue("kind"), r.PathValue("owner"), r.PathValue("repo")
	if (kind == "repos") != (repo != "") || !slices.Contains([]string{"orgs", "repos", "enterprises"}, kind) {
		return "", false
	}
	return state.ScopeKey(kind, owner, repo), true
}

// pageOf returns the page of a list that a request asks for.
func pageOf[T any](all []T, r *request) []T {
	query := r.URL.Query()
	perPage := min(number(query.Get("per_page"), defaultPerPage), mostPerPage)
	from := min((number(query.Get("page"), 1)-1)*perPage, len(all))
	return all[from:min(from+perPage, len(all))]
}

// number reads a parameter that must be positive.
func number(text string, otherwise int) int {
	if n, err := strconv.Atoi(text); err == nil && n > 0 {
		return n
	}
	return otherwise
}

// registered describes the runners of a scope, or the one with that name, in the order of their registration. The
// caller holds the lock.
func (s *Server) registered(key, name string) []listedRunner {
	scope := s.state.ScopeByKey(key)
	if scope == nil {
		return []listedRunner{}
	}
	runners := s.state.RunnersByName(scope, name)
	slices.SortFunc(runners, func(a, b *state.Runner) int { return cmp.Compare(a.ID, b.ID) })
	listed := make([]listedRunner, len(runners))
	for i, runner := range runners {
		listed[i] = listedRunner{
			ID: runner.ID, Name: runner.Name, OS: "unknown", Status: describeRunner(runner).Status, Busy: runner.Busy(),
			Labels: []listedLabel{},
		}
		if !runner.OnlineAt.IsZero() {
			listed[i].OS = "linux" // a runner tells when it connects
		}
		for id, label := range runner.Set.Labels {
			listed[i].Labels = append(listed[i].Labels, listedLabel{ID: id + 1, Name: label.Name, Type: "custom"})
		}
	}
	return listed
}

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
