// Package config is the configuration file of a listener. The AutoscalingListener controller writes it into the key
// config.json of a Secret, and the listener reads it where the Secret is mounted. Its JSON is ARC's, so that a listener
// of either project can read the other's file.
package config

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/addresses"
)

const (
	// FileName is the key in the Secret, and so the name of the file.
	FileName = "config.json"
	// MountPath is the directory the Secret is mounted at. It must be mounted as a directory, not by subPath: only
	// then does a change of the Secret reach the running listener.
	MountPath = "/etc/gha-listener"
	// FilePath is the path of the file in the listener's container.
	FilePath = MountPath + "/" + FileName
	// PathVariable is the environment variable with the path of the file.
	PathVariable = "LISTENER_CONFIG_PATH"
	// HealthPort serves /healthz and /readyz, whether metrics are served or not.
	HealthPort = 8081
	// HealthAddressVariable overrides the address of the health server, for several listeners on one host.
	HealthAddressVariable = "LISTENER_HEALTH_ADDR"
	// MetricsAddressVariable overrides the address of the metrics server.
	MetricsAddressVariable = "LISTENER_METRICS_ADDR"
	// MetricsLabelsFew gives metrics of jobs that the configuration does not describe few labels: the scale set and the
	// result.
	MetricsLabelsFew = "few"
	// MetricsLabelsARC gives them all of ARC's labels, and histograms ARC's 45 buckets and +Inf.
	MetricsLabelsARC = "arc"
	// MetricsDisabled disables metrics as the value of metrics_addr. So does the empty string.
	MetricsDisabled = "0"
)

// VaultTypeAzureKeyVault is the only supported vault_type.
const VaultTypeAzureKeyVault = string(v1alpha1.VaultTypeAzureKeyVault)

// Config is the whole file.
type Config struct {
	// ConfigureURL is githubConfigUrl of the AutoscalingRunnerSet.
	ConfigureURL string `json:"configure_url"`

	// VaultType is the type of the vault that has the credentials under VaultLookupKey. It is empty if Credentials has
	// them.
	VaultType      string         `json:"vault_type"`
	VaultLookupKey string         `json:"vault_lookup_key"`
	AzureKeyVault  *AzureKeyVault `json:"azure_key_vault,omitempty"`

	// Credentials are flat in the JSON. They are nil if there is a vault, which leaves their keys out.
	*Credentials

	EphemeralRunnerSetNamespace string `json:"ephemeral_runner_set_namespace"`
	EphemeralRunnerSetName      string `json:"ephemeral_runner_set_name"`
	// MaxRunners is math.MaxInt32 if the user set no limit.
	MaxRunners int `json:"max_runners"`
	MinRunners int `json:"min_runners"`
	// PlacesJobs says that the EphemeralRunnerSet has the number of jobs for which there is room. ARC does not have
	// this key.
	PlacesJobs         bool   `json:"places_jobs,omitempty"`
	RunnerScaleSetID   int    `json:"runner_scale_set_id"`
	RunnerScaleSetName string `json:"runner_scale_set_name"`
	// ServerRootCA has certificates in PEM form to trust in addition to the system's.
	ServerRootCA    string `json:"server_root_ca"`
	LogLevel        string `json:"log_level"`
	LogFormat       string `json:"log_format"`
	MetricsAddr     string `json:"metrics_addr"`
	MetricsEndpoint string `json:"metrics_endpoint"`
	// Metrics selects metrics and labels; nil means the defaults.
	Metrics *v1alpha1.MetricsConfig `json:"metrics"`
	// MetricsLabels selects the defaults: MetricsLabelsFew (also if empty) or MetricsLabelsARC. ARC does not have this
	// key.
	MetricsLabels string `json:"metrics_labels,omitempty"`
	// Addresses limits where the listener connects to. The manager always writes it. If it is missing, as in ARC's
	// files, nothing is limited. ARC does not have this key.
	Addresses *Addresses `json:"addresses,omitempty"`
}

// Addresses are the manager's rules about addresses. They come by this file and not by the pod's environment, which a
// listenerTemplate may change.
type Addresses struct {
	// AllowedGitHubURLs are the manager's flags.allowedGitHubURLs. Empty means every address that is neither link-local
	// nor loopback.
	AllowedGitHubURLs []string `json:"allowed_github_urls"`
}

// Policy returns the rules for the listener's connections, nil if there are none.
func (c *Config) Policy() (*addresses.Policy, error) {
	if c.Addresses == nil {
		return nil, nil
	}
	return addresses.New(c.Addresses.AllowedGitHubURLs)
}

// Credentials are a personal access token or a GitHub App, never both.
type Credentials struct {
	AppID             string `json:"github_app_id"`
	AppInstallationID int64  `json:"github_app_installation_id"`
	AppPrivateKey     string `json:"github_app_private_key"`
	Token             string `json:"github_token"`
}

// ForActions returns the credentials in the form that package actions takes.
func (c *Credentials) ForActions() actions.Credentials {
	if c.Token != "" {
		return actions.Credentials{Token: c.Token}
	}
	return actions.Credentials{App: &actions.AppCredentials{
		ID: c.AppID, InstallationID: c.AppInstallationID, PrivateKey: c.AppPrivateKey,
	}}
}

// AzureKeyVault has what is needed to reach the vault.
type AzureKeyVault struct {
	TenantID        string `json:"tenant_id"`
	ClientID        string `json:"client_id"`
	URL             string `json:"url"`
	CertificatePath string `json:"certificate_path"`
	// Proxy is the proxy for requests to the vault. Its keys in the JSON are the names of its fields, as in ARC.
	Proxy *VaultProxy `json:"proxy,omitempty"`
}

// VaultProxy is a proxy, given by the values of the usual environment variables.
type VaultProxy struct {
	HTTPProxy  string
	HTTPSProxy string
	NoProxy    string
	CGI        bool
}

// unreadable is what to do about a file that is missing or that the manager has not written.
const unreadable = "the manager writes this file, and " + PathVariable +
	" names it: correct the variable, or see the manager's log"

// Read reads and validates the file at path.
func Read(path string) (*Config, error) {
	content, err := os.ReadFile(path) //nolint:gosec // the path is the process's own
	if err != nil {
		return nil, fmt.Errorf("read listener configuration: %w; %s", err, unreadable)
	}
	config, err := Parse(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return config, nil
}

// Parse decodes and validates the content of a file. An error never repeats the content, which holds secrets.
func Parse(content []byte) (*Config, error) {
	config := new(Config)
	if err := json.Unmarshal(content, config); err != nil {
		return nil, fmt.Errorf("decode listener configuration: %w; %s", err, unreadable)
	}
	if err := config.Validate(); err != nil {
		return nil, err
	}
	return config, nil
}

// Encode validates the configuration and encodes it as one line of JSON.
func (c *Config) Encode() ([]byte, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	content, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode listener configuration: %w", err)
	}
	return content, nil
}

// MetricsEnabled reports whether metrics are served.
func (c *Config) MetricsEnabled() bool {
	return c.MetricsAddr != "" && c.MetricsAddr != MetricsDisabled
}

// MetricsAddress returns the address at which metrics are served, empty if they are not. override comes from the
// environment.
func (c *Config) MetricsAddress(override string) string {
	switch {
	case !c.MetricsEnabled():
		return ""
	case override != "":
		return override
	}
	return c.MetricsAddr
}
