package snapshot

import (
	"context"
	"os"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// managerNeeds has the requests that a manager makes for every runner in the scale set's namespace. The chart's Role
// grants them.
var managerNeeds = []authorizationv1.ResourceAttributes{
	{Verb: "get", Resource: "secrets"}, {Verb: "create", Resource: "secrets"}, {Verb: "create", Resource: "pods"},
	{Verb: "delete", Resource: "pods"},
}

// managerMarks has the request that a manager makes when a job starts: the PodDisruptionBudget selects what it writes
// on the pod.
var managerMarks = []authorizationv1.ResourceAttributes{{Verb: "patch", Resource: "pods"}}

// Denial says that a ServiceAccount lacks permissions in a scale set's namespace.
type Denial struct {
	// Account is "ServiceAccount NAMESPACE/NAME", or "the manager" if the doctor asks about itself.
	Account string
	// Actions are VERB RESOURCE.
	Actions []string
}

// Account is a ServiceAccount; the empty one is the caller.
type Account struct{ namespace, name string }

// String returns the account as messages name it.
func (a Account) String() string {
	if a.name == "" {
		return "the manager"
	}
	return "ServiceAccount " + a.namespace + "/" + a.name
}

// deny notes what an account lacks, if it lacks anything.
func (s *Set) deny(d Denial) {
	if len(d.Actions) > 0 {
		s.Denials = append(s.Denials, d)
	}
}

// denyListener notes what the set's listener may not do there, according to the API server. The Role that the manager
// creates for it grants it. A set that is being deleted needs no listener.
func (g *gathering) denyListener(ctx context.Context, set *Set) {
	runnerSet := set.RunnerSet()
	if set.Listener == nil || runnerSet == nil || set.DeletionTimestamp != nil {
		return
	}
	group := v1alpha1.GroupVersion.Group
	set.deny(g.denied(ctx, Account{set.Listener.Namespace, set.Listener.Name}, set.Namespace,
		[]authorizationv1.ResourceAttributes{
			{Verb: "get", Group: group, Resource: "ephemeralrunnersets", Name: runnerSet.Name},
			{Verb: "patch", Group: group, Resource: "ephemeralrunnersets", Name: runnerSet.Name},
			{Verb: "patch", Group: group, Resource: "ephemeralrunnersets", Subresource: "status", Name: runnerSet.Name},
			{Verb: "patch", Group: group, Resource: "ephemeralrunners", Subresource: "status"},
		}))
}

// deniedManager returns those of its needs that the manager may not do in a namespace. Several managers may each watch
// a different namespace, so one manager with all permissions is enough; if none has them, the manager that lacks least
// is reported.
func (g *gathering) deniedManager(ctx context.Context, namespace string,
	needs []authorizationv1.ResourceAttributes) Denial {
	var accounts []Account
	for i := range g.Managers {
		accounts = append(accounts, Account{g.Managers[i].Namespace,
			g.Managers[i].Spec.Template.Spec.ServiceAccountName})
	}
	if len(accounts) == 0 && g.insideManager(ctx) {
		accounts = []Account{{}}
	}
	var least *Denial
	for _, a := range accounts {
		if denial := g.denied(ctx, a, namespace, needs); least == nil || len(denial.Actions) < len(least.Actions) {
			least = &denial
		}
	}
	if least == nil {
		return Denial{}
	}
	return *least
}

// serviceAccounts is the prefix of a ServiceAccount's user name; NAMESPACE:NAME follows.
const serviceAccounts = "system:serviceaccount:"

// insideManager reports whether the doctor runs in the manager's pod, whose ServiceAccount may not list Deployments.
// Other ServiceAccounts may not either, but don't need the manager's permissions, so the account itself is checked,
// too.
func (g *gathering) insideManager(ctx context.Context) bool {
	review := &authenticationv1.SelfSubjectReview{}
	if g.cluster.Reviews == nil || !g.wasUnread("Deployments") || g.cluster.Reviews.Create(ctx, review) != nil {
		return false
	}
	namespace := os.Getenv(kube.EnvManagerNamespace)
	return namespace != "" && strings.HasPrefix(review.Status.UserInfo.Username, serviceAccounts+namespace+":")
}

func (g *gathering) denied(ctx context.Context, a Account, namespace string,
	needs []authorizationv1.ResourceAttributes) Denial {
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

// may asks whether an account may do something. The API server answers a review and stores nothing.
func may(ctx context.Context, reviews Reviews, a Account, need authorizationv1.ResourceAttributes) (bool, error) {
	if a.name == "" {
		review := &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &need}}
		err := reviews.Create(ctx, review)
		return review.Status.Allowed, err
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		ResourceAttributes: &need, User: serviceAccounts + a.namespace + ":" + a.name,
		Groups: a.groups(),
	}}
	err := reviews.Create(ctx, review)
	return review.Status.Allowed, err
}

// Tokenless returns the account without permissions that the charts of ARC and Harrier make for runners, if the set's
// use it without its token. ARC's pods have it, ours don't: the chart says so in the template, where whoever wants it
// says otherwise.
func (s *Set) Tokenless() (Account, bool) {
	pod := &s.Spec.Template.Spec
	name := s.Annotations[v1alpha1.AnnotationCleanupPrefix+"no-permission-service-account-name"]
	return Account{s.Namespace, name}, name != "" && name == pod.ServiceAccountName &&
		!ptr.Deref(pod.AutomountServiceAccountToken, false)
}

// bindings gives each set the bindings that name its runners' account, if runners have no token of it. They may be in
// any namespace.
func (g *gathering) bindings(ctx context.Context) {
	sets := map[Account]*Set{}
	for i := range g.Sets {
		if runners, without := g.Sets[i].Tokenless(); without {
			sets[runners] = &g.Sets[i]
		}
	}
	if len(sets) == 0 {
		return
	}
	inNamespaces, clusterWide := &rbacv1.RoleBindingList{}, &rbacv1.ClusterRoleBindingList{}
	if g.cluster.List(ctx, inNamespaces) != nil { // the caller may have one namespace only
		g.read(ctx, inNamespaces, "RoleBindings", client.InNamespace(g.Namespace))
	}
	g.read(ctx, clusterWide, "ClusterRoleBindings")
	addBinding := func(kind string, binding *metav1.ObjectMeta, subjects []rbacv1.Subject) {
		name := kind + " " + strings.TrimPrefix(binding.Namespace+"/"+binding.Name, "/")
		for runners, set := range sets {
			bound := func(subject rbacv1.Subject) bool { return runners.isBound(subject, ofSystem(binding)) }
			if slices.ContainsFunc(subjects, bound) {
				set.Bindings = append(set.Bindings, name)
			}
		}
	}
	for i := range inNamespaces.Items {
		addBinding("RoleBinding", &inNamespaces.Items[i].ObjectMeta, inNamespaces.Items[i].Subjects)
	}
	for i := range clusterWide.Items {
		addBinding("ClusterRoleBinding", &clusterWide.Items[i].ObjectMeta, clusterWide.Items[i].Subjects)
	}
}

// groups are those that the API server counts a ServiceAccount to.
func (a Account) groups() []string {
	return []string{"system:serviceaccounts", "system:serviceaccounts:" + a.namespace, "system:authenticated"}
}

// isBound reports whether a subject is the account, by its kind or as a user, or a group that it is in. Groups in the
// bindings of the system itself don't count: every cluster has these.
func (a Account) isBound(subject rbacv1.Subject, ofSystem bool) bool {
	switch subject.Kind {
	case rbacv1.GroupKind:
		return !ofSystem && slices.Contains(a.groups(), subject.Name)
	case rbacv1.UserKind:
		return subject.Name == serviceAccounts+a.namespace+":"+a.name
	}
	return subject.Name == a.name && subject.Namespace == a.namespace
}

// ofSystem reports whether Kubernetes, or a distribution such as OpenShift, makes the binding in each cluster or
// namespace, for what every account may do.
func ofSystem(binding *metav1.ObjectMeta) bool {
	return binding.Labels["kubernetes.io/bootstrapping"] != "" || strings.HasPrefix(binding.Name, "system:")
}
