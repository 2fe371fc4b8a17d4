package charts

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/operations/validation"
)

const (
	tenantsFile    = "tenants.yaml"
	managerAccount = "system:serviceaccount:arc-systems:arc-gha-rs-controller"
	acme           = "https://github.com/acme"

	// someTenants limits in every way; two of the entries are for the same namespace.
	someTenants = `
tenants:
  - {namespaces: [team-a-*, team-a], gitHubURLs: [https://github.com/acme/, "https://GHES.example.com:8443/Org"], runnerGroups: [build, "it's", default], maxRunners: 50}
  - {namespaces: [team-a], gitHubURLs: ["http://ghes.example.com:80"], maxRunners: 5}
  - {namespaces: [team-b], runnerGroups: [b]}
  - {namespaces: [team-c], gitHubURLs: ["https://[2001:db8::1]/o.rg", "https://github.com"], runnerGroups: []}
  - {namespaces: [free]}
`
)

// protected is a cluster with namespaces of tenants, with or without policies.
type protected struct {
	cluster *testkube.Cluster
	// tenant may do everything that policies allow; manager is the controller's account with the same rights.
	tenant, manager client.Client
}

func protect(t *testing.T) protected {
	t.Helper()
	cluster := testkube.Start(t, testkube.Options{AddToScheme: []func(*runtime.Scheme) error{v1alpha1.AddToScheme}})
	for _, namespace := range []string{"team-a", "team-a-1", "team-ab", "team-b", "team-c", "free", "nobody", "arc-systems"} {
		if err := cluster.Client().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
			t.Fatal(err)
		}
	}
	config := cluster.Config()
	config.Impersonate.UserName, config.Impersonate.Groups = managerAccount, []string{"system:masters"}
	manager, err := client.New(config, client.Options{Scheme: cluster.Client().Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return protected{cluster: cluster, tenant: cluster.Client(), manager: manager}
}

// apply creates the policies that the chart renders, and returns when the API server heeds all of them.
func (p protected) apply(t *testing.T, values string) {
	t.Helper()
	for _, document := range render(t, controller, values)[tenantsFile] {
		object := decode[unstructured.Unstructured](t, document)
		if err := p.tenant.Create(t.Context(), &object); err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
	}
	for _, object := range ofAllKinds("nobody", acme) {
		gomega.NewWithT(t).Eventually(func() error { return p.create(t, p.tenant, object) }).WithTimeout(time.Minute).
			Should(gomega.Satisfy(apierrors.IsForbidden), "%T", object)
	}
}

// create has the API server check the creation of an object, without creating it.
func (p protected) create(t *testing.T, as client.Client, object client.Object) error {
	t.Helper()
	return as.Create(t.Context(), object.DeepCopyObject().(client.Object), client.DryRunAll)
}

func runnerSetOf(namespace, url, group string, maxRunners *int) *v1alpha1.AutoscalingRunnerSet {
	set := &v1alpha1.AutoscalingRunnerSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "AutoscalingRunnerSet"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "set"},
	}
	set.Spec.GitHubConfigUrl, set.Spec.GitHubConfigSecret, set.Spec.RunnerGroup, set.Spec.MaxRunners = url, "github", group, maxRunners
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: v1alpha1.RunnerContainerName, Image: "runner", Command: []string{"run"}}}
	return set
}

// ofAllKinds returns one object of each kind, in the order of the chart's policies.
func ofAllKinds(namespace, url string) []client.Object {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "set"}
	spec := v1alpha1.EphemeralRunnerSpec{GitHubConfigUrl: url, GitHubConfigSecret: "github", RunnerScaleSetID: 1}
	spec.PodSpec.Containers = []corev1.Container{{Name: v1alpha1.RunnerContainerName, Image: "runner"}}
	return []client.Object{
		runnerSetOf(namespace, url, "", ptr.To(1)),
		&v1alpha1.EphemeralRunnerSet{ObjectMeta: meta, Spec: v1alpha1.EphemeralRunnerSetSpec{MaxRunners: ptr.To(1), EphemeralRunnerSpec: spec}},
		&v1alpha1.EphemeralRunner{ObjectMeta: meta, Spec: spec},
		&v1alpha1.AutoscalingListener{ObjectMeta: meta, Spec: v1alpha1.AutoscalingListenerSpec{
			GitHubConfigUrl: url, GitHubConfigSecret: "github", RunnerScaleSetID: 1, Image: "listener", MaxRunners: 1,
			AutoscalingRunnerSetNamespace: "team-a", AutoscalingRunnerSetName: "set", EphemeralRunnerSetName: "set",
		}},
	}
}

// The policies and `manager validate` decide the same about sets.
func TestTenantsPolicies(t *testing.T) {
	t.Parallel()
	p := protect(t)
	// Objects older than the policies.
	older := ofAllKinds("nobody", "https://github.com/evil")
	for _, object := range older {
		object.SetName("older")
		if err := p.tenant.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	p.apply(t, someTenants)
	t.Run("sets", p.decidesAboutSets)
	t.Run("addresses", p.decidesAboutAddresses)
	t.Run("kinds", p.decidesAboutKinds)
	t.Run("older objects", func(t *testing.T) { p.leavesOlderObjects(t, older) })
}

func (p protected) decidesAboutSets(t *testing.T) {
	for _, test := range []struct {
		namespace, url, group string
		maxRunners            *int
		refused               string
	}{
		{"team-a", acme, "build", ptr.To(50), ""},
		{"team-a", acme, "it's", ptr.To(0), ""},
		{"team-a", acme, "", ptr.To(1), ""},
		{"team-a", acme, "DEFAULT", ptr.To(1), ""},
		{"team-a-1", acme, "build", ptr.To(50), ""},
		{"team-a", acme, "Build", ptr.To(50), "runnerGroup Build is not allowed in namespace team-a: it must be build or it's or Default"},
		{"team-a", acme, "build", ptr.To(51), "maxRunners 51 is not allowed in namespace team-a: it must be at most 50"},
		{"team-a", acme, "build", nil, "maxRunners is not set in namespace team-a: it must be at most 50"},
		{"team-a", "http://ghes.example.com/o", "any", ptr.To(5), ""},
		// No entry allows the set as a whole.
		{"team-a", "http://ghes.example.com/o", "any", ptr.To(6), "maxRunners 6 is not allowed in namespace team-a: it must be at most 5"},
		{"team-a-1", "http://ghes.example.com/o", "build", ptr.To(5), "githubConfigUrl http://ghes.example.com/o is not allowed in namespace team-a-1: " +
			"it must be, or be below, https://github.com/acme/ or https://GHES.example.com:8443/Org"},
		{"team-ab", acme, "build", ptr.To(1), "namespace team-ab is in no entry of tenants"},
		{"team-b", "https://anywhere.example.com/o", "b", nil, ""},
		{"team-b", "https://anywhere.example.com/o", "", nil, "runnerGroup Default is not allowed in namespace team-b: it must be b"},
		{"team-c", "https://[2001:DB8::1]:443/o.rg/r", "x", nil, ""},
		{"free", "https://anywhere.example.com/o", "any", nil, ""},
	} {
		p.checkSet(t, runnerSetOf(test.namespace, test.url, test.group, test.maxRunners), test.refused)
	}
	for most, refused := range map[int]string{50: "", 51: "maxRunners 51 is not allowed in namespace team-a: it must be at most 50"} {
		set := runnerSetOf("team-a", acme, "build", ptr.To(2))
		set.Spec.Schedules = []v1alpha1.Schedule{
			{Name: "night", Schedule: "0 0 * * *", Duration: metav1.Duration{Duration: time.Hour}, MinRunners: ptr.To(1)},
			{Name: "office", Schedule: "0 7 * * *", Duration: metav1.Duration{Duration: time.Hour}, MaxRunners: &most},
		}
		p.checkSet(t, set, refused)
	}
}

// checkSet compares the API server's answer to the wanted one, and to that of validate without a cluster.
func (p protected) checkSet(t *testing.T, set *v1alpha1.AutoscalingRunnerSet, refused string) {
	t.Helper()
	err := p.create(t, p.tenant, set)
	manifest, problem := yaml.Marshal(set)
	if problem != nil {
		t.Fatal(problem)
	}
	findings, problem := validation.Validate(manifest, []byte(someTenants), "")
	if problem != nil {
		t.Fatal(problem)
	}
	said := ""
	for _, finding := range findings {
		if finding.Reason == "TenantsRefuse" {
			said = finding.Message
		}
	}
	what := fmt.Sprintf("%s %s %q", set.Namespace, set.Spec.GitHubConfigUrl, set.Spec.RunnerGroup)
	switch {
	case refused == "":
		if err != nil || said != "" {
			t.Errorf("%s: the API server says %v, validate %q", what, err, said)
		}
	case apierrors.IsInvalid(err): // the kind's own rules come first
		checkContains(t, said, refused)
	case !apierrors.IsForbidden(err):
		t.Errorf("%s: the API server says %v", what, err)
	case said == "" || !strings.HasSuffix(err.Error(), "denied request: "+said) || !strings.Contains(said, refused):
		t.Errorf("%s:\n%v\n%s\nwant in both: %s", what, err, said, refused)
	}
}

func (p protected) decidesAboutAddresses(t *testing.T) {
	const shown = " is not allowed in namespace team-c"
	for _, url := range []string{
		acme, acme + "/", acme + "/repo", "https://GitHub.COM/ACME", "https://github.com:443/acme", "https://github.com/enterprises/e", "https://[2001:db8::1]/O.RG",
	} {
		p.checkSet(t, runnerSetOf("team-c", url, "", nil), "")
	}
	for _, url := range []string{
		"https://github.com.evil.example/acme", "https://evilgithub.com/acme", "https://github.com./acme", "https://github.com:8443/acme", "https://github.com:4430/acme",
		"https://github.com:0443/acme", "https://github.com:/acme", "http://github.com/acme", "http://github.com:443/acme", "https://githubXcom/acme", "https://github.com",
		"https://[2001:db8::1]/o.rg-evil", "https://[2001:db8::1]/o.rg%2fevil", "https://[2001:db8::1]/oxrg", "https://[2001:db8::1]/o.rg/../evil", "https://[2001:db8::1]/o",
		"https://github.com/acme/..", "https://github.com/acme/%2e%2e/evil", "https://github.com//acme", "https://github.com/acme?x=https://github.com/acme", "https://github.com/acme#x",
		"https://github.com\\@evil.example/acme", "https://github.com%00/acme", " https://github.com/acme", "https://github.com/acme\n", "https://gıthub.com/acme",
		"https://github.com/acme\nx", "", "github.com/acme",
	} {
		refused := "githubConfigUrl " + url + shown
		if strings.Contains(url, "@") {
			refused = "(not shown, because it has an @)" + shown
		}
		if strings.Contains(url, "\n") { // a text of several lines isn't shown, but the decision is the same
			p.checkRefused(t, runnerSetOf("team-c", url, "", nil))
			continue
		}
		p.checkSet(t, runnerSetOf("team-c", url, "", nil), refused)
	}
	for _, url := range []string{"https://user:password@github.com/acme", "https://github.com@evil.example/acme", "https://github.com:443@evil.example/acme"} {
		p.checkSet(t, runnerSetOf("team-c", url, "", nil), "(not shown, because it has an @)"+shown)
	}
	for _, url := range []string{"https://github.com/acme-evil", "https://github.com/acme.evil/x", "https://github.com/", "https://github.com/acm"} {
		p.checkSet(t, runnerSetOf("team-a-1", url, "", ptr.To(1)), "githubConfigUrl "+url)
	}
}

func (p protected) checkRefused(t *testing.T, object client.Object) {
	t.Helper()
	if err := p.create(t, p.tenant, object); !apierrors.IsForbidden(err) {
		t.Errorf("%T in %s: %v", object, object.GetNamespace(), err)
	}
}

// The controller's copies of an allowed set are allowed. Tenants can't make by hand what their sets can't have.
func (p protected) decidesAboutKinds(t *testing.T) {
	for namespace, allowed := range map[string][]bool{ // of a tenant, by kind
		"nobody": {false, false, false, false}, "free": {true, true, true, false}, "team-c": {true, true, true, false},
		"team-a": {true, false, false, false}, // a runner's group is not known
		"team-b": {false, false, false, false}, "arc-systems": {false, false, false, true},
	} {
		for i, object := range ofAllKinds(namespace, acme) {
			if err := p.create(t, p.tenant, object); (err == nil) != allowed[i] || (err != nil && !apierrors.IsForbidden(err)) {
				t.Errorf("%T in %s: %v", object, namespace, err)
			}
			if err := p.create(t, p.manager, object); err != nil {
				t.Errorf("%T of the controller in %s: %v", object, namespace, err)
			}
		}
	}
	for _, object := range ofAllKinds("team-c", "https://evil.example/acme")[:3] {
		p.checkRefused(t, object)
	}
}

// Objects older than the policies go on: their finalizers, labels, status and other fields change, and they can be
// deleted.
func (p protected) leavesOlderObjects(t *testing.T, older []client.Object) {
	merge := func(patch string) client.Patch { return client.RawPatch("application/merge-patch+json", []byte(patch)) }
	other := []string{`{"spec":{"minRunners":0}}`, `{"spec":{"replicas":3,"patchID":2}}`,
		`{"spec":{"ephemeralRunnerConfigSecretMetadata":{"labels":{"a":"b"}}}}`, `{}`}
	guarded := [][]string{
		{`{"spec":{"githubConfigUrl":"https://github.com/acme"}}`, `{"spec":{"runnerGroup":"x"}}`, `{"spec":{"maxRunners":2}}`, `{"spec":{"maxRunners":null}}`},
		{`{"spec":{"ephemeralRunnerSpec":{"githubConfigUrl":"https://github.com/acme"}}}`, `{"spec":{"ephemeralRunnerSpec":{"runnerScaleSetId":2}}}`, `{"spec":{"maxRunners":null}}`},
		{`{"spec":{"githubConfigUrl":"https://github.com/acme"}}`, `{"spec":{"runnerScaleSetId":2}}`},
		{`{"spec":{"image":"x"}}`},
	}
	for i, object := range older {
		for _, patch := range []string{`{"metadata":{"finalizers":["example.com/a"],"labels":{"a":"b"}}}`, other[i], `{"metadata":{"finalizers":null}}`} {
			if err := p.tenant.Patch(t.Context(), object, merge(patch)); err != nil {
				t.Errorf("%T: %s: %v", object, patch, err)
			}
		}
		if err := p.tenant.Status().Patch(t.Context(), object, merge(`{"status":{"phase":"Running"}}`)); i < 3 && err != nil {
			t.Errorf("%T: status: %v", object, err)
		}
		for _, patch := range guarded[i] {
			if err := p.tenant.Patch(t.Context(), object, merge(patch)); !apierrors.IsForbidden(err) {
				t.Errorf("%T: %s: %v", object, patch, err)
			}
			if err := p.manager.Patch(t.Context(), object, merge(patch), client.DryRunAll); err != nil {
				t.Errorf("%T: %s by the controller: %v", object, patch, err)
			}
		}
		if err := p.tenant.Delete(t.Context(), object); err != nil {
			t.Errorf("%T: delete: %v", object, err)
		}
	}
}

// The API server limits the cost of expressions. The last of fifty entries with a realistic number of addresses is
// still found.
func TestFiftyTenants(t *testing.T) {
	t.Parallel()
	p := protect(t)
	var values strings.Builder
	values.WriteString("tenants:\n")
	for i := range 50 {
		fmt.Fprintf(&values, "  - {namespaces: [team-a, 'a-team-with-a-long-name-%d-*'], maxRunners: 9, runnerGroups: [g%d], gitHubURLs: [", i, i)
		for j := range 5 {
			fmt.Fprintf(&values, "https://github.com/a-long-organization-name-%d-%d, ", i, j)
		}
		values.WriteString("]}\n")
	}
	p.apply(t, values.String())
	for i, object := range []client.Object{
		runnerSetOf("team-a", "https://github.com/a-long-organization-name-49-4/"+strings.Repeat("r", 100), "g49", ptr.To(9)),
		runnerSetOf("team-a", "https://github.com/a-long-organization-name-49-4/"+strings.Repeat("r", 100), "g49", ptr.To(10)),
		runnerSetOf("team-a", "https://github.com/a-long-organization-name-51-4", "g49", ptr.To(9)),
	} {
		err := p.create(t, p.tenant, object)
		if (err == nil) != (i == 0) || (err != nil && (!apierrors.IsForbidden(err) || strings.Contains(err.Error(), "cost"))) {
			t.Errorf("set %d: %v", i, err)
		}
	}
}

// Without the value there are no policies. With it they belong to the release. If the controller is restricted to a
// namespace, they are about that namespace only.
func TestTenantsAreRendered(t *testing.T) {
	t.Parallel()
	check(t, "templates without tenants", len(render(t, controller)[tenantsFile])+len(render(t, controller, "tenants: []")[tenantsFile]), 0)
	resources := []string{"autoscalingrunnersets", "ephemeralrunnersets", "ephemeralrunners", "autoscalinglisteners"}
	for values, suffix := range map[string]string{"": "", singleNamespace: ".team-a"} {
		rendered := render(t, controller, values, "tenants: [{maxRunners: 5}]")
		var want []string
		for _, resource := range resources {
			want = append(want, "arc-gha-rs-controller-tenants-"+resource+suffix)
		}
		var policies, bindings []string
		for _, document := range rendered[tenantsFile] {
			if strings.Contains(document, "kind: ValidatingAdmissionPolicyBinding") {
				binding := decode[admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, document)
				bindings = append(bindings, binding.Name)
				check(t, "policy", binding.Spec.PolicyName, binding.Name)
				var selected map[string]string
				if binding.Spec.MatchResources != nil {
					selected = binding.Spec.MatchResources.NamespaceSelector.MatchLabels
				}
				check(t, "namespace with "+values, selected["kubernetes.io/metadata.name"], strings.TrimPrefix(suffix, "."))
				continue
			}
			policy := decode[admissionregistrationv1.ValidatingAdmissionPolicy](t, document)
			policies = append(policies, policy.Name)
			checkContains(t, policy.Spec.MatchConditions[0].Expression, "'"+managerAccount+"'")
		}
		check(t, "policies", policies, want)
		check(t, "bindings", bindings, want)
	}
}

func TestTenantsRefusals(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{
		"tenants: [{namespace: [a]}]":                                    "'namespace' not allowed",
		"tenants: [{namespaces: [Team]}]":                                "/tenants/0/namespaces/0",
		"tenants: [{namespaces: ['te?m']}]":                              "/tenants/0/namespaces/0",
		"tenants: [{gitHubURLs: [github.com/acme]}]":                     "/tenants/0/gitHubURLs/0",
		"tenants: [{gitHubURLs: ['https://u@h/acme']}]":                  "/tenants/0/gitHubURLs/0",
		`tenants: [{gitHubURLs: ["https://h/a'b"]}]`:                     "/tenants/0/gitHubURLs/0",
		"tenants: [{gitHubURLs: ['https://h/a?b=c']}]":                   "/tenants/0/gitHubURLs/0",
		"tenants: [{maxRunners: -1}]":                                    "/tenants/0/maxRunners",
		"tenants: [null]":                                                "/tenants/0",
		"tenants: [{}]\nrbac: {clusterRoles: false}\n" + singleNamespace: "Values.tenants needs ValidatingAdmissionPolicies, which are cluster-scoped",
	} {
		checkContains(t, refusal(t, controller, values), want)
	}
}

// Policies come, change and go with the release.
func TestTenantsOfARelease(t *testing.T) {
	t.Parallel()
	forHelms(t, func(t *testing.T, helm installer) {
		system, runners := helm.cluster.NewNamespace(t), helm.cluster.NewNamespace(t)
		upgrade := func(tenants string) {
			t.Helper()
			helm.succeed(t, "upgrade", "--install", "arc", controller.directory(), "--namespace", system, "--set-json", "tenants="+tenants)
		}
		attempt := func() error {
			return helm.cluster.Client().Create(t.Context(), runnerSetOf(runners, acme, "", nil), client.DryRunAll)
		}
		upgrade(`[{"namespaces":["others"]}]`)
		awaitKind(t, helm.cluster)
		g := gomega.NewWithT(t)
		g.Eventually(attempt).WithTimeout(time.Minute).Should(gomega.Satisfy(apierrors.IsForbidden))
		upgrade(`[{"namespaces":["` + runners + `"]}]`)
		g.Eventually(attempt).WithTimeout(time.Minute).Should(gomega.Succeed())
		upgrade(`[{"maxRunners":5}]`)
		g.Eventually(attempt).WithTimeout(time.Minute).Should(gomega.MatchError(gomega.ContainSubstring("maxRunners is not set in namespace " + runners)))
		upgrade(`[]`)
		g.Eventually(attempt).WithTimeout(time.Minute).Should(gomega.Succeed())
	})
}
