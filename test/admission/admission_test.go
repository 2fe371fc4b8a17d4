package admission

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube"
)

func TestMain(m *testing.M) {
	os.Exit(testkube.Main(m, testkube.Options{
		AddToScheme: []func(*runtime.Scheme) error{v1alpha1.AddToScheme, apiextensionsv1.AddToScheme},
	}))
}

const crdName = "autoscalingrunnersets.actions.github.com"

// newSet returns a valid set.
func newSet(namespace string) *v1alpha1.AutoscalingRunnerSet {
	return &v1alpha1.AutoscalingRunnerSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "set-"},
		Spec: v1alpha1.AutoscalingRunnerSetSpec{
			GitHubConfigUrl: "https://github.com/my-org", GitHubConfigSecret: "credentials",
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "runner"}}}},
		},
	}
}

// scheduled gives a set a schedule that is right but for the change.
func scheduled(spoil func(*v1alpha1.Schedule)) func(*v1alpha1.AutoscalingRunnerSetSpec) {
	office := v1alpha1.Schedule{Name: "office", Schedule: "0 7 * * 1-5", Duration: metav1.Duration{Duration: time.Hour},
		MinRunners: new(1)}
	spoil(&office)
	return func(spec *v1alpha1.AutoscalingRunnerSetSpec) { spec.Schedules = []v1alpha1.Schedule{office} }
}

func TestBadSetsAreRefusedWithFieldAndCause(t *testing.T) {
	cluster := testkube.Shared(t)
	namespace := cluster.NewNamespace(t)
	for name, test := range map[string]struct {
		spoil func(*v1alpha1.AutoscalingRunnerSetSpec)
		field string
		cause string
	}{
		"more at least than at most": {func(s *v1alpha1.AutoscalingRunnerSetSpec) {
			s.MinRunners, s.MaxRunners = new(3), new(2)
		},
			"spec.minRunners", "must not be greater than maxRunners"},
		"negative minimum": {func(s *v1alpha1.AutoscalingRunnerSetSpec) { s.MinRunners = new(-1) }, "spec.minRunners", "greater than or equal to 0"},
		"negative maximum": {func(s *v1alpha1.AutoscalingRunnerSetSpec) { s.MaxRunners = new(-1) }, "spec.maxRunners", "greater than or equal to 0"},
		"address without a scheme": {func(s *v1alpha1.AutoscalingRunnerSetSpec) {
			s.GitHubConfigUrl = "github.com/my-org"
		},
			"spec.githubConfigUrl", "must be the address of a repository"},
		"address of a file": {func(s *v1alpha1.AutoscalingRunnerSetSpec) {
			s.GitHubConfigUrl = "https://github.com/a/b/blob"
		},
			"spec.githubConfigUrl", "must be the address of a repository"},
		"empty label": {func(s *v1alpha1.AutoscalingRunnerSetSpec) { s.RunnerScaleSetLabels = []string{""} }, "spec.runnerScaleSetLabels[0]", "at least 1"},
		"too long label": {func(s *v1alpha1.AutoscalingRunnerSetSpec) {
			s.RunnerScaleSetLabels = []string{strings.Repeat("x", 256)}
		}, "spec.runnerScaleSetLabels[0]", "255"},
		"too many labels": {func(s *v1alpha1.AutoscalingRunnerSetSpec) { s.RunnerScaleSetLabels = make([]string, 101) },
			"spec.runnerScaleSetLabels", "at most 100"},
		"unknown protection":          {func(s *v1alpha1.AutoscalingRunnerSetSpec) { s.ProtectRunners = "Idle" }, "spec.protectRunners", `"Busy"`},
		"protection of a job in days": {func(s *v1alpha1.AutoscalingRunnerSetSpec) { s.JobProtection = "1d" }, "spec.jobProtection", "match"},
		"protection of a job for no time": {func(s *v1alpha1.AutoscalingRunnerSetSpec) { s.JobProtection = "0s" },
			"spec.jobProtection", "must be true, false, or a duration"},
		"protection of a job for years": {func(s *v1alpha1.AutoscalingRunnerSetSpec) { s.JobProtection = "9000h" },
			"spec.jobProtection", "must be true, false, or a duration"},
		"schedule without numbers": {scheduled(func(s *v1alpha1.Schedule) { s.MinRunners = nil }), "spec.schedules[0].minRunners", "schedule office sets neither"},
		"schedule with a time zone in its expression": {scheduled(func(s *v1alpha1.Schedule) {
			s.Schedule = "TZ=UTC 0 7 * * *"
		}),
			"spec.schedules[0].schedule", "schedule office must have the five fields of cron"},
		"schedule at an interval":       {scheduled(func(s *v1alpha1.Schedule) { s.Schedule = "@every 1h" }), "spec.schedules[0].schedule", "the five fields of cron"},
		"schedule of no duration":       {scheduled(func(s *v1alpha1.Schedule) { s.Duration.Duration = 0 }), "spec.schedules[0].duration", "schedule office must have a duration"},
		"schedule of years":             {scheduled(func(s *v1alpha1.Schedule) { s.Duration.Duration = 9000 * time.Hour }), "spec.schedules[0].duration", "at most 8784h"},
		"schedule with a negative part": {scheduled(func(s *v1alpha1.Schedule) { s.MinRunners = new(-1) }), "spec.schedules[0].minRunners", "greater than or equal to 0"},
		"two schedules of one name": {func(s *v1alpha1.AutoscalingRunnerSetSpec) {
			scheduled(func(*v1alpha1.Schedule) {})(s)
			s.Schedules = append(s.Schedules, s.Schedules[0])
		}, "spec.schedules[1]", "Duplicate value"},
		"unknown mode of capacity": {func(s *v1alpha1.AutoscalingRunnerSetSpec) {
			s.Capacity = &v1alpha1.CapacitySpec{Mode: "Magic"}
		}, "spec.capacity.mode", `"Placement"`},
		"placement for no time": {func(s *v1alpha1.AutoscalingRunnerSetSpec) {
			s.Capacity = &v1alpha1.CapacitySpec{PlacementTimeout: &metav1.Duration{}}
		}, "spec.capacity.placementTimeout", "must be more than 0s"},
		"placement for years": {func(s *v1alpha1.AutoscalingRunnerSetSpec) {
			s.Capacity = &v1alpha1.CapacitySpec{PlacementTimeout: &metav1.Duration{Duration: 9000 * time.Hour}}
		}, "spec.capacity.placementTimeout", "must be more than 0s"},
		"unknown vault": {func(s *v1alpha1.AutoscalingRunnerSetSpec) { s.VaultConfig = &v1alpha1.VaultConfig{Type: "safe"} }, "spec.vaultConfig.type", "azure_key_vault"},
		"vault without settings": {func(s *v1alpha1.AutoscalingRunnerSetSpec) {
			s.VaultConfig = &v1alpha1.VaultConfig{Type: v1alpha1.VaultTypeAzureKeyVault}
		}, "spec.vaultConfig.azureKeyVault", "is required"},
	} {
		t.Run(name, func(t *testing.T) {
			set := newSet(namespace)
			test.spoil(&set.Spec)
			err := cluster.Client().Create(t.Context(), set)
			if err == nil || !strings.Contains(err.Error(), test.field) || !strings.Contains(err.Error(), test.cause) {
				t.Errorf("error %v, want one that names %s and says %q", err, test.field, test.cause)
			}
		})
	}
}

func TestGoodSetsAreTaken(t *testing.T) {
	cluster := testkube.Shared(t)
	namespace := cluster.NewNamespace(t)
	for _, url := range []string{
		"https://github.com/my-org/", "https://github.com/owner/repo", "https://github.com/enterprises/name", "http://10.0.0.1:8080/my-org",
	} {
		set := newSet(namespace)
		set.Spec.GitHubConfigUrl, set.Spec.MinRunners, set.Spec.MaxRunners = url, new(2), new(2)
		if err := cluster.Client().Create(t.Context(), set); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	for protection, runners := range map[string]v1alpha1.RunnerProtection{"true": "All", "false": "None", "6h": "Busy",
		"1h30m": "", "": ""} {
		set := newSet(namespace)
		set.Spec.JobProtection, set.Spec.ProtectRunners = protection, runners
		if err := cluster.Client().Create(t.Context(), set); err != nil {
			t.Errorf("jobProtection %q, protectRunners %q: %v", protection, runners, err)
		}
	}
}

// kstatus takes an object whose status is of an older generation for one in progress: a set, or a listener, that no
// manager has looked at is not ready.
func TestUnseenObjectsAreOfNoGeneration(t *testing.T) {
	cluster := testkube.Shared(t)
	namespace := cluster.NewNamespace(t)
	set := newSet(namespace)
	listener := &v1alpha1.AutoscalingListener{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "listener"}}
	for _, object := range []client.Object{set, listener} {
		if err := cluster.Client().Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	for kind, seen := range map[string]int64{"AutoscalingRunnerSet": set.Status.ObservedGeneration,
		"AutoscalingListener": listener.Status.ObservedGeneration} {
		if seen != -1 {
			t.Errorf("a new %s has observedGeneration %d", kind, seen)
		}
	}
}

// What ARC, or an earlier build, has stored may break a rule of ours: it can still be labelled, patched, reported on
// and finalised.
func TestStoredObjectsThatBreakARuleStayUsable(t *testing.T) {
	cluster := testkube.Start(t, testkube.Options{
		AddToScheme: []func(*runtime.Scheme) error{v1alpha1.AddToScheme, apiextensionsv1.AddToScheme},
	})
	c, namespace := cluster.Client(), cluster.NewNamespace(t)
	sets := map[string]*v1alpha1.AutoscalingRunnerSet{}
	for name, spoil := range map[string]func(*v1alpha1.AutoscalingRunnerSetSpec){
		"address":             func(s *v1alpha1.AutoscalingRunnerSetSpec) { s.GitHubConfigUrl = "github.com/my-org" },
		"minRunners":          func(s *v1alpha1.AutoscalingRunnerSetSpec) { s.MinRunners, s.MaxRunners = new(3), new(2) },
		"labels":              func(s *v1alpha1.AutoscalingRunnerSetSpec) { s.RunnerScaleSetLabels = labels(101) },
		"jobProtection":       func(s *v1alpha1.AutoscalingRunnerSetSpec) { s.JobProtection = "0s" },
		"jobProtection, days": func(s *v1alpha1.AutoscalingRunnerSetSpec) { s.JobProtection = "1d" },
		"pendingTimeout":      func(s *v1alpha1.AutoscalingRunnerSetSpec) { s.PendingTimeout = duration(9000) },
		"registrationTimeout": func(s *v1alpha1.AutoscalingRunnerSetSpec) { s.RegistrationTimeout = duration(9000) },
		"sidecarGracePeriod":  func(s *v1alpha1.AutoscalingRunnerSetSpec) { s.SidecarGracePeriod = duration(0) },
		"vault":               func(s *v1alpha1.AutoscalingRunnerSetSpec) { s.VaultConfig = &v1alpha1.VaultConfig{Type: "safe"} },
		"vault's settings": func(s *v1alpha1.AutoscalingRunnerSetSpec) {
			s.VaultConfig = &v1alpha1.VaultConfig{Type: v1alpha1.VaultTypeAzureKeyVault}
		},
	} {
		set := newSet(namespace)
		set.Finalizers = []string{v1alpha1.FinalizerAutoscalingRunnerSet}
		spoil(&set.Spec)
		sets[name] = set
	}
	withoutRules(t, c, func() {
		for _, set := range sets {
			NewWithT(t).Eventually(func() error { return c.Create(t.Context(), set) }, "30s").Should(Succeed())
		}
	})
	for name, set := range sets {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Eventually(func() error { return c.Create(t.Context(), spoilt(set)) }, "30s").
				ShouldNot(Succeed())
			stayUsable(t, c, set)
		})
	}
}

// stayUsable does with a set what users, manager and API server do until it is gone.
func stayUsable(t *testing.T, c client.Client, set *v1alpha1.AutoscalingRunnerSet) {
	patch := func(text string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(text)) }
	for name, text := range map[string]string{
		"label":                `{"metadata":{"labels":{"a":"b"}}}`,
		"another field":        `{"spec":{"runnerGroup":"mine"}}`,
		"the pod template too": `{"spec":{"template":{"spec":{"containers":[{"name":"runner","image":"new"}]}}}}`,
	} {
		if err := c.Patch(t.Context(), set, patch(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(set.Spec.RunnerScaleSetLabels) > 0 {
		more := `{"spec":{"runnerScaleSetLabels":["` + strings.Join(append(set.Spec.RunnerScaleSetLabels, "one-more"),
			`","`) + `"]}}`
		if err := c.Patch(t.Context(), set.DeepCopy(), patch(more)); err == nil {
			t.Error("a list of labels that was too long may grow")
		}
	}
	if err := c.Status().Patch(t.Context(), set, patch(`{"status":{"phase":"Running"}}`)); err != nil {
		t.Errorf("status: %v", err)
	}
	if err := c.Delete(t.Context(), set); err != nil {
		t.Errorf("delete: %v", err)
	}
	if err := c.Patch(t.Context(), set, patch(`{"metadata":{"finalizers":null}}`)); err != nil {
		t.Errorf("finalize: %v", err)
	}
}

func labels(count int) (labels []string) {
	for i := range count {
		labels = append(labels, fmt.Sprint("label-", i))
	}
	return labels
}

func duration(hours time.Duration) *metav1.Duration {
	return &metav1.Duration{Duration: hours * time.Hour}
}

func spoilt(set *v1alpha1.AutoscalingRunnerSet) *v1alpha1.AutoscalingRunnerSet {
	another := newSet(set.Namespace)
	another.Spec = *set.Spec.DeepCopy()
	return another
}

// withoutRules runs do while the API server knows no rule for sets.
func withoutRules(t *testing.T, c client.Client, do func()) {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: crdName}, crd); err != nil {
		t.Fatal(err)
	}
	strict := crd.DeepCopy()
	properties := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties
	properties["spec"] = lax(properties["spec"])
	if err := c.Update(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	do()
	strict.ResourceVersion = crd.ResourceVersion
	if err := c.Update(t.Context(), strict); err != nil {
		t.Fatal(err)
	}
}

// lax returns a schema without the rules that objects stored by others may break.
func lax(schema apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
	schema.XValidations, schema.MaxItems, schema.Pattern = nil, nil, ""
	for name, property := range schema.Properties {
		schema.Properties[name] = lax(property)
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		schema.Items.Schema = new(lax(*schema.Items.Schema))
	}
	return schema
}
