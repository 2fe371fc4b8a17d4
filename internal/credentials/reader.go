package credentials

import (
	"context"
	"crypto/x509"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
)

// Kinds as errors name them.
const (
	kindSecret    = "Secret"
	kindConfigMap = "ConfigMap"
)

// reader resolves a Reference. It remembers nothing.
type reader struct {
	kube client.Reader
	// openVault returns the vault that a configuration describes.
	openVault func(*v1alpha1.AzureKeyVaultConfig, *ProxySettings) vault
}

// read resolves everything that the reference names.
func (r reader) read(ctx context.Context, reference Reference) (*Resolved, error) {
	authorities, err := r.rootCAs(ctx, reference)
	if err != nil {
		return nil, err
	}
	credentials, proxy, err := r.secrets(ctx, reference)
	if err != nil {
		return nil, err
	}
	return &Resolved{Credentials: credentials, RootCAs: authorities, Proxy: proxy}, nil
}

// secrets reads credentials and proxy logins: from the vault if there is one, else from Secrets.
func (r reader) secrets(ctx context.Context, reference Reference) (credentials actions.Credentials, proxy *ProxySettings, err error) {
	login := func(name string) (proxyLogin, error) { return r.proxyLogin(ctx, reference.Namespace, name) }
	if reference.usesVault() {
		var from vault
		if from, err = r.vault(ctx, reference); err != nil {
			return credentials, nil, err
		}
		login = func(name string) (proxyLogin, error) { return vaultLogin(ctx, from, name) }
		credentials, err = vaultCredentials(ctx, from, reference.GitHubConfigSecret)
	} else {
		credentials, err = r.credentials(ctx, reference)
	}
	if err != nil {
		return credentials, nil, err
	}
	proxy, err = resolveProxy("spec.proxy", reference.Proxy, login)
	return credentials, proxy, err
}

const noCertificate = "it contains no certificate; put the certificate authorities there in PEM form (-----BEGIN CERTIFICATE-----)"

// rootCAs returns the PEM in the reference's ConfigMap, or "" if it names none.
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

// get reads an object and reports whether it exists. It doesn't request an invalid name: the API server would treat an empty one
// as a list, and one with slashes as another path.
func (r reader) get(ctx context.Context, kind, namespace, name string, into client.Object) (bool, error) {
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
