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

// Config returns the administrator's configuration, a copy to change at will. It has no client-side rate limit.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Client returns the administrator's uncached client, with the kinds of Options.AddToScheme.
func (c *Cluster) Client() client.WithWatch { return c.client }

// AdminKubeconfig returns the path of the administrator's kubeconfig.
func (c *Cluster) AdminKubeconfig() string { return c.path(adminKubeconfig) }

// LogDirectory holds one log per program; it goes with the cluster.
func (c *Cluster) LogDirectory() string { return c.directory }

// Identity is who makes a request: the administrator, a user, or a ServiceAccount.
type Identity func(ctx context.Context, admin *rest.Config) (*rest.Config, error)

// User is judged by the Roles bound to this name and these groups. It works by impersonation.
func User(name string, groups ...string) Identity {
	return func(_ context.Context, admin *rest.Config) (*rest.Config, error) {
		config := rest.CopyConfig(admin)
		config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: groups}
		return config, nil
	}
}

// ServiceAccount acts with a token issued for an existing ServiceAccount.
func ServiceAccount(namespace, name string) Identity {
	return func(ctx context.Context, admin *rest.Config) (*rest.Config, error) {
		return identity.ServiceAccount(ctx, admin, namespace, name)
	}
}

// Allowed reports whether an API server lets a user do something. It learns of Roles and bindings by watches of its own, and so may
// be late: whoever depends on one that was just made, or taken away, asks until it is heeded.
func Allowed(ctx context.Context, admin client.Client, user string, what authorizationv1.ResourceAttributes) (bool, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &what}}
	err := admin.Create(ctx, review)
	return review.Status.Allowed, err
}

// ConfigFor returns a configuration that acts as who. The test fails when there is none.
func (c *Cluster) ConfigFor(t testing.TB, who Identity) *rest.Config {
	t.Helper()
	config, err := who(t.Context(), c.config)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// Kubeconfig writes a kubeconfig that acts as who, for programs of their own such as the manager, and returns its path.
// It is removed with the test.
func (c *Cluster) Kubeconfig(t testing.TB, who Identity) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := identity.WriteKubeconfig(path, c.ConfigFor(t, who), ""); err != nil {
		t.Fatal(err)
	}
	return path
}
