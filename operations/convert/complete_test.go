package convert_test

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// filler makes objects that have every field of a type, each with a value of its own, and one field in each object that
// no type has.
type filler struct{ next int }

func (f *filler) text() string {
	f.next++
	return fmt.Sprintf("v%dv", f.next)
}

func (f *filler) fill(of reflect.Type) any {
	switch of {
	case reflect.TypeFor[resource.Quantity](), reflect.TypeFor[intstr.IntOrString]():
		f.next++
		return float64(f.next)
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]():
		return "2026-01-02T03:04:05Z"
	case reflect.TypeFor[metav1.FieldsV1]():
		return map[string]any{}
	}
	switch of.Kind() {
	case reflect.Pointer:
		return f.fill(of.Elem())
	case reflect.Slice:
		return []any{f.fill(of.Elem())}
	case reflect.Map:
		return map[string]any{f.text(): f.fill(of.Elem())}
	case reflect.Struct:
		object := map[string]any{"unknownToAll": f.text()}
		for _, field := range reflect.VisibleFields(of) {
			if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" && name != "-" && !field.Anonymous {
				object[name] = f.fill(field.Type)
			}
		}
		return object
	case reflect.Bool:
		return true
	case reflect.String:
		return f.text()
	default:
		f.next++
		return float64(f.next)
	}
}

// legacyConfig are the fields that all kinds of runners have; legacyPod those that a RunnerDeployment and a Runner have
// of a pod.
func (f *filler) legacyConfig() map[string]any {
	return map[string]any{
		"enterprise": f.text(), "organization": f.text(), "repository": f.text() + "/" +
			f.text(), "labels": []any{f.text(), f.text()}, "group": f.text(),
		"ephemeral": false, "image": f.text(), "workDir": "/" +
			f.text(), "dockerdWithinRunnerContainer": false, "dockerEnabled": true, "dockerMTU": f.fill(reflect.TypeFor[int]()),
		"dockerRegistryMirror": f.text(), "dockerVarRunVolumeSizeLimit": f.text(), "volumeSizeLimit": f.text(),
		"volumeStorageMedium": f.text(), "containerMode": f.text(),
		"githubAPICredentialsFrom": map[string]any{"secretRef": map[string]any{"name": f.text(), "unknownToAll": f.text()}},
		"serviceAccountName":       f.text(),
		"workVolumeClaimTemplate": map[string]any{
			"storageClassName": f.text(), "accessModes": []any{f.text()}, "unknownToAll": f.text(),
			"resources": f.fill(reflect.TypeFor[corev1.VolumeResourceRequirements]()),
		},
		"unknownToAll": f.text(),
	}
}

func (f *filler) legacyPod() map[string]any {
	pod := map[string]any{
		"dockerdContainerResources": f.fill(reflect.TypeFor[corev1.ResourceRequirements]()),
		"dockerVolumeMounts":        f.fill(reflect.TypeFor[[]corev1.VolumeMount]()),
		"dockerEnv":                 f.fill(reflect.TypeFor[[]corev1.EnvVar]()),
		"sidecarContainers":         f.fill(reflect.TypeFor[[]corev1.Container]()),
		"env":                       f.fill(reflect.TypeFor[[]corev1.EnvVar]()),
		"envFrom":                   f.fill(reflect.TypeFor[[]corev1.EnvFromSource]()),
		"imagePullPolicy":           f.text(),
		"resources":                 f.fill(reflect.TypeFor[corev1.ResourceRequirements]()),
		"volumeMounts":              f.fill(reflect.TypeFor[[]corev1.VolumeMount]()),
	}
	spec, _ := f.fill(reflect.TypeFor[corev1.PodSpec]()).(map[string]any)
	for _, name := range []string{
		"containers", "volumes", "enableServiceLinks", "initContainers", "nodeSelector", "automountServiceAccountToken",
		"securityContext", "imagePullSecrets", "affinity",
		"tolerations", "priorityClassName", "terminationGracePeriodSeconds", "ephemeralContainers", "hostAliases",
		"topologySpreadConstraints", "runtimeClassName", "dnsPolicy", "dnsConfig",
	} {
		pod[name] = spec[name]
	}
	return pod
}

func (f *filler) object(kind string, spec map[string]any) map[string]any {
	metadata, _ := f.fill(reflect.TypeFor[metav1.ObjectMeta]()).(map[string]any)
	metadata["ownerReferences"] = []any{map[string]any{"apiVersion": "v1", "kind": f.text()}}
	metadata["name"], metadata["namespace"] = "filled", "filled"
	return map[string]any{"apiVersion": "actions.summerwind.dev/v1alpha1", "kind": kind, "metadata": metadata,
		"spec": spec, "status": map[string]any{"a": f.text()}, "unknownToAll": f.text()}
}

func (f *filler) autoscaler(kind string) map[string]any {
	trigger := map[string]any{"amount": 1.0, "duration": "5m",
		"githubEvent": map[string]any{"checkRun": map[string]any{"types": []any{f.text()}}}, "unknownToAll": f.text()}
	metric := map[string]any{"unknownToAll": f.text(), "type": "PercentageRunnersBusy",
		"repositoryNames": []any{f.text()}, "scaleUpThreshold": f.text(), "scaleDownThreshold": f.text(),
		"scaleUpFactor": f.text(), "scaleDownFactor": f.text(), "scaleUpAdjustment": 1.0, "scaleDownAdjustment": 1.0}
	queue := maps.Clone(metric)
	queue["type"] = "TotalNumberOfQueuedAndInProgressWorkflowRuns"
	return f.object("HorizontalRunnerAutoscaler", map[string]any{
		"scaleTargetRef": map[string]any{"kind": kind, "name": "filled", "unknownToAll": f.text()}, "minReplicas": 3.0,
		"maxReplicas": 9.0, "unknownToAll": f.text(),
		"scaleDownDelaySecondsAfterScaleOut": 30.0, "metrics": []any{metric, queue, map[string]any{"type": f.text()}}, "scaleUpTriggers": []any{trigger},
		"capacityReservations": []any{map[string]any{"name": f.text(), "replicas": 1.0}},
		"scheduledOverrides": []any{map[string]any{"startTime": "2026-01-02T03:04:05Z", "endTime": "2026-01-02T05:04:05Z",
			"minReplicas": 1.0, "unknownToAll": f.text(),
			"recurrenceRule": map[string]any{"frequency": "Daily", "untilTime": "2027-01-02T03:04:05Z",
				"unknownToAll": f.text()}}},
		"githubAPICredentialsFrom": map[string]any{"secretRef": map[string]any{"name": f.text()}},
	})
}

// filled are objects of each kind that have every field. variant changes what decides about others.
func (f *filler) filled(kind string, variant map[string]any) []map[string]any {
	config, pod := f.legacyConfig(), f.legacyPod()
	maps.Copy(config, variant)
	var spec map[string]any
	switch kind {
	case "Runner":
		maps.Copy(config, pod)
		spec = config
	case "RunnerSet":
		spec, _ = f.fill(reflect.TypeFor[appsv1.StatefulSetSpec]()).(map[string]any)
		maps.Copy(spec, config)
		pod, _ = spec["template"].(map[string]any)["spec"].(map[string]any)
	default:
		maps.Copy(config, pod)
		template := f.fill(reflect.TypeFor[metav1.ObjectMeta]())
		spec = map[string]any{"replicas": 4.0, "effectiveTime": f.text(),
			"selector": map[string]any{"matchLabels": map[string]any{f.text(): f.text()}}, "unknownToAll": f.text(),
			"template": map[string]any{"metadata": template, "spec": config, "unknownToAll": f.text()}}
	}
	for i, name := range []string{"runner", "docker"} {
		container, _ := f.fill(reflect.TypeFor[corev1.Container]()).(map[string]any)
		container["name"] = name
		list, _ := pod["containers"].([]any)
		pod["containers"] = slices.Insert(list, i, any(container))
	}
	if kind != "RunnerSet" {
		config["containers"] = pod["containers"]
	}
	objects := []map[string]any{f.object(kind, spec)}
	if kind != "Runner" {
		objects = append(objects, f.autoscaler(kind))
	}
	return objects
}

// No field is lost in silence: it is among the values, or the report names it or what it is in.
func TestEveryFieldIsConvertedOrNamed(t *testing.T) {
	for _, kind := range []string{"RunnerDeployment", "RunnerSet", "Runner"} {
		for name, variant := range map[string]map[string]any{
			"Docker beside": {}, "Docker in the runner": {"dockerdWithinRunnerContainer": true}, "no Docker": {"dockerEnabled": false}, "hooks": {"containerMode": "kubernetes"},
			"a repository": {"organization": nil, "enterprise": nil},
		} {
			t.Run(kind+", "+name, func(t *testing.T) {
				objects := (&filler{}).filled(kind, variant)
				var documents []string
				for _, object := range objects {
					documents = append(documents, toYAML(t, object))
				}
				o := run(t, strings.Join(documents, "---\n"))
				if len(o.report.Sets) != 1 {
					t.Fatalf("%d scale sets, %v", len(o.report.Sets), o.err)
				}
				became := accountOf(&o)
				for _, object := range objects {
					visit("", object, func(path string, value any) {
						if !became.has(path, value) {
							t.Errorf("%s: %s is lost: %v", object["kind"], path, value)
						}
					})
				}
			})
		}
	}
}

// visit calls found with each leaf of an object.
func visit(path string, value any, found func(path string, value any)) {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			visit(strings.TrimPrefix(path+"."+key, "."), value[key], found)
		}
	case []any:
		for i, entry := range value {
			visit(fmt.Sprintf("%s[%d]", path, i), entry, found)
		}
	case nil:
	default:
		found(path, value)
	}
}

var distinct = regexp.MustCompile(`v\d+v`)

// account has the fields of which the report says something, and those that it calls converted.
type account struct {
	named, converted map[string]bool
	values           string
}

func accountOf(o *outcome) *account {
	a := &account{map[string]bool{}, map[string]bool{}, o.files}
	for _, found := range o.report.Findings {
		for _, field := range found.Fields {
			a.named[variable.ReplaceAllString(field, "$1[*]")] = true
		}
	}
	for _, one := range o.report.Sets[0].Converted {
		_, field, ofAutoscaler := strings.Cut(one.Field, ": ")
		if !ofAutoscaler {
			field = one.Field
		}
		a.converted[variable.ReplaceAllString(field, "$1[*]")] = true
	}
	return a
}

// variable is an entry of a list of variables, which the report calls by its name, not by its place.
var variable = regexp.MustCompile(`(\w*[eE]nv)\[\w+\]`)

// has reports whether something became of a leaf. What can be recognized has to be in the values, whatever the report
// claims.
func (a *account) has(path string, value any) bool {
	identity := []string{"apiVersion", "kind", "metadata.namespace", "spec.scaleTargetRef.kind",
		"spec.scaleTargetRef.name"}
	if covers(a.named, path) || slices.Contains(identity, path) {
		return true
	}
	if text, ok := value.(string); ok && distinct.MatchString(text) {
		return strings.Contains(a.values, text)
	}
	return covers(a.converted, path)
}

// covers reports whether a field, or something that it is in, is among those given.
func covers(fields map[string]bool, path string) bool {
	for _, way := range []string{path, variable.ReplaceAllString(path, "$1[*]")} {
		for end := len(way); end > 0; end = strings.LastIndexAny(way[:end], ".[") {
			if fields[way[:end]] {
				return true
			}
		}
	}
	return false
}

// The value of a variable may be a secret: it is among the values, and nowhere in the report.
func TestReportHasNoValueOfAVariable(t *testing.T) {
	for _, kind := range []string{"RunnerDeployment", "RunnerSet"} {
		for _, docker := range []bool{true, false} {
			var object map[string]any
			filled := toYAML(t, (&filler{}).filled(kind, map[string]any{"dockerdWithinRunnerContainer": docker})[0])
			if err := yaml.Unmarshal([]byte(filled), &object); err != nil {
				t.Fatal(err)
			}
			replaced := 0
			replaceVariables(object, &replaced)
			o := run(t, toYAML(t, object))
			if said := o.text + fmt.Sprint(o.report); strings.Contains(said, "hunter2") || len(o.report.Sets) != 1 ||
				replaced < 4 {
				t.Errorf("%s: the report has the value of one of %d variables", kind, replaced)
			}
		}
	}
}

// replaceVariables gives variables values in the forms that they may have by mistake, too.
func replaceVariables(in any, replaced *int) {
	forms := []any{"hunter2", map[string]any{"a": "hunter2"}, []any{"hunter2"}, "hunter2\x1b[31m", "${hunter2}"}
	switch in := in.(type) {
	case map[string]any:
		if in["valueFrom"] != nil {
			in["value"] = forms[*replaced%len(forms)]
			*replaced++
		}
		for _, key := range slices.Sorted(maps.Keys(in)) {
			replaceVariables(in[key], replaced)
		}
	case []any:
		for _, part := range in {
			replaceVariables(part, replaced)
		}
	}
}
