package tenant

import (
	"context"
	"fmt"
	"testing"

	"github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// account is the name of each team's ServiceAccount.
const account = "team"

// team is a namespace and an account that has rights in it and nowhere else.
type team struct {
	namespace  string
	kubeconfig string
	config     *rest.Config
	client     client.Client
}

// rights returns the rules that a platform team grants a tenant in its own namespace. With none of them it can grant
// rights that it hasn't.
func rights() []rbacv1.PolicyRule {
	write := []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}
	read := []string{"get", "list", "watch"}
	return []rbacv1.PolicyRule{
		{
			APIGroups: []string{v1alpha1.GroupVersion.Group}, Verbs: write, Resources: []string{
				"autoscalingrunnersets", "autoscalinglisteners", "ephemeralrunnersets", "ephemeralrunners",
				"autoscalingrunnersets/status", "autoscalinglisteners/status", "ephemeralrunnersets/status",
				"ephemeralrunners/status",
			},
		},
		{
			APIGroups: []string{""}, Verbs: write,
			Resources: []string{"secrets", "configmaps", "serviceaccounts", "pods", "services"},
		},
		{APIGroups: []string{""}, Resources: []string{"pods/log", "pods/status", "events"}, Verbs: read},
		{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: read},
		{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles", "rolebindings"}, Verbs: write},
		{APIGroups: []string{"policy"}, Resources: []string{"poddisruptionbudgets"}, Verbs: write}, // the chart has one
	}
}

// newTeam makes the account of a namespace.
func newTeam(t *testing.T, cluster *testkube.Cluster, namespace string) *team {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: account}
	for _, object := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: meta},
		&rbacv1.Role{ObjectMeta: meta, Rules: rights()},
		&rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}},
		},
	} {
		if err := cluster.Client().Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	who := testkube.ServiceAccount(namespace, account)
	made := &team{namespace: namespace, kubeconfig: cluster.Kubeconfig(t, who), config: cluster.ConfigFor(t, who)}
	made.config.QPS = -1
	var err error
	if made.client, err = client.New(made.config, client.Options{Scheme: cluster.Client().Scheme()}); err != nil {
		t.Fatal(err)
	}
	// The authorizer learns of a binding by a watch.
	gomega.NewWithT(t).Eventually(func() (bool, error) { return made.may(t.Context(), namespace, "list", "secrets") },
		rig.Patience).
		Should(gomega.BeTrue(), "the account has its rights")
	return made
}

// may reports whether the account is allowed to do something with Kubernetes' own objects.
func (m *team) may(ctx context.Context, namespace, verb, resource string) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Resource: resource},
	}}
	err := m.client.Create(ctx, review)
	return review.Status.Allowed, err
}

// readable returns everything that the account may list in a namespace, as JSON by kind and name.
func (m *team) readable(ctx context.Context, namespace string) (map[string]object, error) {
	return everything(ctx, m.config, namespace, func(resource string) bool {
		for _, rule := range rights() {
			for _, allowed := range rule.Resources {
				if allowed == resource {
					return true
				}
			}
		}
		return false
	})
}

// object is the content of a Kubernetes object.
type object map[string]any

// everything lists the objects of all kinds in a namespace by "resource name".
func everything(
	ctx context.Context, config *rest.Config, namespace string, wanted func(resource string) bool,
) (map[string]object, error) {
	config = rest.CopyConfig(config)
	config.WarningHandler = rest.NoWarnings{} // of all kinds some are deprecated
	kinds, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a discovery client: %w", err)
	}
	reader, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of all kinds: %w", err)
	}
	lists, err := kinds.ServerPreferredNamespacedResources()
	if err != nil {
		return nil, fmt.Errorf("list kinds: %w", err)
	}
	found := map[string]object{}
	for _, resource := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list"}}, lists) {
		for _, kind := range resource.APIResources {
			if !wanted(kind.Name) {
				continue
			}
			group, err := schema.ParseGroupVersion(resource.GroupVersion)
			if err != nil {
				return nil, err
			}
			objects, err := reader.Resource(group.WithResource(kind.Name)).Namespace(namespace).
				List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, fmt.Errorf("list %s of %s: %w", kind.Name, namespace, err)
			}
			for _, item := range objects.Items {
				found[kind.Name+" "+item.GetName()] = item.Object
			}
		}
	}
	return found, nil
}
