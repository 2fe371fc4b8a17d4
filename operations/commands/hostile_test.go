package commands

import (
	"slices"
	"strings"
	"testing"

	"github.com/harrier-ci/harrier/operations/finding"
	"github.com/harrier-ci/harrier/operations/validation"
)

// Input that grows when it is read ends with an answer, not with the memory.
func TestValidateHostileInput(t *testing.T) {
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 10; i++ {
		alias := "*a" + string(rune('0'+i-1))
		bomb += "a" + string(rune('0'+i)) + ": &a" + string(rune('0'+i)) + " [" + strings.Repeat(alias+", ",
			9) + alias +
			"]\n"
	}
	for name, input := range map[string]string{
		"a bomb of aliases": plainValues + bomb,
		"nested deeply": plainValues + "template: {spec: {affinity: " + strings.Repeat("{a: ", 2000) + "1" +
			strings.Repeat("}", 2000) + "}}\n",
		"a list in lists": plainValues + "template: {spec: {containers: " + strings.Repeat("[", 20_000) +
			strings.Repeat("]", 20_000) + "}}\n",
		"a template as a value": plainValues +
			"runnerGroup: '{{ include \"gha-runner-scale-set.validate\" . }}'\nrunnerScaleSetName: '{{ .Values }}'\n",
		"a key without a name": plainValues + "template: {spec: {containers: [{name: runner, '': 1}]}}\n",
		"an endless release":   "kind: HelmRelease\nspec: {chart: {spec: {chart: gha-runner-scale-set}}, values: {template: {spec: []}}}\n",
	} {
		if code, output := said(t, map[string]string{"values.yaml": input}, "-f", "values.yaml"); code == ExitFine ||
			output == "" {
			t.Errorf("%s: exit code %d: %.300s", name, code, output)
		}
	}
}

// Each CEL rule in the schema of the kind gives a single finding: field by field, with a part of its message.
func TestRulesOfTheKind(t *testing.T) {
	const spec = "accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}"
	claim := func(more string) string { return "volumeClaimTemplates: [{metadata: {name: a}, spec: {" + more + "}}]" }
	for field, says := range map[string]string{
		"githubConfigUrl: https://github.com/a#b":                     "spec.githubConfigUrl: ",
		"githubConfigUrl: 'https://github.com/a?tab=b'":               "spec.githubConfigUrl: ",
		"jobProtection: 0s":                                           "spec.jobProtection: ",
		"pendingTimeout: 8761h":                                       "spec.pendingTimeout: ",
		"registrationTimeout: 8761h":                                  "spec.registrationTimeout: ",
		"vaultConfig: {type: other}":                                  "spec.vaultConfig.type: ",
		"vaultConfig: {type: azure_key_vault}":                        "spec.vaultConfig.azureKeyVault: ",
		"capacity: {placementTimeout: 0s}":                            "spec.capacity.placementTimeout: ",
		"scaleDownDelay: 8761h":                                       "spec.scaleDownDelay: ",
		"feedback: {checkAfter: 25h}":                                 "spec.feedback.checkAfter: ",
		"maxIdleTime: 59s":                                            "spec.maxIdleTime: ",
		"minRunners: 3":                                               "spec.minRunners: Invalid value: must not be greater than maxRunners",
		"schedules: [{name: a, schedule: '0 7 * * *', duration: 1h}]": "spec.schedules[0].minRunners: ",
		"schedules: [{name: a, schedule: '0 7 * * *', duration: 0s, minRunners: 1}]":        "spec.schedules[0].duration: ",
		"schedules: [{name: a, schedule: 'TZ=UTC 0 7 * * *', duration: 1h, maxRunners: 1}]": "spec.schedules[0].schedule: ",
		claim("accessModes: [ReadWriteOnce]"):                                               "spec.volumeClaimTemplates[0].spec.resources: ",
		claim("resources: {requests: {storage: 1Gi}}"):                                      "spec.volumeClaimTemplates[0].spec.accessModes: ",
		claim(spec + ", volumeName: disk"):                                                  "spec.volumeClaimTemplates[0].spec.volumeName: ",
		claim(spec + "}}, {metadata: {name: a}, spec: {" +
			spec): "spec.volumeClaimTemplates: ",
		claim(spec+", dataSource: {kind: b, name: c}") +
			", volumeClaimPool: {seedFrom: {newest: true}}": "spec.volumeClaimPool.seedFrom: ",
		claim(spec+"}}, {metadata: {name: b}, spec: {"+spec) +
			", volumeClaimPool: {seedFrom: {volumeSnapshot: c}}": "spec.volumeClaimPool.seedFrom: ",
		"volumeClaimPool: {seedFrom: {volumeSnapshot: a, newest: true}}": "spec.volumeClaimPool.seedFrom: ",
		"volumeClaimPool: {idleTTL: 90000h}":                             "spec.volumeClaimPool.idleTTL: ",
		"volumeClaimPool: {maxAge: 90000h}":                              "spec.volumeClaimPool.maxAge: ",
	} {
		set := strings.Replace(goodSet, "maxRunners: 2", field+", maxRunners: 2", 1)
		if strings.HasPrefix(field, "githubConfigUrl") {
			set = strings.Replace(goodSet, "githubConfigUrl: https://github.com/acme", field, 1)
		}
		findings, err := validation.Validate([]byte(set), nil, "")
		findings = slices.DeleteFunc(findings, func(f finding.Finding) bool { return f.Reason == "VolumeClaimUnmounted" })
		if err != nil || len(findings) != 1 || findings[0].Reason != "InvalidManifest" ||
			!strings.HasPrefix(findings[0].Message, says) {
			t.Errorf("%s: found %+v, %v; want %s", field, findings, err, says)
		}
	}
}

// What the schema refuses hides no rule about something else, and isn't said again by a rule about the same.
func TestRulesBesideWhatTheSchemaRefuses(t *testing.T) {
	for fields, want := range map[string][]string{
		"minRunners: 3, pendingTimeout: soon":                                   {"spec.minRunners", "spec.pendingTimeout"},
		"minRunners: 3, runnerScaleSetLabels: 5":                                {"spec.minRunners", "spec.runnerScaleSetLabels"},
		"maxIdleTime: 1s, volumeClaimTemplates: [{spec: {}}]":                   {"spec.maxIdleTime", "spec.volumeClaimTemplates[0].metadata", "spec.volumeClaimTemplates[0].spec.accessModes", "spec.volumeClaimTemplates[0].spec.resources"},
		"scaleDownDelay: 9000h, minRunners: many":                               {"spec.minRunners", "spec.scaleDownDelay"},
		"schedules: [{name: a, duration: 0s, minRunners: 1}], minRunners: 3":    {"spec.minRunners", "spec.schedules[0].duration", "spec.schedules[0].schedule"},
		"volumeClaimPool: {maxAge: 90000h, idleTTL: 1}, jobProtection: '-1m30'": {"spec.jobProtection", "spec.volumeClaimPool.idleTTL", "spec.volumeClaimPool.maxAge"},
	} {
		findings, err := validation.Validate([]byte(strings.Replace(goodSet, "maxRunners: 2", "maxRunners: 2, "+fields, 1)), nil, "")
		if err != nil {
			t.Fatal(err)
		}
		var places []string
		for _, found := range findings {
			place, _, _ := strings.Cut(found.Message, " ")
			places = append(places, strings.TrimSuffix(place, ":"))
		}
		if slices.Sort(places); !slices.Equal(places, want) {
			t.Errorf("%s: found %+v, want places %q", fields, findings, want)
		}
	}
}

// A claim that the API server lets through in a set, and that it or the kubelet refuses when a runner gets it. No container
// mounts it here, which is told of the best.
func TestValidateClaimsOfRunners(t *testing.T) {
	for spec, reason := range map[string]string{
		"accessModes: [ReadWriteOnce], resources: {requests: {storage: 0}}":                            "InvalidManifest",
		"accessModes: [RWO], resources: {requests: {storage: 1Gi}}":                                    "InvalidManifest",
		"accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}, storageClassName: SSD_1": "InvalidManifest",
		"accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}, volumeMode: Block":       "InvalidVolumeClaim",
		"accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}":                          "VolumeClaimUnmounted",
	} {
		claim := "volumeClaimTemplates: [{metadata: {name: a}, spec: {" + spec + "}}], maxRunners: 2"
		findings, err := validation.Validate([]byte(strings.Replace(goodSet, "maxRunners: 2", claim, 1)), nil, "")
		if err != nil || len(findings) == 0 || findings[0].Reason != reason ||
			findings[len(findings)-1].Reason != "VolumeClaimUnmounted" || len(findings) > 2 {
			t.Errorf("%s: found %+v, %v; want %s", spec, findings, err, reason)
		}
	}
}

// FuzzValidate looks for documents that end the program, or that have a finding without a message.
func FuzzValidate(f *testing.F) {
	for _, document := range []string{
		"", plainValues, goodSet, listStart +
			wrongSet, "kind: HelmRelease\nspec: {values: {githubConfigUrl: 5}}", "gha-runner-scale-set: {githubConfigUrl: []}",
		"kind: Application\nspec: {source: {chart: gha-runner-scale-set, helm: {parameters: [{name: 'a[5', value: b}]}}}",
		"kind: [a]", "replicaCount: 1\ntenants: 5",
		"kind: ApplicationSet\nspec: {template: {spec: {sources: [{path: '{{a}}/gha-runner-scale-set', helm: {values: '{{b}}'}}]}}}", "kind: HelmChart\nspec: {valuesContent: 'a: ['}",
	} {
		f.Add(document)
	}
	f.Fuzz(func(t *testing.T, document string) {
		if len(document) > 10_000 {
			t.Skip()
		}
		findings, err := validation.Validate([]byte(document), nil, "")
		for _, found := range findings {
			if err == nil && (found.Reason == "" || found.Message == "" || found.Fix == "") {
				t.Errorf("%q: %+v", document, found)
			}
		}
	})
}
