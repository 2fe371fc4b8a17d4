// Package identity gives programs under test the identity that they have in production, a ServiceAccount's own token,
// so that each of their requests is judged by the Roles that the product ships. Packages testkube and fakenode write
// kubeconfigs with it.
package identity

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// tokenSeconds is longer than any test run, because tokens are not rotated.
const tokenSeconds = 24 * 60 * 60

// ServiceAccount returns a configuration that acts as the named ServiceAccount, with a token that the API server issues
// for it. It fails if the ServiceAccount does not exist or admin may not issue tokens.
func ServiceAccount(ctx context.Context, admin *rest.Config, namespace, name string) (*rest.Config, error) {
	clientset, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return nil, fmt.Errorf("make a client to issue tokens: %w", err)
	}
	seconds := int64(tokenSeconds)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	issued, err := clientset.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("issue a token for ServiceAccount %s/%s: %w", namespace, name, err)
	}
	config := rest.AnonymousClientConfig(admin)
	config.BearerToken = issued.Status.Token
	return config, nil
}

// WriteKubeconfig writes the configuration (server, CA, token, impersonation) as a kubeconfig file that only its owner
// can read. namespace is its default namespace and may be empty.
func WriteKubeconfig(path string, config *rest.Config, namespace string) error {
	file := clientcmdapi.NewConfig()
	file.Clusters["cluster"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	file.AuthInfos["user"] = &clientcmdapi.AuthInfo{
		Token:             config.BearerToken,
		Impersonate:       config.Impersonate.UserName,
		ImpersonateGroups: config.Impersonate.Groups,
	}
	file.Contexts["context"] = &clientcmdapi.Context{Cluster: "cluster", AuthInfo: "user", Namespace: namespace}
	file.CurrentContext = "context"
	content, err := clientcmd.Write(*file)
	if err != nil {
		return fmt.Errorf("encode kubeconfig: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make a directory for the kubeconfig: %w", err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}
