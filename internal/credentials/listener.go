package credentials

import (
	"context"
	"encoding/json"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/internal/listener/config"
)

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
	// Not config.Parse, which checks everything: deregistering a scale set needs only the credentials, and must not fail because,
	// say, minRunners is greater than maxRunners.
	var written config.Config
	if err := json.Unmarshal(content, &written); err != nil {
		return nil, &InvalidError{Kind: kindSecret, Namespace: listener.Namespace, Name: name, Key: config.FileName,
			Reason: "it is not the JSON of a listener's configuration; delete the Secret, the manager will write it again"}
	}
	if written.Credentials == nil {
		return nil, &MissingError{Kind: kindSecret, Namespace: listener.Namespace, Name: name, Key: "credentials in " + config.FileName}
	}
	proxy, err := r.listenerProxy(ctx, listener)
	if err != nil {
		return nil, err
	}
	return &Resolved{Credentials: written.ForActions(), RootCAs: written.ServerRootCA, Proxy: proxy}, nil
}

// listenerProxy returns the listener's proxy, or nil if it has no proxy Secret and so no proxy.
func (r reader) listenerProxy(ctx context.Context, listener client.ObjectKey) (*ProxySettings, error) {
	data, err := r.secret(ctx, listener.Namespace, listener.Name+ListenerProxySuffix)
	if isMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return proxyFromSecretData(data), nil
}
