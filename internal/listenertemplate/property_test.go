package listenertemplate_test

import (
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/listenertemplate"
)

// allowed are the fields that may be set in what is left of a template, by type. It repeats the policy on purpose, as a
// table: the policy's own code must not be what judges it. Types that are not here may have all fields.
var allowed = map[reflect.Type]string{
	reflect.TypeFor[metav1.ObjectMeta](): "Labels Annotations",
	reflect.TypeFor[corev1.PodSpec](): "Volumes Containers NodeSelector Affinity Tolerations " +
		"TopologySpreadConstraints SchedulerName PriorityClassName ImagePullSecrets DNSConfig HostAliases " +
		"TerminationGracePeriodSeconds SecurityContext AutomountServiceAccountToken",
	reflect.TypeFor[corev1.PodAntiAffinity](): "PreferredDuringSchedulingIgnoredDuringExecution",
	reflect.TypeFor[corev1.PodAffinityTerm](): "LabelSelector TopologyKey MatchLabelKeys MismatchLabelKeys",
	reflect.TypeFor[corev1.Volume]():          "Name VolumeSource",
	reflect.TypeFor[corev1.VolumeSource]():    "EmptyDir ConfigMap",
	reflect.TypeFor[corev1.PodSecurityContext](): "RunAsUser RunAsGroup RunAsNonRoot FSGroup FSGroupChangePolicy " +
		"SupplementalGroups SeccompProfile AppArmorProfile",
	reflect.TypeFor[corev1.SecurityContext](): "RunAsUser RunAsGroup RunAsNonRoot ReadOnlyRootFilesystem Privileged " +
		"AllowPrivilegeEscalation Capabilities SeccompProfile AppArmorProfile",
	reflect.TypeFor[corev1.VolumeMount]():          "Name MountPath ReadOnly SubPath",
	reflect.TypeFor[corev1.EnvVarSource]():         "FieldRef ConfigMapKeyRef",
	reflect.TypeFor[corev1.ResourceRequirements](): "Limits Requests",
	reflect.TypeFor[corev1.ProbeHandler]():         "HTTPGet TCPSocket",
	reflect.TypeFor[corev1.HTTPGetAction]():        "Path Port Scheme HTTPHeaders",
	reflect.TypeFor[corev1.TCPSocketAction]():      "Port",
	reflect.TypeFor[corev1.ContainerPort]():        "Name ContainerPort Protocol",
}

// The fields of the two kinds of containers.
const (
	listenerFields = "Name ImagePullPolicy Resources Env VolumeMounts StartupProbe LivenessProbe ReadinessProbe " +
		"SecurityContext"
	sidecarFields = listenerFields + " Image Command Args WorkingDir Ports"
)

// forbidden returns the first field below value that is set and not allowed, "" if there is none.
func forbidden(path string, value reflect.Value) string {
	switch value.Kind() {
	case reflect.Pointer:
		if !value.IsNil() {
			return forbidden(path, value.Elem())
		}
	case reflect.Slice:
		for i := range value.Len() {
			if found := forbidden(fmt.Sprintf("%s[%d]", path, i), value.Index(i)); found != "" {
				return found
			}
		}
	case reflect.Struct:
		fields, limited := allowed[value.Type()]
		if container, ok := value.Interface().(corev1.Container); ok {
			fields, limited = sidecarFields, true
			if container.Name == v1alpha1.ListenerContainerName {
				fields = listenerFields
			}
		}
		for i := range value.NumField() {
			name := value.Type().Field(i).Name
			if !value.Type().Field(i).IsExported() || isEmpty(value.Field(i)) {
				continue
			}
			if limited && !slices.Contains(strings.Fields(fields), name) {
				return path + "." + name
			}
			if found := forbidden(path+"."+name, value.Field(i)); found != "" {
				return found
			}
		}
	}
	return ""
}

func isEmpty(field reflect.Value) bool {
	return field.IsZero() || (field.Kind() == reflect.Slice && field.Len() == 0)
}

// steers returns what is set to a value that hinders other pods, "" if nothing is.
func steers(spec *corev1.PodSpec) string {
	if spec.PriorityClassName != "" && spec.PriorityClassName != "a" {
		return "the class " + spec.PriorityClassName
	}
	if grace := spec.TerminationGracePeriodSeconds; grace != nil && *grace > 300 {
		return "an endless end"
	}
	for _, toleration := range spec.Tolerations {
		if toleration.Key == "" {
			return "a toleration of every taint"
		}
	}
	requested := map[corev1.ResourceName]int64{}
	for i := range spec.Containers {
		resources := &spec.Containers[i].Resources
		for name, limit := range resources.Limits {
			if _, isRequested := resources.Requests[name]; !isRequested {
				requested[name] += limit.Value()
			}
		}
		for name, request := range resources.Requests {
			requested[name] += request.Value()
		}
	}
	most := map[corev1.ResourceName]int64{"cpu": 2, "memory": 2 << 30, "ephemeral-storage": 2 << 30}
	for name, sum := range requested {
		if sum > most[name] {
			return fmt.Sprintf("a request of %d %s", sum, name)
		}
	}
	return ""
}

// filler fills templates at random, with names that mean something often enough.
func filler(seed int64) *randfill.Filler {
	pick := func(random *rand.Rand, words ...string) string { return words[random.Intn(len(words))] }
	return randfill.New().RandSource(rand.NewSource(seed)).NilChance(0.6).NumElements(0, 3).MaxDepth(12).Funcs(
		func(quantity *resource.Quantity, c randfill.Continue) {
			*quantity = *resource.NewQuantity(c.Int63n(1000), resource.DecimalSI)
		},
		func(resources *corev1.ResourceRequirements, c randfill.Continue) {
			some := func() (list corev1.ResourceList) {
				for range c.Intn(3) {
					name := corev1.ResourceName(pick(c.Rand, "cpu", "memory", "ephemeral-storage", "nvidia.com/gpu"))
					list = corev1.ResourceList{name: *resource.NewQuantity(c.Int63n(3), resource.DecimalSI)}
				}
				return list
			}
			*resources = corev1.ResourceRequirements{Limits: some(), Requests: some()}
		},
		func(port *intstr.IntOrString, c randfill.Continue) { *port = intstr.FromInt32(c.Int31()) },
		func(at *metav1.Time, c randfill.Continue) { *at = metav1.Unix(c.Int63n(1e9), 0) },
		func(fields *metav1.FieldsV1, _ randfill.Continue) { *fields = metav1.FieldsV1{} },
		func(text *string, c randfill.Continue) {
			*text = pick(
				c.Rand, "", "a", "b", "listener", "logs", "logs:1", listenertemplate.ConfigVolume, listenertemplate.TokenVolume,
				"KUBERNETES_SERVICE_HOST", "https_proxy", "/etc", listenertemplate.TokenPath,
			)
		},
		func(labels *map[string]string, c randfill.Continue) {
			*labels = map[string]string{
				pick(c.Rand, "team", "app", "app.kubernetes.io/name", "iam.gke.io/gcp-service-account"): "v",
			}
		},
	)
}

// Of templates with anything in them only what is allowed is left, nothing is left out without a word, and what is left
// is left of itself as well.
func TestRandomTemplates(t *testing.T) {
	fields := map[string]int{}
	for seed := range int64(1000) {
		given := &corev1.PodTemplateSpec{}
		filler(seed).Fill(given)
		before := given.DeepCopy()
		accepted := policy.Accept(&v1alpha1.AutoscalingRunnerSetSpec{ListenerTemplate: given})
		kept := accepted.Template
		if !reflect.DeepEqual(before, given) {
			t.Fatalf("seed %d: the template given was changed", seed)
		}
		if found := forbidden("template", reflect.ValueOf(kept)); found != "" {
			t.Fatalf("seed %d: %s is left", seed, found)
		}
		if found := steers(&kept.Spec); found != "" {
			t.Fatalf("seed %d: %s is left", seed, found)
		}
		again := policy.Accept(&v1alpha1.AutoscalingRunnerSetSpec{ListenerTemplate: kept})
		if diff := cmp.Diff(kept, again.Template); diff != "" || len(again.Refused.First) > 0 {
			t.Fatalf("seed %d: once more refuses %v (-once +twice):\n%s", seed, again.Refused.First, diff)
		}
		if diff := cmp.Diff(kept, policy.Template(given)); diff != "" {
			t.Fatalf("seed %d: with and without a report (-with +without):\n%s", seed, diff)
		}
		for _, name := range silent(given, kept, accepted.Refused) {
			t.Errorf("seed %d: %s is left out without a word", seed, name)
		}
		count(fields, reflect.ValueOf(kept.Spec))
	}
	for name := range strings.FieldsSeq(allowed[reflect.TypeFor[corev1.PodSpec]()]) {
		if fields[name] == 0 {
			t.Errorf("%s was never left: this test tests little", name)
		}
	}
}

// silent returns the fields of the pod's spec that are gone and that no refusal names.
func silent(given, kept *corev1.PodTemplateSpec, refused listenertemplate.Refusals) (names []string) {
	was, is := reflect.ValueOf(given.Spec), reflect.ValueOf(kept.Spec)
	for i := range was.NumField() {
		field := was.Type().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		named := slices.ContainsFunc(refused.First, func(r listenertemplate.Refusal) bool {
			return strings.HasPrefix(r.Path, "listenerTemplate.spec."+name)
		})
		kind := was.Field(i).Kind()
		empty := (kind == reflect.Slice || kind == reflect.Map) && was.Field(i).Len() == 0
		if !was.Field(i).IsZero() && !empty && is.Field(i).IsZero() && !named {
			names = append(names, field.Name)
		}
	}
	return names
}

// count counts the fields that are set.
func count(fields map[string]int, value reflect.Value) {
	for i := range value.NumField() {
		if !value.Field(i).IsZero() {
			fields[value.Type().Field(i).Name]++
		}
	}
}

// A template of more than a megabyte, as large as the API server takes one, makes neither long lists, whose merging
// takes time that grows with their square, nor a long text.
func TestHugeTemplates(t *testing.T) {
	const (
		many        = 40_000
		maxRefusals = 1000
		maxElements = 100 // of each list, as docs/listener-template.md says
	)
	long := strings.Repeat("n", 500_000)
	list := &corev1.PodTemplateSpec{}
	list.Labels, list.Annotations = map[string]string{}, map[string]string{}
	container := corev1.Container{Name: v1alpha1.ListenerContainerName}
	for i := range many {
		name := fmt.Sprint("v", i)
		list.Spec.Volumes = append(list.Spec.Volumes, corev1.Volume{Name: name})
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/" + name})
		container.Env = append(container.Env, corev1.EnvVar{Name: name})
		list.Spec.HostAliases = append(list.Spec.HostAliases, corev1.HostAlias{IP: name})
		list.Labels["helm.sh/"+name] = ""
	}
	list.Spec.Containers = []corev1.Container{container}
	names := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Volumes: []corev1.Volume{
		{Name: long, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}}},
	}}}
	names.Spec.Containers = []corev1.Container{{Name: long + "\n"}, {Name: "\x00\x1b[31m"}}
	for name, given := range map[string]*corev1.PodTemplateSpec{"lists": list, "names": names} {
		accepted := policy.Accept(&v1alpha1.AutoscalingRunnerSetSpec{ListenerTemplate: given})
		if refused := len(accepted.Refused.First); refused == 0 || refused > maxRefusals {
			t.Errorf("%s: %d refusals", name, refused)
		}
		text := accepted.Refused.List(512)
		if len(text) > 1024 || strings.ContainsAny(text, "\n\x00\x1b") {
			t.Errorf("%s: %d bytes: %q", name, len(text), text)
		}
		spec := accepted.Template.Spec
		if len(spec.Volumes) > maxElements || len(spec.HostAliases) > maxElements ||
			(len(spec.Containers) > 0 && len(spec.Containers[0].Env) > maxElements) {
			t.Errorf("%s: lists are as long as before", name)
		}
	}
}

func TestListOfRefusals(t *testing.T) {
	three := []listenertemplate.Refusal{{Path: "aaaa"}, {Path: "bbbb"}, {Path: "cccc"}}
	for want, list := range map[string]struct {
		refused listenertemplate.Refusals
		most    int
	}{
		"":                             {listenertemplate.Refusals{}, 10},
		"aaaa, bbbb, cccc":             {listenertemplate.Refusals{First: three}, 100},
		"aaaa, bbbb and 1 more":        {listenertemplate.Refusals{First: three}, 10},
		"aaaa and 2 more":              {listenertemplate.Refusals{First: three}, 0},
		"aaaa, bbbb, cccc and 7 more":  {listenertemplate.Refusals{First: three, More: 7}, 100},
		"aaaa and 9 more":              {listenertemplate.Refusals{First: three, More: 7}, 0},
		"aaaa, bbbb, cccc and 40 more": {listenertemplate.Refusals{First: three, More: 40}, 100},
	} {
		if got := list.refused.List(list.most); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
