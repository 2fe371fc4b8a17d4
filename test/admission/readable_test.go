package admission

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube"
)

// What Go can't decode would hide all objects of the kind from the manager, so the schema must refuse it.
func TestWhatGoCantReadIsRefused(t *testing.T) {
	cluster := testkube.Shared(t)
	set := newSet(cluster.NewNamespace(t))
	if err := cluster.Client().Create(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	container := func(fields string) string {
		return `{"template":{"spec":{"containers":[{"name":"runner",` + fields + `}]}}}`
	}
	quantity := func(value string) string { return container(`"resources":{"limits":{"cpu":` + value + `}}`) }
	for name, test := range map[string]struct{ spec, field string }{
		"word":               {`{"pendingTimeout":"soon"}`, "spec.pendingTimeout"},
		"duration beyond Go": {`{"pendingTimeout":"999999999999h"}`, "must be at most 8760h"},
		"too long a wait":    {`{"pendingTimeout":"8761h"}`, "must be at most 8760h"},
		"no time to end":     {`{"sidecarGracePeriod":"0s"}`, "must be at least 1s"},
		"sum beyond Go":      {`{"registrationTimeout":"2000000h2000000h"}`, "must be at most 8760h"},
		"endless text":       {`{"registrationTimeout":"` + strings.Repeat("0", 70) + `1h"}`, "spec.registrationTimeout"},
		"exponent":           {quantity(`"1e99999999999999999999"`), "limits.cpu"},
		"fraction in it":     {quantity(`"1e1.5"`), "limits.cpu"},
		"slow exponent":      {quantity(`"1e-999999999"`), "limits.cpu"},
		"quantity of a claim": {`{"template":{"spec":{"containers":[],"volumes":[{"name":"a","ephemeral":{"volumeClaimTemplate":{"spec":{"resources":
			{"requests":{"storage":"1e99999999999999999999"}}}}}}]}}}`, "requests.storage"},
		"port of a probe":  {container(`"livenessProbe":{"httpGet":{"port":99999999999}}`), "httpGet.port"},
		"port":             {container(`"ports":[{"containerPort":99999999999}]`), "containerPort"},
		"user":             {container(`"securityContext":{"runAsUser":99999999999999999999}`), "runAsUser"},
		"runners":          {`{"maxRunners":99999999999999999999}`, "spec.maxRunners"},
		"too many runners": {`{"maxRunners":4294967296}`, "spec.maxRunners"},
	} {
		t.Run(name, func(t *testing.T) {
			patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":%s}`, test.spec))
			if err := cluster.Client().Patch(t.Context(), set.DeepCopy(), patch, client.DryRunAll); err == nil ||
				!strings.Contains(err.Error(), test.field) {
				t.Errorf("error %v, want one with %q", err, test.field)
			}
		})
	}
}

// The limits leave what people write.
func TestWhatGoCanReadIsTaken(t *testing.T) {
	cluster := testkube.Shared(t)
	set := newSet(cluster.NewNamespace(t))
	if err := cluster.Client().Create(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	for _, spec := range []string{
		`{"pendingTimeout":"1h30m0.5s20ms","registrationTimeout":"8760h"}`, `{"pendingTimeout":"0s"}`,
		`{"template":{"spec":{"containers":[{"name":"runner","livenessProbe":{"httpGet":{"port":"http"}},"resources":{"limits":
			{"a":1,"b":"1.5Gi","c":"100m","d":"1e3","e":"2E","f":"1E-2","g":"+.5"}}}]}}}`,
	} {
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":%s}`, spec))
		if err := cluster.Client().Patch(t.Context(), set, patch); err != nil {
			t.Errorf("%s: %v", spec, err)
		}
	}
}

// Of a runner's pod the API server knows the quantities: Go computes some for hours, and cannot decode others.
func TestQuantitiesOfRunnersAreChecked(t *testing.T) {
	cluster := testkube.Shared(t)
	namespace := cluster.NewNamespace(t)
	limits := func(cpu string) corev1.ResourceList { return corev1.ResourceList{"cpu": resource.MustParse(cpu)} }
	pod := corev1.PodSpec{
		Containers: []corev1.Container{{Name: "runner", Resources: corev1.ResourceRequirements{Limits: limits("2.5")}}},
		Overhead:   limits("1e3"), NodeSelector: map[string]string{"a": "b"},
	}
	for _, test := range []struct {
		object client.Object
		path   string // of the pod's spec, as a patch has it
	}{
		{&v1alpha1.EphemeralRunner{Spec: v1alpha1.EphemeralRunnerSpec{PodSpec: pod}}, `{"spec":{"spec":%s}}`},
		{&v1alpha1.EphemeralRunner{}, `{"spec":{"spec":%s}}`},
		{&v1alpha1.EphemeralRunnerSet{Spec: v1alpha1.EphemeralRunnerSetSpec{
			EphemeralRunnerSpec: v1alpha1.EphemeralRunnerSpec{PodSpec: pod}}},
			`{"spec":{"ephemeralRunnerSpec":{"spec":%s}}}`},
		{&v1alpha1.AutoscalingListener{Spec: v1alpha1.AutoscalingListenerSpec{Template: &corev1.PodTemplateSpec{Spec: pod}}}, `{"spec":{"template":{"spec":%s}}}`},
	} {
		test.object.SetNamespace(namespace)
		test.object.SetGenerateName("object-")
		before := test.object.DeepCopyObject()
		if err := cluster.Client().Create(t.Context(), test.object); err != nil {
			t.Fatal(err)
		}
		spec := func(object any) any { return reflect.ValueOf(object).Elem().FieldByName("Spec").Interface() }
		if !equality.Semantic.DeepEqual(spec(before), spec(test.object)) {
			t.Errorf("%T lost something: %+v", test.object, spec(test.object))
		}
		for _, spec := range []string{`{"overhead":{"cpu":"1e-999999999"}}`,
			`{"containers":[{"name":"a","resources":{"limits":{"cpu":"1e99999999999999999999"}}}]}`} {
			patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, test.path, spec))
			if err := cluster.Client().Patch(t.Context(), test.object.DeepCopyObject().(client.Object),
				patch); err == nil || !strings.Contains(err.Error(), ".cpu") {
				t.Errorf("%T with %s: %v", test.object, spec, err)
			}
		}
	}
}
