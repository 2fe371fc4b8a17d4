package credentials

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials/held"
	"github.com/harrier-ci/harrier/internal/listener/config"
)

// Kinds as errors name them.
const (
	kindSecret    = "Secret"
	kindConfigMap = "ConfigMap"
)

// reader resolves a Reference. It remembers nothing.
type reader struct {
	kube    client.Reader
	bundles *held.Bundles
	// openVault returns the vault that a configuration describes.
	openVault func(*v1alpha1.AzureKeyVaultConfig, *ProxySettings) vault
}

// read resolves everything that the reference names.
func (r reader) read(ctx context.Context, reference Reference) (*Resolved, error) {
	authorities, err := r.rootCAs(ctx, reference)
	if err != nil {
		return nil, err
	}
	from := r.inSecrets(ctx, reference.Namespace)
	if reference.usesVault() {
		if from, err = r.inVault(ctx, reference); err != nil {
			return nil, err
		}
	}
	values, err := from.values(reference.GitHubConfigSecret)
	if err != nil {
		return nil, err
	}
	credentials, err := credentialFields{
		kind:      from.kind,
		namespace: from.namespace,
		name:      reference.GitHubConfigSecret,
		values:    values,
	}.parse()
	if err != nil {
		return nil, err
	}
	proxy, err := resolveProxy("spec.proxy", reference.Proxy, from)
	if err != nil {
		return nil, err
	}
	return &Resolved{Credentials: credentials, RootCAs: authorities, Proxy: proxy}, nil
}

// In an origin credentials and the logins of proxies are looked up by name: the Secrets of a namespace, or a vault.
type origin struct {
	// kind and namespace say in errors where something was looked up. A vault has no namespace.
	kind, namespace string
	values          func(name string) (map[string]string, error)
}

// inSecrets returns the Secrets of a namespace.
func (r reader) inSecrets(ctx context.Context, namespace string) origin {
	return origin{kind: kindSecret, namespace: namespace, values: func(name string) (map[string]string, error) {
		data, err := r.secret(ctx, namespace, name)
		if err != nil {
			return nil, err
		}
		values := map[string]string{}
		for key, value := range data {
			values[key] = string(value)
		}
		return values, nil
	}}
}

const noCertificate = "it contains no certificate; put the certificate authorities there in PEM form (-----BEGIN " +
	"CERTIFICATE-----)"

// rootCAs returns the PEM in the reference's ConfigMap, or "" if it names none: the one copy of it.
func (r reader) rootCAs(ctx context.Context, reference Reference) (string, error) {
	if reference.TLS == nil || reference.TLS.CertificateFrom == nil ||
		reference.TLS.CertificateFrom.ConfigMapKeyRef == nil {
		return "", nil
	}
	selector := reference.TLS.CertificateFrom.ConfigMapKeyRef
	optional := selector.Optional != nil && *selector.Optional
	config := new(corev1.ConfigMap)
	found, err := r.find(ctx, kindConfigMap, reference.Namespace, selector.Name, config)
	if err != nil {
		return "", err
	}
	pem, present := config.Data[selector.Key]
	switch {
	case !present && optional:
		return "", nil
	case !found:
		return "", &MissingError{Kind: kindConfigMap, Namespace: reference.Namespace, Name: selector.Name}
	case !present:
		return "", &MissingError{
			Kind:      kindConfigMap,
			Namespace: reference.Namespace,
			Name:      selector.Name,
			Key:       selector.Key,
		}
	}
	authorities, err := r.bundles.Of(pem)
	if err != nil {
		return "", &InvalidError{
			Kind:      kindConfigMap,
			Namespace: reference.Namespace,
			Name:      selector.Name,
			Key:       selector.Key,
			Reason:    whyUnusable(err),
		}
	}
	return authorities.Text, nil
}

// whyUnusable returns what is wrong with certificate authorities, and the correction.
func whyUnusable(err error) string {
	if errors.Is(err, actions.ErrCertificates) {
		return err.Error() + "; remove it from the bundle"
	}
	return noCertificate
}

// secret returns the data of a Secret. It fails with *MissingError.
func (r reader) secret(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	secret := new(corev1.Secret)
	found, err := r.find(ctx, kindSecret, namespace, name, secret)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, &MissingError{Kind: kindSecret, Namespace: namespace, Name: name}
	}
	return secret.Data, nil
}

// find reads an object and reports whether it exists. It doesn't request an invalid name: the API server would treat an
// empty one as a list, and one with slashes as another path.
func (r reader) find(ctx context.Context, kind, namespace, name string, into client.Object) (bool, error) {
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return false, nil
	}
	err := r.kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, into)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", objectName(kind, namespace, name), err)
	}
	return true, nil
}

// Keys of a credential Secret, and of the JSON that a vault has instead.
const (
	KeyToken             = "github_token"
	KeyAppID             = "github_app_id"
	KeyAppInstallationID = "github_app_installation_id"
	KeyAppPrivateKey     = "github_app_private_key"
)

// credentialFields are the keys and values of a credential Secret, and where they came from.
type credentialFields struct {
	kind, namespace, name string
	values                map[string]string
}

// parse accepts exactly one kind of credentials: a token, or an App with all three fields. Empty values count as
// absent, because templates render them for values that are not set.
func (f credentialFields) parse() (actions.Credentials, error) {
	token := f.value(KeyToken)
	appKeys := []string{KeyAppID, KeyAppInstallationID, KeyAppPrivateKey}
	missing := slices.DeleteFunc(slices.Clone(appKeys), func(key string) bool { return f.value(key) != "" })
	switch {
	case token != "" && len(missing) < len(appKeys):
		return actions.Credentials{}, f.invalid(
			"", "it holds both "+KeyToken+" and github_app_* keys; keep one of the two",
		)
	case token != "":
		return f.validated(actions.Credentials{Token: token})
	case len(missing) == len(appKeys):
		return actions.Credentials{}, f.missing(KeyToken + ", or " + strings.Join(appKeys, ", "))
	case len(missing) > 0:
		return actions.Credentials{}, f.missing(strings.Join(missing, ", "))
	}
	installation, err := strconv.ParseInt(f.value(KeyAppInstallationID), 10, 64)
	if err != nil || installation <= 0 {
		return actions.Credentials{}, f.invalid(KeyAppInstallationID,
			"it is not a positive whole number; take it from the end of the installation's URL on GitHub")
	}
	return f.validated(actions.Credentials{App: &actions.AppCredentials{
		ID: f.value(KeyAppID), InstallationID: installation, PrivateKey: f.value(KeyAppPrivateKey),
	}})
}

// validated refuses credentials that can never work, such as an invalid private key, before GitHub is asked.
func (f credentialFields) validated(credentials actions.Credentials) (actions.Credentials, error) {
	if err := credentials.Validate(); err != nil {
		return actions.Credentials{}, f.invalid("", err.Error())
	}
	return credentials, nil
}

// value returns a field without the white space that files and editors leave behind.
func (f credentialFields) value(key string) string { return strings.TrimSpace(f.values[key]) }

func (f credentialFields) missing(keys string) error {
	return &MissingError{Kind: f.kind, Namespace: f.namespace, Name: f.name, Key: keys}
}

func (f credentialFields) invalid(key, reason string) error {
	return &InvalidError{Kind: f.kind, Namespace: f.namespace, Name: f.name, Key: key, Reason: reason}
}

// Keys of a proxy's credential Secret.
const (
	keyProxyUsername = "username"
	keyProxyPassword = "password"
)

// resolveProxy fills in user names and passwords, which from has by the name in the configuration. It returns nil if
// there is no configuration. field is the configuration's path, for errors.
func resolveProxy(field string, config *v1alpha1.ProxyConfig, from origin) (*ProxySettings, error) {
	if config == nil {
		return nil, nil
	}
	settings := &ProxySettings{NoProxy: strings.Join(config.NoProxy, ",")}
	// Most configurations name one Secret for both servers, and are resolved every minute.
	found := map[string]*url.Userinfo{}
	login := func(name string) (*url.Userinfo, error) {
		if known := found[name]; known != nil {
			return known, nil
		}
		values, err := from.values(name)
		if err != nil {
			return nil, err
		}
		for _, key := range []string{keyProxyUsername, keyProxyPassword} {
			if _, present := values[key]; !present {
				return nil, &MissingError{Kind: from.kind, Namespace: from.namespace, Name: name, Key: key}
			}
		}
		found[name] = url.UserPassword(values[keyProxyUsername], values[keyProxyPassword])
		return found[name], nil
	}
	for _, server := range []struct {
		field  string
		config *v1alpha1.ProxyServerConfig
		into   *string
	}{
		{field + ".http.url", config.HTTP, &settings.HTTP},
		{field + ".https.url", config.HTTPS, &settings.HTTPS},
	} {
		address, err := proxyAddress(server.field, server.config, login)
		if err != nil {
			return nil, err
		}
		*server.into = address
	}
	return settings, nil
}

// proxyAddress returns a proxy's URL with user name and password, or "" if there is no proxy.
func proxyAddress(
	field string, config *v1alpha1.ProxyServerConfig, login func(secret string) (*url.Userinfo, error),
) (string, error) {
	if config == nil || config.Url == "" {
		return "", nil
	}
	text := config.Url
	if !strings.Contains(text, "://") { // HOST:PORT, as environment variables may have it, too
		text = "http://" + text
	}
	address, err := url.Parse(text)
	if err != nil || address.Hostname() == "" ||
		!slices.Contains([]string{"http", "https", "socks5", "socks5h"}, address.Scheme) {
		// The parser's own text would repeat the address, which may hold a password.
		return "", &InvalidError{Key: field, Reason: "it is not the address of a proxy; use http://HOST:PORT"}
	}
	if config.CredentialSecretRef != "" {
		if address.User, err = login(config.CredentialSecretRef); err != nil {
			return "", err
		}
	}
	return address.String(), nil
}

// Suffixes of the names of a listener's Secrets.
const (
	ListenerConfigSuffix = "-config"
	ListenerProxySuffix  = "-proxy"
)

// listener reads a listener's Secrets.
func (r reader) listener(ctx context.Context, listener client.ObjectKey) (*Resolved, error) {
	name := listener.Name + ListenerConfigSuffix
	data, err := r.secret(ctx, listener.Namespace, name)
	if err != nil {
		return nil, err
	}
	content, present := data[config.FileName]
	if !present {
		return nil, &MissingError{Kind: kindSecret, Namespace: listener.Namespace, Name: name, Key: config.FileName}
	}
	// Not config.Parse, which checks everything: deregistering a scale set needs only the credentials, and must not
	// fail because, say, minRunners is greater than maxRunners.
	var written config.Config
	if err := json.Unmarshal(content, &written); err != nil {
		return nil, &InvalidError{Kind: kindSecret, Namespace: listener.Namespace, Name: name, Key: config.FileName,
			Reason: "it is not the JSON of a listener's configuration; delete the Secret, the manager will write it " +
				"again"}
	}
	if written.Credentials == nil {
		return nil, &MissingError{
			Kind:      kindSecret,
			Namespace: listener.Namespace,
			Name:      name,
			Key:       "credentials in " + config.FileName,
		}
	}
	resolved := &Resolved{Credentials: written.ForActions(), RootCAs: r.bundles.Copy(written.ServerRootCA)}
	switch data, err := r.secret(ctx, listener.Namespace, listener.Name+ListenerProxySuffix); {
	case isMissing(err): // without a Secret it has no proxy
	case err != nil:
		return nil, err
	default:
		resolved.Proxy = proxyFromSecretData(data)
	}
	return resolved, nil
}

// proxyFromSecretData is the inverse of SecretData.
func proxyFromSecretData(data map[string][]byte) *ProxySettings {
	return &ProxySettings{
		HTTP:    string(data[KeyHTTPProxy]),
		HTTPS:   string(data[KeyHTTPSProxy]),
		NoProxy: string(data[KeyNoProxy]),
	}
}
