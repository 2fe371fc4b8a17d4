package credentials

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/addresses"
)

// Keys of a proxy's credential Secret.
const (
	keyProxyUsername = "username"
	keyProxyPassword = "password"
)

// proxyLogin is the user name and password for a proxy.
type proxyLogin struct {
	username, password string
}

// proxyLogin reads a proxy's credential Secret.
func (r reader) proxyLogin(ctx context.Context, namespace, name string) (proxyLogin, error) {
	data, err := r.secret(ctx, namespace, name)
	if err != nil {
		return proxyLogin{}, err
	}
	values := map[string]string{}
	for key, value := range data {
		values[key] = string(value)
	}
	return loginOf(kindSecret, namespace, name, values)
}

// loginOf extracts a login from the values of an object.
func loginOf(kind, namespace, name string, values map[string]string) (proxyLogin, error) {
	for _, key := range []string{keyProxyUsername, keyProxyPassword} {
		if _, present := values[key]; !present {
			return proxyLogin{}, &MissingError{Kind: kind, Namespace: namespace, Name: name, Key: key}
		}
	}
	return proxyLogin{username: values[keyProxyUsername], password: values[keyProxyPassword]}, nil
}

// resolveProxy fills in user names and passwords, which lookup finds by the name in the configuration. It returns nil if there is
// no configuration. field is the configuration's path, for errors.
func resolveProxy(field string, config *v1alpha1.ProxyConfig, lookup func(name string) (proxyLogin, error)) (*ProxySettings, error) {
	if config == nil {
		return nil, nil
	}
	settings := &ProxySettings{NoProxy: strings.Join(config.NoProxy, ",")}
	lookup = once(lookup)
	for _, server := range []struct {
		field  string
		config *v1alpha1.ProxyServerConfig
		into   *string
	}{
		{field + ".http.url", config.HTTP, &settings.HTTP},
		{field + ".https.url", config.HTTPS, &settings.HTTPS},
	} {
		address, err := proxyAddress(server.field, server.config, lookup)
		if err != nil {
			return nil, err
		}
		*server.into = address
	}
	return settings, nil
}

// once remembers the logins that were found: most configurations name one Secret for both proxies, and are resolved every minute.
func once(lookup func(name string) (proxyLogin, error)) func(name string) (proxyLogin, error) {
	found := map[string]proxyLogin{}
	return func(name string) (proxyLogin, error) {
		if login, known := found[name]; known {
			return login, nil
		}
		login, err := lookup(name)
		if err == nil {
			found[name] = login
		}
		return login, err
	}
}

// proxyAddress returns a proxy's URL with user name and password, or "" if there is no proxy.
func proxyAddress(field string, config *v1alpha1.ProxyServerConfig, lookup func(string) (proxyLogin, error)) (string, error) {
	if config == nil || config.Url == "" {
		return "", nil
	}
	text := config.Url
	if !strings.Contains(text, "://") { // HOST:PORT, as environment variables may have it, too
		text = "http://" + text
	}
	address, err := url.Parse(text)
	if err != nil || address.Hostname() == "" || !slices.Contains([]string{"http", "https", "socks5", "socks5h"}, address.Scheme) {
		// The parser's own text would repeat the address, which may hold a password.
		return "", &InvalidError{Key: field, Reason: "it is not the address of a proxy; use http://HOST:PORT"}
	}
	if config.CredentialSecretRef != "" {
		login, err := lookup(config.CredentialSecretRef)
		if err != nil {
			return "", err
		}
		address.User = url.UserPassword(login.username, login.password)
	}
	return address.String(), nil
}

// checkProxies returns the policy's error about the servers of a configuration, which may be nil.
func checkProxies(policy *addresses.Policy, field string, config *v1alpha1.ProxyConfig) error {
	if config == nil {
		return nil
	}
	for _, server := range []struct {
		field  string
		config *v1alpha1.ProxyServerConfig
	}{{field + ".http.url", config.HTTP}, {field + ".https.url", config.HTTPS}} {
		if server.config == nil || server.config.Url == "" {
			continue
		}
		if err := policy.CheckProxy(server.field, server.config.Url); err != nil {
			return err
		}
	}
	return nil
}
