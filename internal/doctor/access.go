package doctor

import (
	"context"
	"fmt"
	"os"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// managerNeeds is what a manager does for every runner in the scale set's namespace, and its chart's Role grants.
var managerNeeds = []authorizationv1.ResourceAttributes{
	{Verb: "get", Resource: "secrets"}, {Verb: "create", Resource: "secrets"}, {Verb: "create", Resource: "pods"}, {Verb: "delete", Resource: "pods"},
}

// listenerNeeds is what a listener does in the scale set's namespace, and the Role grants that the manager makes for it.
func listenerNeeds(runnerSet string) []authorizationv1.ResourceAttributes {
	group := v1alpha1.GroupVersion.Group
	return []authorizationv1.ResourceAttributes{
		{Verb: "get", Group: group, Resource: "ephemeralrunnersets", Name: runnerSet},
		{Verb: "patch", Group: group, Resource: "ephemeralrunnersets", Name: runnerSet},
		{Verb: "patch", Group: group, Resource: "ephemeralrunnersets", Subresource: "status", Name: runnerSet},
		{Verb: "patch", Group: group, Resource: "ephemeralrunners", Subresource: "status"},
	}
}

// Denial is a ServiceAccount that lacks permissions in a scale set's namespace.
type Denial struct {
	// Account is NAMESPACE/NAME, or "the manager" where the doctor asks about itself.
	Account string
	// Actions are VERB RESOURCE.
	Actions []string
}

// account is a ServiceAccount; the empty one is the caller.
type account struct{ namespace, name string }

func (a account) String() string {
	if a.name == "" {
		return "the manager"
	}
	return a.namespace + "/" + a.name
}

// deny notes what an account lacks, where it lacks anything.
func (s *Set) deny(d Denial) {
	if len(d.Actions) > 0 {
		s.Denials = append(s.Denials, d)
	}
}

// deniedListener is what the API server says that the set's listener may not do. A set that goes needs none.
func (g *gathering) deniedListener(ctx context.Context, set *Set) Denial {
	runnerSet := set.runnerSet()
	if set.Listener == nil || runnerSet == nil || set.DeletionTimestamp != nil {
		return Denial{}
	}
	return g.denied(ctx, account{set.Listener.Namespace, set.Listener.Name}, set.Namespace, listenerNeeds(runnerSet.Name))
}

// deniedManager is what the manager may not do in a namespace. Of several managers it is about the one that lacks least,
// and one that may do everything is enough: each may watch a namespace of its own.
func (g *gathering) deniedManager(ctx context.Context, namespace string) Denial {
	var accounts []account
	for i := range g.Managers {
		accounts = append(accounts, account{g.Managers[i].Namespace, g.Managers[i].Spec.Template.Spec.ServiceAccountName})
	}
	if len(accounts) == 0 && g.insideManager(ctx) {
		accounts = []account{{}}
	}
	var least *Denial
	for _, a := range accounts {
		if denial := g.denied(ctx, a, namespace, managerNeeds); least == nil || len(denial.Actions) < len(least.Actions) {
			least = &denial
		}
	}
	if least == nil {
		return Denial{}
	}
	return *least
}

// serviceAccounts begins the user names of ServiceAccounts; NAMESPACE:NAME follow.
const serviceAccounts = "system:serviceaccount:"

// insideManager reports whether the doctor was started in the manager's pod, whose ServiceAccount may not list Deployments. Others'
// may not either, and need none of the manager's permissions.
func (g *gathering) insideManager(ctx context.Context) bool {
	review := &authenticationv1.SelfSubjectReview{}
	if g.cluster.Reviews == nil || !g.wasUnread("Deployments") || g.cluster.Reviews.Create(ctx, review) != nil {
		return false
	}
	namespace := os.Getenv(kube.EnvManagerNamespace)
	return namespace != "" && strings.HasPrefix(review.Status.UserInfo.Username, serviceAccounts+namespace+":")
}

func (g *gathering) denied(ctx context.Context, a account, namespace string, needs []authorizationv1.ResourceAttributes) Denial {
	denial := Denial{Account: a.String()}
	if g.cluster.Reviews == nil {
		return denial
	}
	for _, need := range needs {
		need.Namespace = namespace
		allowed, err := may(ctx, g.cluster.Reviews, a, need)
		if err != nil {
			g.note("SubjectAccessReviews", err)
			return Denial{Account: denial.Account}
		}
		if !allowed {
			what := need.Resource
			if need.Subresource != "" {
				what += "/" + need.Subresource
			}
			denial.Actions = append(denial.Actions, need.Verb+" "+what)
		}
	}
	return denial
}

// may asks whether an account may do something. A review is created, and stored nowhere.
func may(ctx context.Context, reviews Reviews, a account, need authorizationv1.ResourceAttributes) (bool, error) {
	if a.name == "" {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &need}}
		err := reviews.Create(ctx, review)
		return review.Status.Allowed, err
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		ResourceAttributes: &need, User: serviceAccounts + a.namespace + ":" + a.name,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + a.namespace, "system:authenticated"},
	}}
	err := reviews.Create(ctx, review)
	return review.Status.Allowed, err
}

// Reviews creates access reviews. A client.Client does.
type Reviews interface {
	Create(ctx context.Context, review client.Object, options ...client.CreateOption) error
}

// checkPermissions tells of permissions that manager or listener lack, in one finding: the same is to be done about both.
func checkPermissions(s *Set) []Finding {
	if len(s.Denials) == 0 {
		return nil
	}
	var denials []string
	for _, denial := range s.Denials {
		denials = append(denials, fmt.Sprintf("ServiceAccount %s may not %s in namespace %s", denial.Account, strings.Join(denial.Actions, ", "), s.Namespace))
	}
	return []Finding{s.finding(Problem, "MissingPermission", strings.Join(denials, "; "),
		"helm upgrade the scale set: its chart has Role and RoleBinding of the manager, which makes those of the listener; a scale set made without the chart needs such a Role")}
}
