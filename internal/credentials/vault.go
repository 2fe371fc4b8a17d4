package credentials

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

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
	// The rules for requests to GitHub.
	settings := actions.Options{Addresses: options.Addresses.Check("", proxy == nil)}
	if proxy != nil {
		settings.Proxy = proxy.Func()
	}
	carrier := options.GitHub
	if carrier == nil {
		transport := actions.NewTransport(settings)
		transport.DisableKeepAlives = true // it serves two requests, every minute
		carrier = transport
	}
	return azurekeyvault.Vault{
		URL: config.URL, TenantID: config.TenantID, ClientID: config.ClientID,
		CertificatePath: config.CertificatePath, CertificateDirectory: options.VaultCertificateDirectory,
		Clock: options.Clock,
		HTTP: &http.Client{Transport: carrier, CheckRedirect: func(*http.Request, []*http.Request) error {
			// Azure's servers answer with no redirect, and a token is for one of them only.
			return http.ErrUseLastResponse
		}},
	}
}

// inVault returns the reference's vault. User name and password of the vault's own proxy are in Secrets; those of
// GitHub's proxy are in the vault.
func (r reader) inVault(ctx context.Context, reference Reference) (origin, error) {
	config := reference.Vault
	if config.Type != v1alpha1.VaultTypeAzureKeyVault {
		return origin{}, &UnsupportedError{
			Feature: fmt.Sprintf("vaultConfig.type %q", config.Type),
			Instead: fmt.Sprintf(
				"use %s, or remove vaultConfig and name a Secret in githubConfigSecret",
				v1alpha1.VaultTypeAzureKeyVault,
			),
		}
	}
	if config.AzureKeyVault == nil {
		return origin{}, &InvalidError{
			Key:    "spec.vaultConfig.azureKeyVault",
			Reason: "it is missing; set url, tenantId, clientId and certificatePath",
		}
	}
	proxy, err := resolveProxy("spec.vaultConfig.proxy", config.Proxy, r.inSecrets(ctx, reference.Namespace))
	if err != nil {
		return origin{}, err
	}
	opened := r.openVault(config.AzureKeyVault, proxy)
	return origin{
		kind:   kindVaultSecret,
		values: func(name string) (map[string]string, error) { return vaultValues(ctx, opened, name) },
	}, nil
}

// vaultValues reads the JSON object that a vault has instead of a Secret. Numbers, such as an installation id, become
// text; other values that are not text are dropped.
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
		return nil, &InvalidError{
			Key:    "spec.vaultConfig.azureKeyVault.certificatePath",
			Reason: certificate.Error(),
			cause:  certificate,
		}
	}
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.UseNumber() // a float could change a large id
	if err := decoder.Decode(&fields); err != nil {
		return nil, &InvalidError{
			Kind:   kindVaultSecret,
			Name:   name,
			Reason: `it is not a JSON object; store {"github_token": "…"} or the github_app_* keys`,
		}
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

// VaultRule lets the sets of some namespaces read some secrets of one vault with the manager's identity, which is the
// same for all.
type VaultRule struct {
	// URL is the vault's address.
	URL string `json:"url"`
	// Namespaces and SecretNames are those of the sets and in the vault. None may be empty.
	Namespaces  Patterns `json:"namespaces"`
	SecretNames Patterns `json:"secretNames"`
}

// Patterns are names in which * stands for any characters but a slash. In JSON, a single one may be a string.
type Patterns []string

// UnmarshalJSON decodes a list or a string.
func (p *Patterns) UnmarshalJSON(text []byte) error {
	var single string
	if json.Unmarshal(text, &single) == nil {
		*p = Patterns{single}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(p))
}

// match reports whether one of the patterns matches. A slash is matched by none, because no namespace and no secret has
// one in its name, and in an address it would separate the secret's name from something else.
func (p Patterns) match(name string) bool {
	return !strings.Contains(name, "/") && slices.ContainsFunc(p, func(pattern string) bool {
		parts := strings.Split(pattern, "*")
		last := len(parts) - 1
		rest, found := strings.CutPrefix(name, parts[0])
		if last == 0 {
			return found && rest == ""
		}
		for _, part := range parts[1:last] {
			if found {
				_, rest, found = strings.Cut(rest, part)
			}
		}
		return found && strings.HasSuffix(rest, parts[last])
	})
}

// ParseVaultRules decodes and checks the JSON of a list of rules. It is strict: a rule that is misread could allow what
// it was to refuse.
func ParseVaultRules(text string) ([]VaultRule, error) {
	var rules []VaultRule
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&rules); err != nil {
		return nil, fmt.Errorf("it is not a JSON list of {url, namespaces, secretNames}: %w", err)
	}
	if rules == nil || !errors.Is(decoder.Decode(&struct{}{}), io.EOF) {
		return nil, errors.New("it is not one JSON list of {url, namespaces, secretNames}; use [] for no restriction")
	}
	for i, rule := range rules {
		if address, ok := vaultAddress(rule.URL); !ok || !strings.HasPrefix(address, "https:") {
			return nil, fmt.Errorf(
				"entry %d: url %q is not the address of a vault; use https://NAME.vault.azure.net",
				i+1, rule.URL,
			)
		}
		for _, field := range []struct {
			name     string
			patterns Patterns
		}{{"namespaces", rule.Namespaces}, {"secretNames", rule.SecretNames}} {
			if len(field.patterns) == 0 || slices.ContainsFunc(field.patterns, func(p string) bool {
				return p == "" || strings.ContainsAny(p, "/ ")
			}) {
				return nil, fmt.Errorf(
					"entry %d: %s needs names or patterns without slashes and spaces, such as team-a or team-a-*; "+
						`use "*" for any`,
					i+1, field.name,
				)
			}
		}
	}
	return rules, nil
}

// vaultAddress returns scheme, host and port in one spelling, and false for an address that has more than these,
// because the rest would become part of the secret's address.
func vaultAddress(text string) (string, bool) {
	address, err := url.Parse(text)
	if err != nil || address.Hostname() == "" || address.User != nil || address.RawQuery != "" ||
		address.ForceQuery || address.Fragment != "" ||
		strings.Trim(address.Path, "/") != "" {
		return "", false
	}
	port := address.Port()
	if port == "" && address.Scheme == "https" {
		port = "443"
	}
	return address.Scheme + "://" + net.JoinHostPort(strings.ToLower(address.Hostname()), port), true
}

// checkVault fails with *VaultNotAllowedError if the reference uses a vault, there are rules, and no single one of them
// allows everything that would be read from the vault. It blames what the rule that allows most doesn't allow.
func checkVault(rules []VaultRule, reference Reference) error {
	if len(rules) == 0 || !reference.usesVault() || reference.Vault.AzureKeyVault == nil {
		return nil
	}
	vaultURL := reference.Vault.AzureKeyVault.URL
	refusal := &VaultNotAllowedError{
		Field:     "spec.vaultConfig.azureKeyVault.url",
		Value:     vaultURL,
		Namespace: reference.Namespace,
	}
	address, plain := vaultAddress(vaultURL)
	names, furthest := reference.vaultSecrets(), -1
	for _, rule := range rules {
		allowed, _ := vaultAddress(rule.URL)
		if !plain || allowed != address || !rule.Namespaces.match(reference.Namespace) {
			continue
		}
		refused := slices.IndexFunc(names, func(n vaultSecret) bool { return !rule.SecretNames.match(n.name) })
		if refused < 0 {
			return nil
		}
		if refused > furthest {
			furthest, refusal.Field, refusal.Value = refused, names[refused].field, names[refused].name
		}
	}
	return refusal
}
