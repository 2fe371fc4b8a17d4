package credentials

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpproxy"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/causes"
)

// Reference names what is needed to reach GitHub for one scale set. It shares no memory with the object that it was
// made from: a read may outlast the reconcile, which writes to that object.
type Reference struct {
	// Namespace holds the Secrets and the ConfigMap. It is that of the AutoscalingRunnerSet.
	Namespace string `json:"namespace,omitempty"`
	// Set is the name of the AutoscalingRunnerSet on whose account things are kept and measured; empty if it isn't
	// known.
	Set string `json:"-"`
	// GitHubConfigURL is the address at which the runners register.
	GitHubConfigURL string `json:"githubConfigUrl,omitempty"`
	// GitHubConfigSecret is the name of a Secret, or of a secret in the vault if there is one.
	GitHubConfigSecret string `json:"githubConfigSecret,omitempty"`
	// Proxy, TLS and Vault may be nil.
	Proxy *v1alpha1.ProxyConfig `json:"proxy,omitempty"`
	TLS   *v1alpha1.TLSConfig   `json:"githubServerTLS,omitempty"`
	Vault *v1alpha1.VaultConfig `json:"vaultConfig,omitempty"`
}

// ForAutoscalingRunnerSet returns the reference in the set's spec.
func ForAutoscalingRunnerSet(set *v1alpha1.AutoscalingRunnerSet) Reference {
	return Reference{
		Namespace:          set.Namespace,
		Set:                set.Name,
		GitHubConfigURL:    set.Spec.GitHubConfigUrl,
		GitHubConfigSecret: set.Spec.GitHubConfigSecret,
		Proxy:              set.Spec.Proxy.DeepCopy(),
		TLS:                set.Spec.GitHubServerTLS.DeepCopy(),
		Vault:              set.Spec.VaultConfig.DeepCopy(),
	}
}

// ForAutoscalingListener returns the reference in the listener's spec. The listener is in the manager's namespace, but
// what it names is in the namespace of its AutoscalingRunnerSet.
func ForAutoscalingListener(listener *v1alpha1.AutoscalingListener) Reference {
	return Reference{
		Namespace:          listener.Spec.AutoscalingRunnerSetNamespace,
		Set:                listener.Spec.AutoscalingRunnerSetName,
		GitHubConfigURL:    listener.Spec.GitHubConfigUrl,
		GitHubConfigSecret: listener.Spec.GitHubConfigSecret,
		Proxy:              listener.Spec.Proxy.DeepCopy(),
		TLS:                listener.Spec.GitHubServerTLS.DeepCopy(),
		Vault:              listener.Spec.VaultConfig.DeepCopy(),
	}
}

// ForEphemeralRunnerSet returns the reference in the spec of the set's runners.
func ForEphemeralRunnerSet(set *v1alpha1.EphemeralRunnerSet) Reference {
	return forRunnerSpec(set, &set.Spec.EphemeralRunnerSpec)
}

// ForEphemeralRunner returns the reference in the runner's spec.
func ForEphemeralRunner(runner *v1alpha1.EphemeralRunner) Reference {
	return forRunnerSpec(runner, &runner.Spec)
}

func forRunnerSpec(of metav1.Object, spec *v1alpha1.EphemeralRunnerSpec) Reference {
	return Reference{
		Namespace:          of.GetNamespace(),
		Set:                of.GetLabels()[v1alpha1.LabelScaleSetName],
		GitHubConfigURL:    spec.GitHubConfigUrl,
		GitHubConfigSecret: spec.GitHubConfigSecret,
		Proxy:              spec.Proxy.DeepCopy(),
		TLS:                spec.GitHubServerTLS.DeepCopy(),
		Vault:              spec.VaultConfig.DeepCopy(),
	}
}

// holder returns the set on whose account things are kept. A reference that names none, as one of a former
// registration, stands for itself; no set has a name with a space.
func (r Reference) holder() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: cmp.Or(r.Set, r.GitHubConfigURL+" "+r.GitHubConfigSecret)}
}

// sourceKey identifies what is read for a Reference: a hash, because a list of hosts without proxy can be long. The
// config URL and the set are not part of it, so that all sets of a namespace that name the same Secret, proxy and CA
// share one read.
type sourceKey [sha256.Size]byte

// noSource is that of values that were not read for a Reference.
var noSource sourceKey

func sourceOf(text string) sourceKey { return sha256.Sum256([]byte(text)) }

func (r Reference) source() sourceKey {
	r.GitHubConfigURL = ""
	// Strings, booleans and lists of them can't fail to encode.
	text, _ := json.Marshal(r)
	return sourceOf(string(text))
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

// Resolved has the values that a Reference names. It is shared: don't change it.
type Resolved struct {
	// Credentials are a token or an App, never both.
	Credentials actions.Credentials
	// RootCAs is PEM to add to the certificates that the system trusts, or "".
	RootCAs string
	// Proxy is nil if none is configured; then the environment's applies.
	Proxy *ProxySettings
}

// Keys of a proxy Secret, which are also the environment variables that pods get from it.
const (
	KeyHTTPProxy  = "http_proxy"
	KeyHTTPSProxy = "https_proxy"
	KeyNoProxy    = "no_proxy"
)

// ProxySettings are proxies with their user names and passwords filled in, as environment variables would have them.
type ProxySettings struct {
	HTTP, HTTPS string
	// NoProxy are hosts, domains and CIDRs, separated by commas.
	NoProxy string
}

// SecretData returns the data of a proxy Secret. It always has all three keys, because pods refer to each.
func (p *ProxySettings) SecretData() map[string][]byte {
	return map[string][]byte{
		KeyHTTPProxy:  []byte(p.HTTP),
		KeyHTTPSProxy: []byte(p.HTTPS),
		KeyNoProxy:    []byte(p.NoProxy),
	}
}

// Func returns the function by which an HTTP transport chooses the proxy of a request.
func (p *ProxySettings) Func() func(*http.Request) (*url.URL, error) {
	choose := (&httpproxy.Config{HTTPProxy: p.HTTP, HTTPSProxy: p.HTTPS, NoProxy: p.NoProxy}).ProxyFunc()
	return func(request *http.Request) (*url.URL, error) { return choose(request.URL) }
}

// String keeps passwords out of logs.
func (p *ProxySettings) String() string { return "proxy settings" }

// MissingError says that something a Reference names, or a key in it, does not exist.
type MissingError struct {
	// Kind is Secret, ConfigMap or Azure Key Vault secret.
	Kind string
	// Namespace is empty for a vault's secret.
	Namespace, Name string
	// Key is empty if the whole object is missing. Several keys are separated by commas.
	Key string
}

// Error names the object and the next step.
func (e *MissingError) Error() string {
	object := objectName(e.Kind, e.Namespace, e.Name)
	if e.Name == "" {
		return fmt.Sprintf("no %s is named; set its name in the AutoscalingRunnerSet", e.Kind)
	}
	if e.Key == "" && e.Namespace != "" {
		return fmt.Sprintf("%s does not exist; create it in namespace %s, which is the AutoscalingRunnerSet's own: "+
			"nothing is read from another one, not even the controller's; or correct the name in the "+
			"AutoscalingRunnerSet", object, e.Namespace)
	}
	if e.Key == "" {
		return fmt.Sprintf("%s does not exist; create it or correct the name in the AutoscalingRunnerSet", object)
	}
	return fmt.Sprintf("%s lacks %s; add it", object, e.Key)
}

// CauseReason implements causes.Named.
func (e *MissingError) CauseReason() string { return v1alpha1.ReasonCredentialsMissing }

// InvalidError says that something exists but can't be used. It never contains a value.
type InvalidError struct {
	// Kind is the object's kind, or empty if a field of the AutoscalingRunnerSet itself is wrong.
	Kind string
	// Namespace and Name are empty if Kind is.
	Namespace, Name string
	// Key is the key in the object or the path of the field. It may be empty if the object as a whole is wrong.
	Key string
	// Reason is what is wrong, and the correction.
	Reason string
	// cause is for the manager's log only; it may be nil.
	cause error
}

// Unwrap returns what Reason doesn't tell.
func (e *InvalidError) Unwrap() error { return e.cause }

// Error names object, key, cause and next step.
func (e *InvalidError) Error() string {
	where := "the AutoscalingRunnerSet"
	if e.Kind != "" {
		where = objectName(e.Kind, e.Namespace, e.Name)
	}
	if e.Key != "" {
		where = e.Key + " in " + where
	}
	return fmt.Sprintf("%s is not usable: %s", where, e.Reason)
}

// CauseReason implements causes.Named.
func (e *InvalidError) CauseReason() string { return v1alpha1.ReasonCredentialsInvalid }

// UnsupportedError says that this version lacks a requested feature.
type UnsupportedError struct {
	// Feature is the requested feature.
	Feature string
	// Instead names something that works.
	Instead string
}

// Error names the feature and what works instead.
func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("%s is not supported by this version; %s", e.Feature, e.Instead)
}

// CauseReason implements causes.Named.
func (e *UnsupportedError) CauseReason() string { return v1alpha1.ReasonVaultUnsupported }

// VaultNotAllowedError says that the administrator's list of vaults has no entry for what a Reference names.
type VaultNotAllowedError struct {
	// Field is the path of the field that no entry allows, and Value what it has. Namespace is the Reference's.
	Field, Value, Namespace string
}

// Error names the field and who can change it. It doesn't quote the list, which names other namespaces.
func (e *VaultNotAllowedError) Error() string {
	return fmt.Sprintf("%s %q is not allowed for namespace %s: one entry of the controller chart's value vaults "+
		"must name the vault, the namespace and all secrets that the set reads from it; ask the cluster's "+
		"administrator, who decides by vaults", e.Field, e.Value, e.Namespace)
}

// CauseReason implements causes.Named.
func (e *VaultNotAllowedError) CauseReason() string { return v1alpha1.ReasonVaultNotAllowed }

// Reasons are those of a user's errors.
var Reasons = []string{
	v1alpha1.ReasonCredentialsMissing, v1alpha1.ReasonCredentialsInvalid, v1alpha1.ReasonVaultUnsupported,
	v1alpha1.ReasonVaultNotAllowed, v1alpha1.ReasonAddressNotAllowed,
}

// IsUserError reports whether the credentials themselves are wrong, or an address beside them, which only a user can
// fix, rather than the attempt to read them.
func IsUserError(err error) bool {
	var named causes.Named
	return errors.As(err, &named) && slices.Contains(Reasons, named.CauseReason())
}

// IsVaultNotAllowed reports whether the administrator's list of vaults refuses a Reference. Then nothing that was read
// for it before may be used any longer.
func IsVaultNotAllowed(err error) bool {
	_, refused := errors.AsType[*VaultNotAllowedError](err)
	return refused
}

func objectName(kind, namespace, name string) string {
	return kind + " " + strings.TrimPrefix(namespace+"/"+name, "/")
}

// Gone reports whether what a reference names is gone or may no longer be read, as when a scale set is uninstalled.
func Gone(err error) bool { return isMissing(err) || apierrors.IsForbidden(err) }

// Unusable reports whether what a reference names is Gone or can't be used as it is. Then ClientOfListener may help.
func Unusable(err error) bool { return Gone(err) || IsUserError(err) }

func isMissing(err error) bool {
	_, ok := errors.AsType[*MissingError](err)
	return ok
}
