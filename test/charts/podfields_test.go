package charts

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/harrier-ci/harrier/internal/testkube"
)

// openSchema is the part of a JSON schema about allowed keys.
type openSchema struct {
	Properties        map[string]openSchema `json:"properties"`
	PatternProperties map[string]openSchema `json:"patternProperties"`
	Items             *openSchema           `json:"items"`
}

// The schema takes exactly the fields of pods and containers in the API of our CRDs: that API drops unknown fields, and
// some versions of Helm don't warn.
func TestPodFieldsInSchema(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(scaleSet.directory(), "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties struct{ Template, ListenerTemplate openSchema }
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	for _, template := range []openSchema{schema.Properties.Template, schema.Properties.ListenerTemplate} {
		pod := template.Properties["spec"]
		check(t, "pod", keys(pod), jsonFields[corev1.PodSpec]())
		for _, list := range []string{"containers", "initContainers"} {
			if items := pod.Properties[list].Items; items != nil {
				check(t, list, keys(*items), jsonFields[corev1.Container]())
			}
		}
	}
}

// The charts' notes name fields below those: each chart has a list of all that its values may have, by type, each with the
// type of what is in it.
func TestPodFieldsBelowTheSchema(t *testing.T) {
	t.Parallel()
	const header = "# %s: those of each type, with the type of what is in them if it has fields, too.\n" +
		"# Written by go test ./test/charts -run PodFieldsBelow -update\n"
	for _, list := range []struct {
		chart
		of    string
		roots []reflect.Type
	}{
		{scaleSet, "The fields of a pod", []reflect.Type{reflect.TypeFor[corev1.PodSpec]()}},
		{controller, "The fields of parts of a pod and of a NetworkPolicy", []reflect.Type{
			reflect.TypeFor[corev1.Affinity](), reflect.TypeFor[corev1.EnvVar](), reflect.TypeFor[corev1.PodSecurityContext](),
			reflect.TypeFor[corev1.ResourceRequirements](), reflect.TypeFor[corev1.SecurityContext](),
			reflect.TypeFor[corev1.Toleration](), reflect.TypeFor[corev1.TopologySpreadConstraint](),
			reflect.TypeFor[corev1.VolumeMount](), reflect.TypeFor[corev1.Volume](),
			reflect.TypeFor[networkingv1.NetworkPolicyPeer](), reflect.TypeFor[networkingv1.NetworkPolicyEgressRule](),
		}},
	} {
		types := map[string]map[string]string{}
		for _, root := range list.roots {
			addTypes(types, root)
		}
		var text strings.Builder
		fmt.Fprintf(&text, header, list.of)
		for _, name := range slices.Sorted(maps.Keys(types)) {
			fields, err := json.Marshal(types[name])
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&text, "%s: %s\n", name, fields)
		}
		file := filepath.Join(list.directory(), "pod-fields.yaml")
		if *update {
			if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		written, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		check(t, file, string(written), text.String())
	}
}

// addTypes adds the fields of a type, and the types of these.
func addTypes(types map[string]map[string]string, of reflect.Type) {
	if types[of.Name()] != nil {
		return
	}
	fields := map[string]string{}
	types[of.Name()] = fields
	for _, field := range reflect.VisibleFields(of) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		is := field.Type
		for is.Kind() == reflect.Pointer || is.Kind() == reflect.Slice {
			is = is.Elem()
		}
		fields[name] = ""
		// Those with a form of their own in JSON have no fields there, and of the metadata of a claim Kubernetes keeps any.
		_, own := reflect.New(is).Interface().(json.Marshaler)
		if is.Kind() == reflect.Struct && !own && is != reflect.TypeFor[metav1.ObjectMeta]() {
			fields[name] = is.Name()
			addTypes(types, is)
		}
	}
}

// The fields that only one of the two kinds of securityContext has.
func TestSecurityFields(t *testing.T) {
	t.Parallel()
	pod, container := jsonFields[corev1.PodSecurityContext](), jsonFields[corev1.SecurityContext]()
	text, err := os.ReadFile(filepath.Join(scaleSet.directory(), "templates", "_pod_fields.tpl"))
	if err != nil {
		t.Fatal(err)
	}
	controllers, err := os.ReadFile(filepath.Join(controller.directory(), "templates", "_manager.tpl"))
	if err != nil {
		t.Fatal(err)
	}
	for name, pair := range map[string][2][]string{"container": {container, pod}, "pod": {pod, container}} {
		alone := slices.DeleteFunc(slices.Clone(pair[0]), func(field string) bool { return slices.Contains(pair[1], field) })
		checkContains(t, string(text), fmt.Sprintf(`"%s" (list "%s")`, name, strings.Join(alone, `" "`)))
		key := map[string]string{"container": "podSecurityContext", "pod": "securityContext"}[name]
		checkContains(t, string(controllers), fmt.Sprintf(`"%s" (list "%s")`, key, strings.Join(alone, `" "`)))
	}
}

// The controller's own are left out and told alike.
func TestMisplacedSecurityFieldsOfTheController(t *testing.T) {
	t.Parallel()
	const values = "podSecurityContext: {readOnlyRootFilesystem: true, runAsUser: 1000}\nsecurityContext: {fsGroup: 1, capabilities: null}"
	pod := deployment(t, values).Spec.Template.Spec
	check(t, "user", *pod.SecurityContext.RunAsUser, int64(1000))
	notes, stderr, err := controller.with("--dry-run=client").run(t, "install", values)
	if err != nil {
		t.Fatal(stderr)
	}
	for _, said := range []string{
		"podSecurityContext.readOnlyRootFilesystem is left out", "or write it as securityContext.readOnlyRootFilesystem",
		"securityContext.fsGroup is left out", "or write it as podSecurityContext.fsGroup",
	} {
		checkContains(t, notes, said)
	}
	if strings.Contains(notes, "capabilities is left out") {
		t.Errorf("what is removed is told: %s", notes)
	}
	for _, container := range pod.Containers {
		check(t, "read only", container.SecurityContext.ReadOnlyRootFilesystem, ptr.To(true)) // the chart's own
	}
}

// A field of the other securityContext is left out, as Kubernetes does, and told with the way to keep what runs first. The
// API server takes the rest, asked to be strict.
func TestMisplacedSecurityFields(t *testing.T) {
	t.Parallel()
	cluster := testkube.Shared(t)
	namespace := cluster.NewNamespace(t)
	for values, places := range map[string][2]string{
		"template: {spec: {securityContext: {readOnlyRootFilesystem: true, fsGroup: 5}}}":                {"template.spec.securityContext", "template.spec.containers[].securityContext"},
		"template: {spec: {securityContext: {capabilities: {drop: [ALL]}, fsGroup: null}}}":              {"template.spec.securityContext", "template.spec.containers[].securityContext"},
		mode("dind") + "\ntemplate: {spec: {containers: [{name: dind, securityContext: {fsGroup: 1}}]}}": {"template.spec.containers[0].securityContext", "template.spec.securityContext"},
		"template: {spec: {initContainers: [{name: a, image: i, securityContext: {sysctls: []}}]}}":      {"template.spec.initContainers[0].securityContext", "template.spec.securityContext"},
		"listenerTemplate: {spec: {securityContext: {capabilities: {drop: [ALL]}}}}":                     {"listenerTemplate.spec.securityContext", "listenerTemplate.spec.containers[].securityContext"},
		"containerMode: {type: kubernetes-novolume, kubernetesModeHookTemplate: {spec: {securityContext: {privileged: true}}}}": {
			"containerMode.kubernetesModeHookTemplate.spec.securityContext", "containerMode.kubernetesModeHookTemplate.spec.containers[].securityContext"},
		"variants: [{name: a}, {name: b, template: {spec: {securityContext: {privileged: true}}}}]": {
			"variants[1].template.spec.securityContext", "variants[1].template.spec.containers[].securityContext"},
	} {
		said := notes(t, values)
		field := regexp.MustCompile(regexp.QuoteMeta("WARNING: "+places[0]) + `\.(\w+): `).FindStringSubmatch(said)
		if field == nil {
			t.Errorf("%s: the notes don't name %s:\n%s", values, places[0], said)
			continue
		}
		checkContains(t, said, "so far: remove it to keep what runs, or write it as "+places[1]+"."+field[1]+".")
		check(t, values+": warnings", strings.Count(said, "WARNING"), 1)
		rendered := renderSet(t, scaleSet.as("set", namespace), values)
		for file, documents := range rendered {
			if strings.Contains(strings.Join(documents, ""), field[1]+":") {
				t.Errorf("%s: %s has %s", values, file, field[1])
			}
		}
		admitAll(t, cluster, namespace, rendered)
	}
}

// The notes name what Kubernetes doesn't have at any depth, and nothing that it has.
func TestNotesNameUnknownFields(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{
		"template: {spec: {containers: [{name: a, image: i, resources: {limits: {cpu: 1}}}, {name: runner, resources: {limit: {cpu: 1}}}]}}": "template.spec.containers[1].resources.limit",
		"template: {spec: {affinity: {nodeAffinity: {requiredDuringScheduling: {}}}}}":                                                       "template.spec.affinity.nodeAffinity.requiredDuringScheduling",
		"template: {spec: {volumes: [{name: a, projected: {sources: [{configMap: {nam: b}}]}}]}}":                                            "template.spec.volumes[0].projected.sources[0].configMap.nam",
		"template: {spec: {containers: [{name: runner, env: [{name: A, valeFrom: {}}]}]}}":                                                   "template.spec.containers[0].env[0].valeFrom",
		"listenerTemplate: {spec: {containers: [{name: listener, resources: {request: {}}}]}}":                                               "listenerTemplate.spec.containers[0].resources.request",
		"containerMode: {type: kubernetes-novolume, kubernetesModeHookTemplate: {spec: {nodeSelectr: {a: b}}}}":                              "containerMode.kubernetesModeHookTemplate.spec.nodeSelectr",
		"template: {spec: {tolerations: [{key: a, operater: Exists}]}}":                                                                      "template.spec.tolerations[0].operater",
		"template: {spec: {tolerations: [{key: a, operater: null}], nodeSelector: {operater: a}}}":                                           "",
		"template: {spec: {volumes: [{name: a, ephemeral: {volumeClaimTemplate: {metadata: {labels: {a: b}}, spec: {}}}}]}}":                 "",
	} {
		said := notes(t, values)
		if want == "" {
			check(t, values, strings.Contains(said, "no such field"), false)
			continue
		}
		checkContains(t, said, "WARNING: "+want+": Kubernetes has no such field, and drops it: correct the spelling, or remove it.")
		check(t, values+": warnings", strings.Count(said, "no such field"), 1)
	}
}

// The controller's notes do so for its own pod and for NetworkPolicies. Validate refuses the same.
func TestNotesOfTheControllerNameUnknownFields(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{
		"affinity: {nodeAffinity: {requiredDuringScheduling: {}}}":                                                                    "affinity.nodeAffinity.requiredDuringScheduling",
		"tolerations: [{key: a}, {key: b, operater: Exists}]":                                                                         "tolerations[1].operater",
		"topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: ScheduleAnyway, labels: {}}]":                    "topologySpreadConstraints[0].labels",
		"podSecurityContext: {runAsUsr: 1, readOnlyRootFilesystem: true}":                                                             "podSecurityContext.runAsUsr",
		"securityContext: {seccompProfile: {typ: RuntimeDefault}, fsGroup: 1}":                                                        "securityContext.seccompProfile.typ",
		"volumes: [{name: a, secret: {secret: b}}]":                                                                                   "volumes[0].secret.secret",
		"volumeMounts: [{name: tmp, path: /a, mountPath: /b}]":                                                                        "volumeMounts[0].path",
		"env: [{name: A, valueFrom: {secretKeyRef: {name: a, kye: b, key: c}}}]":                                                      "env[0].valueFrom.secretKeyRef.kye",
		"resources: {claims: [{name: a, requests: b}]}":                                                                               "resources.claims[0].requests",
		"networkPolicy: {enabled: true, egress: [{port: 443}]}":                                                                       "networkPolicy.egress[0].port",
		"metrics: {controllerManagerAddr: ':8080'}\nnetworkPolicy: {enabled: true, metricsFrom: [{namespaceSelector: {labels: {}}}]}": "networkPolicy.metricsFrom[0].namespaceSelector.labels",
		"history: {enabled: true, networkPolicy: {enabled: true, egress: [{to: [{ipBlock: {cidrs: a, cidr: 10.0.0.0/8}}]}]}}":         "history.networkPolicy.egress[0].to[0].ipBlock.cidrs",
		"affinity: {nodeAffinity: {requiredDuringScheduling: null}}\ntolerations: null\nnetworkPolicy: null\nhistory: null\nnodeSelector: {operater: a}\npodSecurityContext: null": "",
		"resources: {limits: {cpu: 1, example.com/gpu: 1}, requests: {memory: 1Gi}}\npodLabels: {a: b}\npodSecurityContext: {fsGroup: 1, sysctls: [{name: a, value: b}]}":          "",
	} {
		said, stderr, err := controller.with("--dry-run=client").run(t, "install", values)
		if err != nil {
			t.Fatalf("%s: %s", values, stderr)
		}
		if want == "" {
			check(t, values, strings.Contains(said, "no such field"), false)
			continue
		}
		checkContains(t, said, "WARNING: "+want+": Kubernetes has no such field, and drops it: correct the spelling, or remove it.")
		check(t, values+": warnings", strings.Count(said, "no such field"), 1)
		named := false
		for _, problem := range validated(t, controller, []string{values}) {
			named = named || strings.HasPrefix(problem.Message, want)
		}
		check(t, values+": named by validate", named, true)
	}
}

// keys returns the keys of the schema's only pattern, ^(a|b)$.
func keys(s openSchema) []string {
	for pattern := range s.PatternProperties {
		return strings.Split(strings.TrimSuffix(strings.TrimPrefix(pattern, "^("), ")$"), "|")
	}
	return nil
}

// jsonFields returns the names of the type's fields in JSON, sorted.
func jsonFields[T any]() []string {
	var result []string
	for _, field := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		result = append(result, name)
	}
	slices.Sort(result)
	return result
}
