package credentials

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials/azurekeyvault"
)

const kindVaultSecret = "Azure Key Vault secret"

// vault looks up secrets by name. It fails with azurekeyvault.ErrNotFound if there is none.
type vault interface {
	Secret(ctx context.Context, name string) (string, error)
}

// openAzureKeyVault returns a vault that is reached through the proxy; nil means the environment's.
func openAzureKeyVault(config *v1alpha1.AzureKeyVaultConfig, proxy *ProxySettings, options Options) vault {
	transport := vaultTransport(proxy, options)
	return azurekeyvault.Vault{
		URL: config.URL, TenantID: config.TenantID, ClientID: config.ClientID, CertificatePath: config.CertificatePath,
		HTTP: &http.Client{Transport: transport, CheckRedirect: noRedirect}, Clock: options.Clock,
	}
}

// vault returns the reference's vault. User name and password of the vault's own proxy are in Secrets; those of GitHub's proxy are
// in the vault.
func (r reader) vault(ctx context.Context, reference Reference) (vault, error) {
	config := reference.Vault
	if config.Type != v1alpha1.VaultTypeAzureKeyVault {
		return nil, &UnsupportedError{
			Feature: fmt.Sprintf("vaultConfig.type %q", config.Type),
			Instead: fmt.Sprintf("use %s, or remove vaultConfig and name a Secret in githubConfigSecret", v1alpha1.VaultTypeAzureKeyVault),
		}
	}
	if config.AzureKeyVault == nil {
		return nil, &InvalidError{Key: "spec.vaultConfig.azureKeyVault", Reason: "it is missing; set url, tenantId, clientId and certificatePath"}
	}
	proxy, err := resolveProxy("spec.vaultConfig.proxy", config.Proxy, func(name string) (proxyLogin, error) {
		return r.proxyLogin(ctx, reference.Namespace, name)
	})
	if err != nil {
		return nil, err
	}
	return r.openVault(config.AzureKeyVault, proxy), nil
}

// vaultCredentials parses the JSON that the vault has instead of a credential Secret.
func vaultCredentials(ctx context.Context, from vault, name string) (actions.Credentials, error) {
	values, err := vaultValues(ctx, from, name)
	if err != nil {
		return actions.Credentials{}, err
	}
	return credentialFields{kind: kindVaultSecret, name: name, values: values}.parse()
}

// vaultLogin parses the JSON that the vault has instead of a proxy's Secret.
func vaultLogin(ctx context.Context, from vault, name string) (proxyLogin, error) {
	values, err := vaultValues(ctx, from, name)
	if err != nil {
		return proxyLogin{}, err
	}
	return loginOf(kindVaultSecret, "", name, values)
}

// vaultValues reads a JSON object. Numbers, such as an installation id, become text; other values that are not text are dropped.
func vaultValues(ctx context.Context, from vault, name string) (map[string]string, error) {
	if name == "" {
		return nil, &MissingError{Kind: kindVaultSecret}
	}
	text, err := from.Secret(ctx, name)
	if errors.Is(err, azurekeyvault.ErrNotFound) {
		return nil, &MissingError{Kind: kindVaultSecret, Name: name}
	}
	if errors.Is(err, azurekeyvault.ErrAddress) {
		return nil, &InvalidError{Key: "spec.vaultConfig.azureKeyVault.url", Reason: azurekeyvault.ErrAddress.Error()}
	}
	if certificate, ok := errors.AsType[*azurekeyvault.CertificateError](err); ok {
		return nil, &InvalidError{Key: "spec.vaultConfig.azureKeyVault.certificatePath", Reason: certificate.Error()}
	}
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.UseNumber() // a float could change a large id
	if err := decoder.Decode(&fields); err != nil {
		return nil, &InvalidError{Kind: kindVaultSecret, Name: name, Reason: `it is not a JSON object; store {"github_token": "…"} or the github_app_* keys`}
	}
	values := map[string]string{}
	for key, value := range fields {
		switch value := value.(type) {
		case string:
			values[key] = value
		case json.Number:
			values[key] = value.String()
		}
	}
	return values, nil
}
