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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
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

// Jobs lose what somebody gives to the account of runners that have no token. It is told before and after the move from ARC, and not
// where runners have a token, or use another account.
func TestBindingsOfRunnersWithoutToken(t *testing.T) {
	const name = "linux-gha-rs-no-permission"
	subject := rbacv1.Subject{Kind: "ServiceAccount", Namespace: "runners", Name: name}
	other := rbacv1.Subject{Kind: "ServiceAccount", Namespace: "elsewhere", Name: name}
	binding := func(namespace string, subjects ...rbacv1.Subject) client.Object {
		return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "deployers"}, Subjects: subjects}
	}
	everywhere := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "readers"}, Subjects: []rbacv1.Subject{
		{Kind: "User", Name: "system:serviceaccount:runners:" + name}, {Kind: "Group", Name: "system:serviceaccounts:runners"},
	}}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "", nil)
	for title, test := range map[string]struct {
		change   func(*v1alpha1.AutoscalingRunnerSet)
		bindings []client.Object
		refused  client.ObjectList
		want     string
		unread   string
	}{
		"none":                   {},
		"in its namespace":       {bindings: []client.Object{binding("runners", other, subject)}, want: "RoleBinding runners/deployers: "},
		"in another, everywhere": {bindings: []client.Object{binding("prod", subject), everywhere}, want: "RoleBinding prod/deployers, ClusterRoleBinding readers: "},
		"of others":              {bindings: []client.Object{binding("runners", other)}},
		"of a group":             {bindings: []client.Object{binding("runners", rbacv1.Subject{Kind: "Group", Name: name})}},
		"with a token":           {func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.Template.Spec.AutomountServiceAccountToken = new(true) }, []client.Object{everywhere}, nil, "", ""},
		"without, on purpose":    {func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.Template.Spec.AutomountServiceAccountToken = new(false) }, []client.Object{everywhere}, nil, "", ""},
		"another account":        {func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.Template.Spec.ServiceAccountName = "own" }, []client.Object{everywhere}, nil, "", ""},
		"not to be read":         {bindings: []client.Object{binding("runners", subject)}, refused: &rbacv1.ClusterRoleBindingList{}, want: "RoleBinding runners/deployers: ", unread: "ClusterRoleBindings"},
	} {
		t.Run(title, func(t *testing.T) {
			refuse := func(list client.ObjectList) error {
				if reflect.TypeOf(list) == reflect.TypeOf(test.refused) {
					return forbidden
				}
				return nil
			}
			all := append(withoutToken(name, test.change), test.bindings...)
			snapshot, err := Gather(t.Context(), cluster(t, refuse, all...), "runners", "")
			if err != nil {
				t.Fatal(err)
			}
			said := ""
			for _, f := range Diagnose(snapshot) {
				if f.Reason == "TokenNotMounted" && f.Severity == Warning && strings.Contains(f.Fix, "automountServiceAccountToken: true") {
					said = f.Message
				}
			}
			if (said == "") != (test.want == "") || !strings.HasPrefix(said, test.want) {
				t.Errorf("says %q, want %q", said, test.want)
			}
			if test.unread != "" && snapshot.Unread[test.unread] == nil || test.unread == "" && len(snapshot.Unread) > 0 {
				t.Errorf("not read: %v, want %q", snapshot.Unread, test.unread)
			}
		})
	}
}

// Whoever may read one namespace only learns of the bindings there.
func TestBindingsOfOneNamespace(t *testing.T) {
	all := append(withoutToken("runner", nil), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "runners", Name: "deployers"},
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
	snapshot, err := Gather(t.Context(), cluster(t, refuse, all...), "runners", "")
	if err != nil || !slices.Equal(snapshot.Sets[0].Bindings, []string{"RoleBinding runners/deployers"}) || snapshot.Unread["RoleBindings"] != nil {
		t.Errorf("bindings %v, not read %v, %v", snapshot.Sets[0].Bindings, snapshot.Unread, err)
	}
}

func TestDenials(t *testing.T) {
	t.Setenv(kube.EnvManagerNamespace, "arc-systems")
	const first, second, listener = "system:serviceaccount:arc-systems:arc", "system:serviceaccount:other:arc", "system:serviceaccount:arc-systems:linux"
	deployment := func(namespace string) appsv1.Deployment {
		d := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "arc"}}
		d.Spec.Template.Spec.ServiceAccountName = "arc"
		return d
	}
	both := []appsv1.Deployment{deployment("arc-systems"), deployment("other")}
	for name, test := range map[string]struct {
		managers []appsv1.Deployment
		reviewer reviewer
		want     []string
		unread   bool
	}{
		"all is allowed":               {managers: both[:1]},
		"a manager":                    {managers: both[:1], reviewer: reviewer{denied: []string{first}}, want: []string{"ServiceAccount arc-systems/arc"}},
		"one of two is enough":         {managers: both, reviewer: reviewer{denied: []string{first}}},
		"neither":                      {managers: both, reviewer: reviewer{denied: []string{first, second}}, want: []string{"ServiceAccount arc-systems/arc"}},
		"the listener":                 {managers: both[:1], reviewer: reviewer{denied: []string{listener}}, want: []string{"ServiceAccount arc-systems/linux"}},
		"in the manager's pod":         {reviewer: reviewer{self: first, denied: []string{first}}, want: []string{"the manager"}},
		"in a pod of somebody else":    {reviewer: reviewer{self: second, denied: []string{second}}},
		"by somebody with few rights":  {reviewer: reviewer{self: "jane", denied: []string{"jane"}}},
		"by somebody who may not look": {managers: both, reviewer: reviewer{err: errors.New("forbidden")}, unread: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := healthy()
			s.Managers = test.managers
			if test.managers == nil {
				s.Unread["Deployments"] = errors.New("forbidden")
			}
			set := &s.Sets[0]
			set.Listener = &v1alpha1.AutoscalingListener{ObjectMeta: metav1.ObjectMeta{Namespace: "arc-systems", Name: "linux"}}
			g := gathering{Snapshot: s, cluster: Cluster{Reviews: test.reviewer}}
			set.deny(g.deniedManager(t.Context(), set.Namespace, managerNeeds))
			set.deny(g.deniedListener(t.Context(), set))
			var accounts []string
			for _, denial := range set.Denials {
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

// A policy that takes permissions away from both accounts is one problem. A report of one account would leave the other broken.
func TestAllMissingPermissionsAreReported(t *testing.T) {
	findings := Diagnose(healthy(func(s *Snapshot) {
		s.Sets[0].Denials = []Denial{
			{Account: "ServiceAccount arc-systems/arc", Actions: []string{"get secrets", "create pods"}},
			{Account: "ServiceAccount arc-systems/linux", Actions: []string{"patch ephemeralrunnersets"}},
		}
	}))
	const want = "ServiceAccount arc-systems/arc may not get secrets, create pods in namespace runners; " +
		"ServiceAccount arc-systems/linux may not patch ephemeralrunnersets in namespace runners"
	if len(findings) != 1 || findings[0].Reason != "MissingPermission" || findings[0].Message != want {
		t.Errorf("found %+v, want one MissingPermission: %s", findings, want)
	}
}

// In its own pod, the manager's account has no name that the doctor knows.
func TestMissingPermissionsOfTheManagerItself(t *testing.T) {
	s := healthy()
	s.Sets[0].Denials = []Denial{{Account: account{}.String(), Actions: []string{"get secrets"}}}
	const want = "the manager may not get secrets in namespace runners"
	if findings := checkPermissions(&s.Sets[0]); len(findings) != 1 || findings[0].Message != want {
		t.Errorf("found %+v, want %s", findings, want)
	}
}

// The doctor reads from the Deployment which addresses the manager allows, if there is only one manager.
func TestAddressesThatTheManagerRefuses(t *testing.T) {
	manager := func(args ...string) appsv1.Deployment {
		d := appsv1.Deployment{}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "manager", Args: args}}
		return d
	}
	acme := manager("--log-level=info", "--allowed-github-url=https://github.com/acme", "--allowed-github-url=https://ghes.example")
	for name, test := range map[string]struct {
		managers []appsv1.Deployment
		url      string
		refused  bool
	}{
		"listed":           {[]appsv1.Deployment{acme}, "https://github.com/acme/one", false},
		"not listed":       {[]appsv1.Deployment{acme}, "https://github.com/other", true},
		"loopback":         {[]appsv1.Deployment{manager()}, "http://127.0.0.1/acme", true},
		"nothing special":  {[]appsv1.Deployment{manager()}, "https://github.com/other", false},
		"two managers":     {[]appsv1.Deployment{acme, manager()}, "https://github.com/other", false},
		"no manager":       {nil, "http://127.0.0.1/acme", false},
		"a broken address": {[]appsv1.Deployment{manager("--allowed-github-url=x")}, "https://github.com/other", false},
	} {
		s := healthy()
		s.Managers = test.managers
		set := &s.Sets[0].AutoscalingRunnerSet
		set.Spec.GitHubConfigUrl, set.Spec.VaultConfig = test.url, &v1alpha1.VaultConfig{}
		g := gathering{Snapshot: s}
		s.Sets[0].Credentials = g.credentials(t.Context(), set)
		reported := slices.ContainsFunc(checkCredentials(&s.Sets[0]), func(f Finding) bool { return f.Reason == v1alpha1.ReasonAddressNotAllowed })
		if reported != test.refused {
			t.Errorf("%s: %v", name, s.Sets[0].Credentials)
		}
	}
}
