package fakegithub

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/internal/fakegithub/state"
)

// scaleSetRequest is the body of create and update. Clients send zero values for
// what they do not mean, so those count as absent. Unknown keys are ignored.
type scaleSetRequest struct {
	Name          string              `json:"name"`
	RunnerGroupID int                 `json:"runnerGroupId"`
	Labels        []state.Label       `json:"labels"`
	RunnerSetting state.RunnerSetting `json:"RunnerSetting"` // matched in any case
}

func (r *request) scaleSetSpec() (state.ScaleSetSpec, error) {
	var body scaleSetRequest
	if err := json.Unmarshal(r.body, &body); err != nil {
		return state.ScaleSetSpec{}, err
	}
	return state.ScaleSetSpec{
		Name: body.Name, RunnerGroupID: body.RunnerGroupID, Labels: body.Labels, Setting: body.RunnerSetting,
	}, nil
}

// scaleSetAnswer is a scale set as the service writes it.
type scaleSetAnswer struct {
	ID              int                 `json:"id"`
	Name            string              `json:"name"`
	RunnerGroupID   int                 `json:"runnerGroupId"`
	RunnerGroupName string              `json:"runnerGroupName"`
	Labels          []state.Label       `json:"labels"`
	RunnerSetting   state.RunnerSetting `json:"runnerSetting"`
	CreatedOn       state.WireTime      `json:"createdOn"`
	JITConfigURL    string              `json:"runnerJitConfigUrl"`
	Statistics      state.Statistics    `json:"statistics"`
}

func (s *Server) describeScaleSet(r *request, set *state.ScaleSet) scaleSetAnswer {
	url := s.publicURL(r) + "/services/" + s.tokens.serviceName(set.Scope.ID) +
		"/_apis/runtime/runnerscalesets/" + strconv.Itoa(set.ID) + "/generatejitconfig"
	return scaleSetAnswer{
		ID: set.ID, Name: set.Name, RunnerGroupID: set.GroupID, RunnerGroupName: set.GroupName,
		Labels: set.Labels, RunnerSetting: set.Setting, CreatedOn: state.WireTime(set.CreatedOn),
		JITConfigURL: url, Statistics: s.state.Statistics(set),
	}
}

// scaleSetReply answers one scale set or the refusal.
func (s *Server) scaleSetReply(r *request, set *state.ScaleSet, err error) reply {
	if err != nil {
		return errorReply(err)
	}
	return jsonReply(http.StatusOK, s.describeScaleSet(r, set))
}

func findScaleSets(s *Server, _ time.Time, scope *state.Scope, r *request) reply {
	query := r.URL.Query()
	group := 0
	if text := query.Get("runnerGroupId"); text != "" {
		id, err := strconv.Atoi(text)
		if err != nil {
			return errorReply(err)
		}
		group = id
	}
	answers := []scaleSetAnswer{}
	for _, set := range s.state.ScaleSets(scope, group, query.Get("name")) {
		answers = append(answers, s.describeScaleSet(r, set))
	}
	return listReply(answers)
}

func getScaleSet(s *Server, _ time.Time, scope *state.Scope, r *request) reply {
	set, err := s.state.ScaleSet(scope, pathID(r))
	return s.scaleSetReply(r, set, err)
}

func createScaleSet(s *Server, now time.Time, scope *state.Scope, r *request) reply {
	spec, err := r.scaleSetSpec()
	if err != nil {
		return errorReply(err)
	}
	set, err := s.state.CreateScaleSet(now, scope, spec)
	return s.scaleSetReply(r, set, err)
}

func updateScaleSet(s *Server, now time.Time, scope *state.Scope, r *request) reply {
	spec, err := r.scaleSetSpec()
	if err != nil {
		return errorReply(err)
	}
	set, err := s.state.UpdateScaleSet(now, scope, pathID(r), spec)
	return s.scaleSetReply(r, set, err)
}

func deleteScaleSet(s *Server, now time.Time, scope *state.Scope, r *request) reply {
	if err := s.state.DeleteScaleSet(now, scope, pathID(r), true); err != nil {
		return errorReply(err)
	}
	return emptyReply(http.StatusNoContent)
}

func findRunnerGroups(s *Server, _ time.Time, _ *state.Scope, r *request) reply {
	return listReply(s.state.RunnerGroups(r.URL.Query().Get("groupName")))
}

// runnerAnswer is a runner as the service writes it.
type runnerAnswer struct {
	ID               int            `json:"id"`
	Name             string         `json:"name"`
	RunnerScaleSetID int            `json:"runnerScaleSetId"`
	Enabled          bool           `json:"enabled"`
	Status           string         `json:"status"`
	Ephemeral        bool           `json:"ephemeral"`
	CreatedOn        state.WireTime `json:"createdOn"`
	Version          string         `json:"version,omitempty"`
}

func describeRunner(r *state.Runner) runnerAnswer {
	status := "offline"
	if r.Online {
		status = "online"
	}
	return runnerAnswer{
		ID: r.ID, Name: r.Name, RunnerScaleSetID: r.Set.ID, Enabled: true, Status: status,
		Ephemeral: true, CreatedOn: state.WireTime(r.RegisteredAt), Version: r.Version,
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
	address := strings.TrimRight(s.opts.RunnerURL, "/") // which the JIT config tells the runner to use
	if address == "" {
		address = s.publicURL(r)
	}
	encoded, err := encodeJITConfig(runner, address, gitHubURL(scope))
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

// The files inside a JIT config.
const (
	fileRunner      = ".runner"
	fileCredentials = ".credentials"
	fileRSAParams   = ".credentials_rsaparams"
)

// runnerFile is the part of a JIT config that says who and where; values are
// partly strings, as in the real one.
type runnerFile struct {
	AgentID       string `json:"AgentId"`
	AgentName     string `json:"AgentName"`
	PoolID        string `json:"PoolId"`
	PoolName      string `json:"PoolName"`
	ServerURL     string `json:"ServerUrl"`
	GitHubURL     string `json:"GitHubUrl"`
	WorkFolder    string `json:"WorkFolder"`
	Ephemeral     string `json:"Ephemeral"`
	DisableUpdate string `json:"DisableUpdate"`
	UseV2Flow     string `json:"UseV2Flow"`
	ServerURLV2   string `json:"ServerUrlV2"`
}

type credentialsFile struct {
	Scheme string          `json:"Scheme"`
	Data   credentialsData `json:"Data"`
}

type credentialsData struct {
	ClientID         string `json:"ClientId"`
	AuthorizationURL string `json:"AuthorizationUrl"`
	RequireFIPS      string `json:"RequireFipsCryptography"`
}

// encodeJITConfig packs the files the way the service does: base64 of a JSON
// object whose values are base64 of JSON files.
func encodeJITConfig(r *state.Runner, serverURL, gitHubURL string) (string, error) {
	work := r.WorkFolder
	setDefault(&work, "_work")
	files := map[string]any{
		fileRunner: runnerFile{
			AgentID: strconv.Itoa(r.ID), AgentName: r.Name, PoolID: "1", PoolName: "Default",
			ServerURL: serverURL, GitHubURL: gitHubURL, WorkFolder: work, Ephemeral: "true",
			DisableUpdate: strconv.FormatBool(r.Set.Setting.DisableUpdate), UseV2Flow: "true", ServerURLV2: serverURL,
		},
		fileCredentials: credentialsFile{Scheme: "OAuth", Data: credentialsData{
			ClientID: r.ClientID, AuthorizationURL: serverURL + "/_runner/token", RequireFIPS: "false",
		}},
		fileRSAParams: rsaParams(),
	}
	encoded := map[string]string{}
	for name, content := range files {
		data, err := json.Marshal(content)
		if err != nil {
			return "", fmt.Errorf("encode %s: %w", name, err)
		}
		encoded[name] = base64.StdEncoding.EncodeToString(data)
	}
	whole, err := json.Marshal(encoded)
	if err != nil {
		return "", fmt.Errorf("encode JIT config: %w", err)
	}
	return base64.StdEncoding.EncodeToString(whole), nil
}

// rsaParams fills the places of a 2048-bit key with random bytes: the simulated
// runner does not use it, but the blob should have the real one's size.
func rsaParams() map[string]string {
	lengths := map[string]int{
		"d": 256, "dp": 128, "dq": 128, "exponent": 3, "inverseQ": 128, "modulus": 256, "p": 128, "q": 128,
	}
	params := map[string]string{}
	for name, n := range lengths {
		random := make([]byte, n)
		_, _ = rand.Read(random) // never fails
		params[name] = base64.StdEncoding.EncodeToString(random)
	}
	return params
}

// ErrBadJITConfig means that a JIT config could not be read.
var ErrBadJITConfig = errors.New("JIT config is not readable")

// decodeJITConfig reads what a runner needs. Its errors quote nothing of the
// config, which is a secret.
func decodeJITConfig(encoded string) (runnerFile, credentialsFile, error) {
	var runner runnerFile
	var credentials credentialsFile
	files := map[string][]byte{} // encoding/json undoes the inner base64
	whole, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || json.Unmarshal(whole, &files) != nil {
		return runner, credentials, ErrBadJITConfig
	}
	if json.Unmarshal(files[fileRunner], &runner) != nil || json.Unmarshal(files[fileCredentials], &credentials) != nil {
		return runner, credentials, ErrBadJITConfig
	}
	if runner.ServerURL == "" || credentials.Data.ClientID == "" {
		return runner, credentials, ErrBadJITConfig
	}
	return runner, credentials, nil
}
