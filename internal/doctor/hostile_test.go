package doctor

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Input that is made to be large when it is read ends with an answer, not with the memory.
func TestValidateHostileInput(t *testing.T) {
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 10; i++ {
		alias := "*a" + string(rune('0'+i-1))
		bomb += "a" + string(rune('0'+i)) + ": &a" + string(rune('0'+i)) + " [" + strings.Repeat(alias+", ", 9) + alias + "]\n"
	}
	for name, input := range map[string]string{
		"a bomb of aliases":     plainValues + bomb,
		"nested deeply":         plainValues + "template: {spec: {affinity: " + strings.Repeat("{a: ", 2000) + "1" + strings.Repeat("}", 2000) + "}}\n",
		"a list in lists":       plainValues + "template: {spec: {containers: " + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + "}}\n",
		"a template as a value": plainValues + "runnerGroup: '{{ include \"gha-runner-scale-set.validate\" . }}'\nrunnerScaleSetName: '{{ .Values }}'\n",
		"a key without a name":  plainValues + "template: {spec: {containers: [{name: runner, '': 1}]}}\n",
		"an endless release":    "kind: HelmRelease\nspec: {chart: {spec: {chart: gha-runner-scale-set}}, values: {template: {spec: []}}}\n",
	} {
		if code, output := said(t, map[string]string{"values.yaml": input}, "-f", "values.yaml"); code == ExitFine || output == "" {
			t.Errorf("%s: exit code %d: %.300s", name, code, output)
		}
	}
}

// The schema of the kind states these rules in CEL, which is checked by hand here. A rule that is added needs a check, too.
func TestRulesOfTheKind(t *testing.T) {
	const spec = "accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}"
	claim := func(more string) string { return "volumeClaimTemplates: [{metadata: {name: a}, spec: {" + more + "}}]" }
	for field, reason := range map[string]string{
		"githubConfigUrl: https://github.com/a/b/c":                   "InvalidConfigURL",
		"jobProtection: 0s":                                           "InvalidManifest",
		"pendingTimeout: 8761h":                                       "InvalidManifest",
		"registrationTimeout: 8761h":                                  "InvalidManifest",
		"vaultConfig: {type: other}":                                  "VaultUnsupported",
		"vaultConfig: {type: azure_key_vault}":                        "IncompleteVault",
		"capacity: {placementTimeout: 0s}":                            "InvalidManifest",
		"scaleDownDelay: 8761h":                                       "InvalidManifest",
		"feedback: {checkAfter: 25h}":                                 "InvalidManifest",
		"maxIdleTime: 59s":                                            "InvalidManifest",
		"minRunners: 3":                                               "InvalidLimits",
		"schedules: [{name: a, schedule: '0 7 * * *', duration: 1h}]": "ScheduleRefused",
		"schedules: [{name: a, schedule: '0 7 * * *', duration: 0s, minRunners: 1}]":                                "ScheduleRefused",
		"schedules: [{name: a, schedule: 'TZ=UTC 0 7 * * *', duration: 1h, maxRunners: 1}]":                         "ScheduleRefused",
		claim("accessModes: [ReadWriteOnce]"):                                                                       "InvalidManifest",
		claim("resources: {requests: {storage: 1Gi}}"):                                                              "InvalidManifest",
		claim(spec + ", volumeName: disk"):                                                                          "InvalidManifest",
		claim(spec + "}}, {metadata: {name: a}, spec: {" + spec):                                                    "InvalidManifest",
		claim(spec+", dataSource: {kind: b, name: c}") + ", volumeClaimPool: {seedFrom: {newest: true}}":            "InvalidManifest",
		claim(spec+"}}, {metadata: {name: b}, spec: {"+spec) + ", volumeClaimPool: {seedFrom: {volumeSnapshot: c}}": "InvalidManifest",
		"volumeClaimPool: {seedFrom: {volumeSnapshot: a, newest: true}}":                                            "InvalidManifest",
		"volumeClaimPool: {idleTTL: 90000h}":                                                                        "InvalidManifest",
		"volumeClaimPool: {maxAge: 90000h}":                                                                         "InvalidManifest",
	} {
		set := strings.Replace(goodSet, "maxRunners: 2", field+", maxRunners: 2", 1)
		if strings.HasPrefix(field, "githubConfigUrl") {
			set = strings.Replace(goodSet, "githubConfigUrl: https://github.com/acme", field, 1)
		}
		if findings, err := Validate([]byte(set)); err != nil || len(findings) != 1 || findings[0].Reason != reason {
			t.Errorf("%s: found %+v, %v; want %s", field, findings, err, reason)
		}
	}
	definition, err := os.ReadFile("../../apis/crds/actions.github.com_autoscalingrunnersets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if rules := regexp.MustCompile(`(?m)^ +rule: `).FindAll(definition, -1); len(rules) != 23 {
		t.Errorf("the schema has %d rules, 23 are checked", len(rules))
	}
}

// FuzzValidate looks for documents that end the program, or about which something is found without a word.
func FuzzValidate(f *testing.F) {
	for _, document := range []string{
		"", plainValues, goodSet, listStart + wrongSet, "kind: HelmRelease\nspec: {values: {githubConfigUrl: 5}}", "gha-runner-scale-set: {githubConfigUrl: []}",
		"kind: Application\nspec: {source: {chart: gha-runner-scale-set, helm: {parameters: [{name: 'a[5', value: b}]}}}", "kind: [a]", "replicaCount: 1\ntenants: 5",
		"kind: ApplicationSet\nspec: {template: {spec: {sources: [{path: '{{a}}/gha-runner-scale-set', helm: {values: '{{b}}'}}]}}}", "kind: HelmChart\nspec: {valuesContent: 'a: ['}",
	} {
		f.Add(document)
	}
	f.Fuzz(func(t *testing.T, document string) {
		if len(document) > 10_000 {
			t.Skip()
		}
		findings, err := Validate([]byte(document))
		for _, finding := range findings {
			if err == nil && (finding.Reason == "" || finding.Message == "" || finding.Fix == "") {
				t.Errorf("%q: %+v", document, finding)
			}
		}
	})
}
