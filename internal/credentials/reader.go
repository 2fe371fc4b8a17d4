package credentials

import (
	"context"
	"crypto/x509"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// Kinds as errors name them.
const (
	kindSecret    = "Secret"
	kindConfigMap = "ConfigMap"
)

// reader follows a Reference. It remembers nothing.
type reader struct {
	kube client.Reader
}

// read resolves all that the reference names.
func (r reader) read(ctx context.Context, reference Reference) (*Resolved, error) {
	if reference.usesVault() {
		return nil, &UnsupportedError{
			Feature: "vaultConfig.type " + string(reference.Vault.Type),
			Instead: "remove vaultConfig and name a Secret in githubConfigSecret",
		}
	}
	credentials, err := r.credentials(ctx, reference)
	if err != nil {
		return nil, err
	}
	authorities, err := r.rootCAs(ctx, reference)
	if err != nil {
		return nil, err
	}
	proxy, err := r.proxy(ctx, reference.Namespace, reference.Proxy)
	if err != nil {
		return nil, err
	}
	return &Resolved{Credentials: credentials, RootCAs: authorities, Proxy: proxy}, nil
}

// rootCAs returns the PEM that the reference's ConfigMap holds, "" when it names none.
func (r reader) rootCAs(ctx context.Context, reference Reference) (string, error) {
	if reference.TLS == nil || reference.TLS.CertificateFrom == nil || reference.TLS.CertificateFrom.ConfigMapKeyRef == nil {
		return "", nil
	}
	selector := reference.TLS.CertificateFrom.ConfigMapKeyRef
	optional := selector.Optional != nil && *selector.Optional
	config := new(corev1.ConfigMap)
	found, err := r.get(ctx, kindConfigMap, reference.Namespace, selector.Name, config)
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
		return "", &MissingError{Kind: kindConfigMap, Namespace: reference.Namespace, Name: selector.Name, Key: selector.Key}
	case !x509.NewCertPool().AppendCertsFromPEM([]byte(pem)):
		return "", &InvalidError{Kind: kindConfigMap, Namespace: reference.Namespace, Name: selector.Name, Key: selector.Key, Reason: noCertificate}
	}
	return pem, nil
}

// secret returns the data of a Secret. It fails with *MissingError.
func (r reader) secret(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	secret := new(corev1.Secret)
	found, err := r.get(ctx, kindSecret, namespace, name, secret)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, &MissingError{Kind: kindSecret, Namespace: namespace, Name: name}
	}
	return secret.Data, nil
}

// get reads an object and says whether it exists. An empty name is no object: the API server would take it for a list.
func (r reader) get(ctx context.Context, kind, namespace, name string, into client.Object) (bool, error) {
	if name == "" {
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

func isForbidden(err error) bool { return apierrors.IsForbidden(err) }

// proxy fills in a proxy configuration, nil without one.
func (r reader) proxy(ctx context.Context, namespace string, config *v1alpha1.ProxyConfig) (*ProxySettings, error) {
	return resolveProxy(config, func(name string) (proxyLogin, error) {
		return r.proxyLogin(ctx, namespace, name)
	})
}
