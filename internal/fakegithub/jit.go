package fakegithub

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/harrier-ci/harrier/internal/fakegithub/state"
)

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
