package dryrun_test

import (
	"encoding/json"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/charts"
	"github.com/harrier-ci/harrier/operations/dryrun"
)

func read(t *testing.T, text string) map[string]any {
	t.Helper()
	var values map[string]any
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// texts renders values of a scale set, and returns all messages about them and about the rendered objects.
func texts(t *testing.T, values map[string]any) (said []string) {
	t.Helper()
	rendered, faults, err := dryrun.Render(charts.ScaleSet, values, dryrun.Release{Name: "release", Namespace: "runners"})
	if err != nil {
		t.Fatal(err)
	}
	if rendered != nil {
		for _, object := range rendered.Objects {
			more, err := dryrun.CheckObject(object)
			if err != nil {
				t.Fatal(err)
			}
			faults = append(faults, more...)
		}
	}
	for _, fault := range faults {
		said = append(said, fault.String())
	}
	return said
}

const minimal = "githubConfigUrl: https://github.com/acme\ngithubConfigSecret: gh\n"

// dropped is the message about a field that the API server doesn't know.
const dropped = "Kubernetes has no such field and drops it"

// What the API server would drop or refuse is found at any depth, in all that the values render to.
func TestRenderedObjectsAreCheckedStrictly(t *testing.T) {
	for values, want := range map[string]string{
		"": "",
		"template: {spec: {containers: [{name: runner, resources: {limit: {cpu: 1}}}]}}":                 "spec.template.spec.containers[0].resources.limit: " + dropped,
		"template: {spec: {affinity: {nodeAffinty: {}}}}":                                                "spec.template.spec.affinity.nodeAffinty: " + dropped,
		"template: {spec: {tolerations: [{key: a, effekt: NoSchedule}]}}":                                "spec.template.spec.tolerations[0].effekt: " + dropped,
		"template: {spec: {securityContext: {seccompProfile: {typ: RuntimeDefault}}}}":                   "spec.template.spec.securityContext.seccompProfile.typ: " + dropped,
		"listenerTemplate: {spec: {containers: [{name: listener, resources: {requests: {cpu: lots}}}]}}": "spec.listenerTemplate.spec.containers[0].resources.requests.cpu: should match",
		"template: {spec: {terminationGracePeriodSeconds: long}}":                                        "spec.template.spec.terminationGracePeriodSeconds: must be of type integer",
		"template: {spec: {volumes: [{name: a, hostPath: {}}]}}":                                         "spec.template.spec.volumes[0].hostPath.path: is required",
		"template: {spec: {containers: [{name: a, image: i}, {name: a, image: i}]}}":                     "Duplicate value",
		"template: {metadata: {labels: {a b: c}}}":                                                       "spec.template.metadata.labels: Invalid value",
		"resourceMeta: {ephemeralRunner: {annotations: {a b: c}}}":                                       "spec.ephemeralRunnerMetadata.annotations: Invalid value",
		"namespaceOverride: A_b": "metadata.namespace: Invalid value",
		"containerMode: {type: kubernetes-novolume, kubernetesModeAdditionalRoleRules: [{verb: [get]}]}": "rules",
	} {
		said := texts(t, read(t, minimal+values))
		found := slices.ContainsFunc(said, func(text string) bool { return want != "" && strings.Contains(text, want) })
		if found != (want != "") || (want == "" && len(said) > 0) {
			t.Errorf("%q: says %q, want %q", values, said, want)
		}
	}
}

// A path in an object is found in the values of which the chart has made the object.
func TestPlacesInValues(t *testing.T) {
	values := read(t,
		"template: {spec: {securityContext: {a: 1}, containers: [{name: x}, {name: y, securityContext: {a: 1, b: 2}}]}}\n"+
			"podSecurityContext: {c: 1}\nsecurityContext: {d: 1}\ncontainerMode: {kubernetesModeWorkVolumeClaim: {resourcs: {}}}\ntls: {from: {name: a}}\n")
	for path, want := range map[string]string{
		"spec.template.spec.securityContext.a":                           "template.spec.securityContext.a",
		"spec.template.spec.containers[2].securityContext.b":             "template.spec.containers[1].securityContext.b",
		"spec.template.spec.securityContext.c":                           "podSecurityContext.c",
		"spec.template.spec.containers[0].securityContext.d":             "securityContext.d",
		"spec.template.spec.volumes[0].ephemeral.template.spec.resourcs": "containerMode.kubernetesModeWorkVolumeClaim.resourcs",
		"spec.tls.from.key": "tls.from.key",
		"metadata.nobody":   "",
		"":                  "",
	} {
		if got := dryrun.Locate(path, values); got != want {
			t.Errorf("%s is at %q, want %q", path, got, want)
		}
	}
}

func TestWhereFieldsBelong(t *testing.T) {
	for path, want := range map[string]string{
		"template.spec.labels":                                "template.metadata.labels",
		"template.containers":                                 "template.spec.containers",
		"nodeSelector":                                        "template.spec.nodeSelector",
		"listenerTemplate.spec.env":                           "listenerTemplate.spec.containers[].env",
		"template.spec.securityContext.privileged":            "template.spec.containers[].securityContext.privileged",
		"template.spec.containers[0].securityContext.fsGroup": "template.spec.securityContext.fsGroup",
		"template.spec.containers[0].limits":                  "template.spec.containers[].resources.limits",
		"containerMode.tpye":                                  "",
		"":                                                    "",
	} {
		if got := dryrun.Belongs(charts.ScaleSet, path); !strings.HasPrefix(got, want) || (want == "" && got != "") {
			t.Errorf("%s belongs at %q, want %q", path, got, want)
		}
	}
	if got := dryrun.Belongs(charts.Controller, "podSecurityContext.privileged"); got != "securityContext.privileged" {
		t.Errorf("in the controller's values it belongs at %q", got)
	}
}

// The chart's own files are in the program, all of them.
func TestChartsAreWhole(t *testing.T) {
	for _, name := range []string{charts.ScaleSet, charts.Controller} {
		files, err := charts.Files(name)
		if err != nil {
			t.Fatal(err)
		}
		helpers, err := fs.Glob(files, "templates/_*.tpl")
		if err != nil || len(helpers) < 5 {
			t.Errorf("%s has the helpers %v, %v", name, helpers, err)
		}
	}
	if _, err := charts.Files("gha-runner"); err == nil {
		t.Error("there are files of a chart that there is none of")
	}
	if _, _, err := dryrun.Render("gha-runner", nil, dryrun.Release{}); err == nil {
		t.Error("a chart that there is none of is rendered")
	}
}

// FuzzRender looks for values that end the program, or that are refused without a message.
func FuzzRender(f *testing.F) {
	for _, values := range []string{
		"", minimal, minimal + "template: {spec: {containers: [{name: runner, securityContext: 5}]}}", minimal + "template: {spec: null}",
		minimal + "containerMode: {type: dind}\nproxy: {noProxy: a}",
		minimal + "resourceMeta: {ephemeralRunner: {labels: {a: [b]}}}", "template: []",
		minimal + "keyVault: {type: azure_key_vault, azureKeyVault: {url: a, tenantId: b, clientId: c, certificatePath: d}}",
		"scaleset: {name: a}", "x-a: &a [1]\nx-b: [*a, *a]",
	} {
		f.Add(values)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var values map[string]any
		if len(text) > 10_000 || yaml.Unmarshal([]byte(text), &values) != nil {
			t.Skip()
		}
		before, _ := json.Marshal(values)
		for _, said := range texts(t, values) {
			if said == "" {
				t.Errorf("%q is refused without a word", text)
			}
		}
		if after, _ := json.Marshal(values); string(after) != string(before) {
			t.Errorf("%q is changed", text)
		}
	})
}
