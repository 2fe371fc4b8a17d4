package fakegithub

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/harrier-ci/harrier/internal/fakegithub/state"
)

// runnerAnswer is a runner as the service writes it.
type runnerAnswer struct {
	ID               int            `json:"id"`
	Name             string         `json:"name"`
	RunnerScaleSetID int            `json:"runnerScaleSetId"`
	Enabled          bool           `json:"enabled"`
	Status           string         `json:"status"`
	Ephemeral        bool           `json:"ephemeral"`
	CreatedOn        state.WireTime `json:"createdOn"`
}

func describeRunner(r *state.Runner) runnerAnswer {
	status := "offline"
	if r.Online {
		status = "online"
	}
	return runnerAnswer{
		ID: r.ID, Name: r.Name, RunnerScaleSetID: r.Set.ID, Enabled: true, Status: status,
		Ephemeral: true, CreatedOn: state.WireTime(r.RegisteredAt),
	}
}

func generateJITConfig(s *Server, now time.Time, scope *state.Scope, r *request) reply {
	var body struct {
		Name       string `json:"name"`
		WorkFolder string `json:"workFolder"`
	}
	if err := json.Unmarshal(r.body, &body); err != nil {
		return errorReply(err)
	}
	runner, err := s.state.RegisterRunner(now, scope, pathID(r), body.Name, body.WorkFolder)
	if err != nil {
		return errorReply(err)
	}
	encoded, err := encodeJITConfig(runner, s.runnerURL(r), gitHubURL(scope))
	if err != nil {
		return errorReply(err)
	}
	return jsonReply(http.StatusOK, struct {
		Runner  runnerAnswer `json:"runner"`
		Encoded string       `json:"encodedJITConfig"`
	}{describeRunner(runner), encoded})
}

func gitHubURL(scope *state.Scope) string {
	url := "https://github.com/" + scope.Owner
	if scope.Repo != "" {
		url += "/" + scope.Repo
	}
	return url
}

func getRunner(s *Server, _ time.Time, scope *state.Scope, r *request) reply {
	runner, err := s.state.Runner(scope, pathID(r))
	if err != nil {
		return errorReply(err)
	}
	return jsonReply(http.StatusOK, describeRunner(runner))
}

func findRunners(s *Server, _ time.Time, scope *state.Scope, r *request) reply {
	answers := []runnerAnswer{}
	for _, runner := range s.state.RunnersByName(scope, r.URL.Query().Get("agentName")) {
		answers = append(answers, describeRunner(runner))
	}
	return listReply(answers)
}

func removeRunner(s *Server, _ time.Time, scope *state.Scope, r *request) reply {
	if err := s.state.RemoveRunner(scope, pathID(r)); err != nil {
		return errorReply(err)
	}
	return emptyReply(http.StatusNoContent)
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
	perPage := min(number(query.Get("per_page"), defaultPerPage), mostPerPage)
	page := number(query.Get("page"), 1)
	s.do(func(now time.Time) {
		credential := bearer(r.Header.Get("Authorization"), "Bearer")
		if !s.tokens.acceptsREST(now, credential) {
			rep = restError(http.StatusUnauthorized, "Bad credentials")
			return
		}
		rep = s.tokens.limited(now, spender{credential, coreResource}, coreLimit, func() reply {
			all := s.registered(key, query.Get("name"))
			from := min((page-1)*perPage, len(all))
			return restReply(http.StatusOK, struct {
				TotalCount int            `json:"total_count"`
				Runners    []listedRunner `json:"runners"`
			}{len(all), all[from:min(from+perPage, len(all))]})
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

// number reads a parameter that must be positive.
func number(text string, otherwise int) int {
	if n, err := strconv.Atoi(text); err == nil && n > 0 {
		return n
	}
	return otherwise
}

// registered describes the runners of a scope, or the one with that name, in the order of their registration. The caller holds the
// lock.
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
