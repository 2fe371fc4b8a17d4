package doctor

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/operations/doctor/diagnosis"
	"github.com/harrier-ci/harrier/operations/doctor/snapshot"
	"github.com/harrier-ci/harrier/operations/finding"
)

// reviewer answers access reviews: users in denied may do nothing.
type reviewer struct {
	denied []string
	self   string
	err    error
}

func (r reviewer) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	switch review := object.(type) {
	case *authenticationv1.SelfSubjectReview:
		review.Status.UserInfo.Username = r.self
	case *authorizationv1.SelfSubjectAccessReview:
		review.Status.Allowed = !slices.Contains(r.denied, r.self)
	case *authorizationv1.SubjectAccessReview:
		review.Status.Allowed = !slices.Contains(r.denied, review.Spec.User)
	}
	return r.err
}

// withoutToken returns the objects of a set whose runners have an account of the chart's, and no token of it.
func withoutToken(account string, change func(*v1alpha1.AutoscalingRunnerSet)) []client.Object {
	all := objects()
	set := all[0].(*v1alpha1.AutoscalingRunnerSet)
	set.Annotations = map[string]string{"actions.github.com/cleanup-no-permission-service-account-name": account}
	set.Spec.Template.Spec.ServiceAccountName = account
	if change != nil {
		change(set)
	}
	return all
}

// Jobs lose what somebody gives to the account of runners that have no token. It is told before and after the move from
// ARC, and not where runners have a token, or use another account.
func TestBindingsOfRunnersWithoutToken(t *testing.T) {
	const name = "linux-gha-rs-no-permission"
	subject := rbacv1.Subject{Kind: "ServiceAccount", Namespace: "runners", Name: name}
	other := rbacv1.Subject{Kind: "ServiceAccount", Namespace: "elsewhere", Name: name}
	binding := func(namespace string, subjects ...rbacv1.Subject) client.Object {
		return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "deployers"},
			Subjects: subjects}
	}
	everywhere := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "readers"}, Subjects: []rbacv1.Subject{
		{Kind: "User", Name: "system:serviceaccount:runners:" + name},
	}}
	group := func(binding, group string) client.Object {
		return &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: binding},
			Subjects: []rbacv1.Subject{{Kind: "Group", Name: group}}}
	}
	byDefault := group("cluster-discovery", "system:authenticated")
	byDefault.SetLabels(map[string]string{"kubernetes.io/bootstrapping": "rbac-defaults"})
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "", nil)
	for title, test := range map[string]struct {
		change   func(*v1alpha1.AutoscalingRunnerSet)
		bindings []client.Object
		refused  client.ObjectList
		want     string
		unread   string
	}{
		"none":                        {},
		"in its namespace":            {bindings: []client.Object{binding("runners", other, subject)}, want: "RoleBinding runners/deployers: "},
		"in another, everywhere":      {bindings: []client.Object{binding("prod", subject), everywhere}, want: "RoleBinding prod/deployers, ClusterRoleBinding readers: "},
		"of others":                   {bindings: []client.Object{binding("runners", other)}},
		"of a group":                  {bindings: []client.Object{binding("runners", rbacv1.Subject{Kind: "Group", Name: name})}},
		"of its namespace's accounts": {bindings: []client.Object{binding("prod", rbacv1.Subject{Kind: "Group", Name: "system:serviceaccounts:runners"})}, want: "RoleBinding prod/deployers: "},
		"of all accounts":             {bindings: []client.Object{group("all", "system:serviceaccounts")}, want: "ClusterRoleBinding all: "},
		"of everybody":                {bindings: []client.Object{group("any", "system:authenticated")}, want: "ClusterRoleBinding any: "},
		"of another namespace's":      {bindings: []client.Object{group("theirs", "system:serviceaccounts:elsewhere"), group("strangers", "system:unauthenticated")}},
		"of every cluster":            {bindings: []client.Object{byDefault, group("system:basic-user", "system:authenticated")}},
		"a user of that name":         {bindings: []client.Object{binding("runners", rbacv1.Subject{Kind: "User", Name: name})}},
		"with a token":                {func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.Template.Spec.AutomountServiceAccountToken = new(true) }, []client.Object{everywhere}, nil, "", ""},
		"as the chart says":           {func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.Template.Spec.AutomountServiceAccountToken = new(false) }, []client.Object{everywhere}, nil, "ClusterRoleBinding readers: ", ""},
		"another account":             {func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.Template.Spec.ServiceAccountName = "own" }, []client.Object{everywhere}, nil, "", ""},
		"not to be read":              {bindings: []client.Object{binding("runners", subject)}, refused: &rbacv1.ClusterRoleBindingList{}, want: "RoleBinding runners/deployers: ", unread: "ClusterRoleBindings"},
	} {
		t.Run(title, func(t *testing.T) {
			refuse := func(list client.ObjectList) error {
				if reflect.TypeOf(list) == reflect.TypeOf(test.refused) {
					return forbidden
				}
				return nil
			}
			all := append(withoutToken(name, test.change), test.bindings...)
			snapshot, err := snapshot.Gather(t.Context(), cluster(t, refuse, all...), "runners", "")
			if err != nil {
				t.Fatal(err)
			}
			said := ""
			for _, f := range diagnosis.Diagnose(snapshot) {
				if f.Reason == "TokenNotMounted" && f.Severity == finding.Warning &&
					strings.Contains(f.Fix, "automountServiceAccountToken: true") {
					said = f.Message
				}
			}
			if (said == "") != (test.want == "") || !strings.HasPrefix(said, test.want) {
				t.Errorf("says %q, want %q", said, test.want)
			}
			if (test.unread != "" && snapshot.Unread[test.unread] == nil) ||
				(test.unread == "" && len(snapshot.Unread) > 0) {
				t.Errorf("not read: %v, want %q", snapshot.Unread, test.unread)
			}
		})
	}
}

// Whoever may read one namespace only learns of the bindings there.
func TestBindingsOfOneNamespace(t *testing.T) {
	all := append(withoutToken("runner", nil),
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "runners", Name: "deployers"},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "runners", Name: "runner"}}})
	lists := 0
	refuse := func(list client.ObjectList) error {
		if _, bindings := list.(*rbacv1.RoleBindingList); bindings {
			if lists++; lists == 1 {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "rolebindings"}, "", nil)
			}
		}
		return nil
	}
	snapshot, err := snapshot.Gather(t.Context(), cluster(t, refuse, all...), "runners", "")
	if err != nil || !slices.Equal(snapshot.Sets[0].Bindings, []string{"RoleBinding runners/deployers"}) ||
		snapshot.Unread["RoleBindings"] != nil {
		t.Errorf("bindings %v, not read %v, %v", snapshot.Sets[0].Bindings, snapshot.Unread, err)
	}
}

func TestDenials(t *testing.T) {
	t.Setenv(kube.EnvManagerNamespace, "arc-systems")
	const first, second, listener = "system:serviceaccount:arc-systems:arc", "system:serviceaccount:other:arc",
		"system:serviceaccount:arc-systems:linux"
	arc, other := managerWith("arc-systems", "arc"), managerWith("other", "arc")
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "deployments"}, "", nil)
	for name, test := range map[string]struct {
		managers []client.Object
		reviewer reviewer
		want     []string
		unread   bool
	}{
		"all is allowed":               {managers: []client.Object{arc}},
		"a manager":                    {managers: []client.Object{arc}, reviewer: reviewer{denied: []string{first}}, want: []string{"ServiceAccount arc-systems/arc"}},
		"one of two is enough":         {managers: []client.Object{arc, other}, reviewer: reviewer{denied: []string{first}}},
		"neither":                      {managers: []client.Object{arc, other}, reviewer: reviewer{denied: []string{first, second}}, want: []string{"ServiceAccount arc-systems/arc"}},
		"the listener":                 {managers: []client.Object{arc}, reviewer: reviewer{denied: []string{listener}}, want: []string{"ServiceAccount arc-systems/linux"}},
		"in the manager's pod":         {reviewer: reviewer{self: first, denied: []string{first}}, want: []string{"the manager"}},
		"in a pod of somebody else":    {reviewer: reviewer{self: second, denied: []string{second}}},
		"by somebody with few rights":  {reviewer: reviewer{self: "jane", denied: []string{"jane"}}},
		"by somebody who may not look": {managers: []client.Object{arc, other}, reviewer: reviewer{err: errors.New("forbidden")}, unread: true},
	} {
		t.Run(name, func(t *testing.T) {
			refuse := func(list client.ObjectList) error {
				if _, deployments := list.(*appsv1.DeploymentList); deployments && test.managers == nil {
					return forbidden
				}
				return nil
			}
			set := types.NamespacedName{Namespace: "runners", Name: "linux"}
			whole := cluster(t, refuse, append(append(objects(), test.managers...),
				listenerFor("arc-systems", "linux", set, set))...)
			whole.Reviews = test.reviewer
			s, err := snapshot.Gather(t.Context(), whole, "", "")
			if err != nil {
				t.Fatal(err)
			}
			var accounts []string
			for _, denial := range s.Sets[0].Denials {
				accounts = append(accounts, denial.Account)
				if len(denial.Actions) == 0 {
					t.Errorf("%s lacks nothing", denial.Account)
				}
			}
			if !slices.Equal(accounts, test.want) || (s.Unread["SubjectAccessReviews"] != nil) != test.unread {
				t.Errorf("denied are %v, want %v; not read: %v", accounts, test.want, s.Unread)
			}
		})
	}
}

// managerWith returns a manager's Deployment.
func managerWith(namespace, account string, arguments ...string) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "arc",
		Labels: map[string]string{v1alpha1.LabelPartOf: snapshot.PartOfController}}}
	d.Spec.Template.Spec.ServiceAccountName = account
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "manager", Args: arguments}}
	return d
}

// The doctor reads from the Deployment which addresses the manager allows, if there is only one manager.
func TestAddressesThatTheManagerRefuses(t *testing.T) {
	acme := managerWith("one", "arc", "--log-level=info", "--allowed-github-url=https://github.com/acme",
		"--allowed-github-url=https://ghes.example")
	open := managerWith("two", "arc")
	for name, test := range map[string]struct {
		managers []client.Object
		url      string
		refused  bool
	}{
		"listed":           {[]client.Object{acme}, "https://github.com/acme/one", false},
		"not listed":       {[]client.Object{acme}, "https://github.com/other", true},
		"loopback":         {[]client.Object{open}, "http://127.0.0.1/acme", true},
		"nothing special":  {[]client.Object{open}, "https://github.com/other", false},
		"two managers":     {[]client.Object{acme, open}, "https://github.com/other", false},
		"no manager":       {nil, "http://127.0.0.1/acme", false},
		"a broken address": {[]client.Object{managerWith("one", "arc", "--allowed-github-url=x")}, "https://github.com/other", false},
	} {
		all := objects()
		set := all[0].(*v1alpha1.AutoscalingRunnerSet)
		set.Spec.GitHubConfigUrl, set.Spec.VaultConfig = test.url, &v1alpha1.VaultConfig{}
		s, err := snapshot.Gather(t.Context(), cluster(t, allow, append(all, test.managers...)...), "", "")
		if err != nil {
			t.Fatal(err)
		}
		reported := slices.ContainsFunc(diagnosis.Diagnose(s),
			func(f finding.Finding) bool { return f.Reason == v1alpha1.ReasonAddressNotAllowed })
		if reported != test.refused {
			t.Errorf("%s: %v", name, s.Sets[0].Credentials)
		}
	}
}
