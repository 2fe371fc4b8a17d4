package credentials

import (
	"encoding/json"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// Reference says by name how GitHub is reached for one scale set. It shares no memory with the object that it was made from: a read
// may outlast the reconcile, which writes to that object.
type Reference struct {
	// Namespace holds the Secrets and the ConfigMap. It is that of the AutoscalingRunnerSet.
	Namespace string `json:"namespace,omitempty"`
	// GitHubConfigURL is where the runners register.
	GitHubConfigURL string `json:"githubConfigUrl,omitempty"`
	// GitHubConfigSecret is the name of a Secret, or of a secret in the vault if there is one.
	GitHubConfigSecret string `json:"githubConfigSecret,omitempty"`
	// Proxy, TLS and Vault may be nil.
	Proxy *v1alpha1.ProxyConfig `json:"proxy,omitempty"`
	TLS   *v1alpha1.TLSConfig   `json:"githubServerTLS,omitempty"`
	Vault *v1alpha1.VaultConfig `json:"vaultConfig,omitempty"`
}

// ForAutoscalingRunnerSet returns what the set's spec says.
func ForAutoscalingRunnerSet(set *v1alpha1.AutoscalingRunnerSet) Reference {
	return Reference{
		Namespace:          set.Namespace,
		GitHubConfigURL:    set.Spec.GitHubConfigUrl,
		GitHubConfigSecret: set.Spec.GitHubConfigSecret,
		Proxy:              set.Spec.Proxy.DeepCopy(),
		TLS:                set.Spec.GitHubServerTLS.DeepCopy(),
		Vault:              set.Spec.VaultConfig.DeepCopy(),
	}
}

// ForAutoscalingListener returns what the listener's spec says. The listener is in the manager's namespace, but what it names is in
// the namespace of its AutoscalingRunnerSet.
func ForAutoscalingListener(listener *v1alpha1.AutoscalingListener) Reference {
	return Reference{
		Namespace:          listener.Spec.AutoscalingRunnerSetNamespace,
		GitHubConfigURL:    listener.Spec.GitHubConfigUrl,
		GitHubConfigSecret: listener.Spec.GitHubConfigSecret,
		Proxy:              listener.Spec.Proxy.DeepCopy(),
		TLS:                listener.Spec.GitHubServerTLS.DeepCopy(),
		Vault:              listener.Spec.VaultConfig.DeepCopy(),
	}
}

// ForEphemeralRunnerSet returns what the spec of the set's runners says.
func ForEphemeralRunnerSet(set *v1alpha1.EphemeralRunnerSet) Reference {
	return forRunnerSpec(set.Namespace, &set.Spec.EphemeralRunnerSpec)
}

// ForEphemeralRunner returns what the runner's spec says.
func ForEphemeralRunner(runner *v1alpha1.EphemeralRunner) Reference {
	return forRunnerSpec(runner.Namespace, &runner.Spec)
}

func forRunnerSpec(namespace string, spec *v1alpha1.EphemeralRunnerSpec) Reference {
	return Reference{
		Namespace:          namespace,
		GitHubConfigURL:    spec.GitHubConfigUrl,
		GitHubConfigSecret: spec.GitHubConfigSecret,
		Proxy:              spec.Proxy.DeepCopy(),
		TLS:                spec.GitHubServerTLS.DeepCopy(),
		Vault:              spec.VaultConfig.DeepCopy(),
	}
}

// sourceKey identifies what is read for a Reference. The config URL is not part of it, so that all sets of a namespace that name
// the same Secret, proxy and CA share one read.
type sourceKey string

func (r Reference) source() sourceKey {
	r.GitHubConfigURL = ""
	// Strings, booleans and lists of them can't fail to encode.
	text, _ := json.Marshal(r)
	return sourceKey(text)
}

// usesVault reports whether the names refer to secrets in a vault.
func (r Reference) usesVault() bool { return r.Vault != nil && r.Vault.Type != "" }

// vaultSecret is a secret of the vault, and the field that names it.
type vaultSecret struct{ field, name string }

// vaultSecrets returns the secrets that are read from the vault. The login for the vault's own proxy is in a Secret.
func (r Reference) vaultSecrets() []vaultSecret {
	secrets := []vaultSecret{{"spec.githubConfigSecret", r.GitHubConfigSecret}}
	if r.Proxy == nil {
		return secrets
	}
	for _, server := range []struct {
		field  string
		config *v1alpha1.ProxyServerConfig
	}{{"spec.proxy.http.credentialSecretRef", r.Proxy.HTTP}, {"spec.proxy.https.credentialSecretRef", r.Proxy.HTTPS}} {
		if server.config != nil && server.config.CredentialSecretRef != "" {
			secrets = append(secrets, vaultSecret{server.field, server.config.CredentialSecretRef})
		}
	}
	return secrets
}
