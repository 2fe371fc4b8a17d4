package config

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
)

// InvalidError reports a key of the configuration that is wrong.
type InvalidError struct {
	// Key is the key in the file, and Cause is what is wrong with it.
	Key, Cause string
	// Next is the step of the user that mends it.
	Next string
}

// Error names the key, what is wrong with it, and what to do.
func (e *InvalidError) Error() string {
	return fmt.Sprintf("listener configuration: %s %s; %s", e.Key, e.Cause, e.Next)
}

// CauseReason implements causes.Named.
func (e *InvalidError) CauseReason() string { return v1alpha1.ReasonInvalidConfiguration }

// Validate checks the configuration. Its error joins an *InvalidError for each key that is wrong, and contains no
// secret.
func (c *Config) Validate() error {
	var wrong []error
	check := func(ok bool, key, cause, next string) {
		if !ok {
			wrong = append(wrong, &InvalidError{Key: key, Cause: cause, Next: next})
		}
	}
	_, err := actions.ParseConfigURL(c.ConfigureURL)
	check(
		err == nil, "configure_url", fmt.Sprintf("can't be used: %v", err),
		"correct githubConfigUrl of the AutoscalingRunnerSet",
	)
	check(c.EphemeralRunnerSetNamespace != "", "ephemeral_runner_set_namespace", "is empty", managed)
	check(c.EphemeralRunnerSetName != "", "ephemeral_runner_set_name", "is empty", managed)
	check(c.RunnerScaleSetID > 0, "runner_scale_set_id", "is not a positive number", managed)
	check(c.MinRunners >= 0, "min_runners", "is negative", "set minRunners of the AutoscalingRunnerSet to 0 or more")
	check(
		c.MaxRunners >= c.MinRunners, "max_runners",
		fmt.Sprintf("(%d) is less than min_runners (%d)", c.MaxRunners, c.MinRunners),
		"set maxRunners of the AutoscalingRunnerSet to minRunners or more",
	)
	_, err = c.Policy()
	check(err == nil, "addresses", fmt.Sprintf("can't be used: %v", err), managed)
	if c.VaultType == "" {
		wrong = append(wrong, c.validateCredentials()...)
	} else {
		wrong = append(wrong, c.validateVault()...)
	}
	return errors.Join(wrong...)
}

// managed is what to do about values that no user writes.
const managed = "the manager writes it: see its log, and restart it if the value does not change"

const credentialSecret = "the credential Secret that githubConfigSecret names"

func (c *Config) validateCredentials() []error {
	given := c.Credentials
	if given == nil {
		given = new(Credentials)
	}
	app := given.AppID != "" || given.AppInstallationID != 0 || given.AppPrivateKey != ""
	switch {
	case app && given.Token != "":
		return []error{&InvalidError{"github_token", "is given in addition to a GitHub App",
			"keep either it or the github_app_* keys in " + credentialSecret}}
	case !app && given.Token == "":
		return []error{&InvalidError{"github_token", "is empty and there is no GitHub App",
			"put it, or the three github_app_* keys, into " + credentialSecret}}
	case !app:
		return nil
	}
	return missing("put it into "+credentialSecret,
		requirement{"github_app_id", given.AppID != ""},
		requirement{"github_app_installation_id", given.AppInstallationID != 0},
		requirement{"github_app_private_key", given.AppPrivateKey != ""})
}

func (c *Config) validateVault() []error {
	if c.VaultType != VaultTypeAzureKeyVault {
		return []error{&InvalidError{"vault_type", fmt.Sprintf("%q is not supported", c.VaultType),
			"set vaultConfig.type to " + VaultTypeAzureKeyVault}}
	}
	vault := c.AzureKeyVault
	if vault == nil {
		return []error{&InvalidError{"azure_key_vault", "is missing", "set vaultConfig.azureKeyVault"}}
	}
	parsed, err := url.Parse(vault.URL)
	return missing("set it in vaultConfig.azureKeyVault",
		requirement{"vault_lookup_key", c.VaultLookupKey != ""},
		requirement{"azure_key_vault.tenant_id", vault.TenantID != ""},
		requirement{"azure_key_vault.client_id", vault.ClientID != ""},
		requirement{"azure_key_vault.url", err == nil && parsed.Host != ""},
		requirement{"azure_key_vault.certificate_path", vault.CertificatePath != ""})
}

type requirement struct {
	key string
	met bool
}

func missing(next string, requirements ...requirement) (wrong []error) {
	for _, required := range requirements {
		if !required.met {
			wrong = append(wrong, &InvalidError{Key: required.key, Cause: "is missing or malformed", Next: next})
		}
	}
	return wrong
}
