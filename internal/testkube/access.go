package testkube

import (
	"context"
	"path/filepath"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/internal/testkube/identity"
)

// Config returns the administrator's configuration, without a client-side rate limit. It is a copy, so callers may
// change it.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Client returns the administrator's uncached client, with the kinds of Options.AddToScheme.
func (c *Cluster) Client() client.WithWatch { return c.client }

// AdminKubeconfig returns the path of the administrator's kubeconfig.
func (c *Cluster) AdminKubeconfig() string { return c.path(adminKubeconfig) }

// LogDirectory returns the directory with one log per program. Stop removes it.
func (c *Cluster) LogDirectory() string { return c.directory }

// Identity derives a configuration that acts as somebody else, a user or a ServiceAccount, from the administrator's.
type Identity func(ctx context.Context, admin *rest.Config) (*rest.Config, error)

// User impersonates a user, who may do what the Roles bound to this name and these groups allow.
func User(name string, groups ...string) Identity {
	return func(_ context.Context, admin *rest.Config) (*rest.Config, error) {
		config := rest.CopyConfig(admin)
		config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: groups}
		return config, nil
	}
}

// ServiceAccount acts as an existing ServiceAccount, with a token that the API server issues for it.
func ServiceAccount(namespace, name string) Identity {
	return func(ctx context.Context, admin *rest.Config) (*rest.Config, error) {
		return identity.ServiceAccount(ctx, admin, namespace, name)
	}
}

// Allowed reports whether the API server would let a user do something. Its authorizer watches Roles and bindings, so a
// change of them takes effect with a delay: callers that depend on one ask until it does.
func Allowed(
	ctx context.Context, admin client.Client, user string, what authorizationv1.ResourceAttributes,
) (bool, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:               user,
		ResourceAttributes: &what,
	}}
	err := admin.Create(ctx, review)
	return review.Status.Allowed, err
}

// ConfigFor returns a configuration that acts as who. The test fails if there is none, for example because the
// ServiceAccount does not exist.
func (c *Cluster) ConfigFor(t testing.TB, who Identity) *rest.Config {
	t.Helper()
	config, err := who(t.Context(), c.config)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// Kubeconfig writes a kubeconfig that acts as who, for programs such as the manager that run as processes of their own,
// and returns its path. The file is removed with the test.
func (c *Cluster) Kubeconfig(t testing.TB, who Identity) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := identity.WriteKubeconfig(path, c.ConfigFor(t, who), ""); err != nil {
		t.Fatal(err)
	}
	return path
}
