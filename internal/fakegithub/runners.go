package fakegithub

import (
	"encoding/json"
	"net/http"
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
