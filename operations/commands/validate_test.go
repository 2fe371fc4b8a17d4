package commands

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/harrier-ci/harrier/operations/finding"
	"github.com/harrier-ci/harrier/operations/validation"
)

func reasons(findings []finding.Finding) []string {
	list := []string{}
	for _, found := range findings {
		list = append(list, found.Reason)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func TestValidateManifests(t *testing.T) {
	content, err := os.ReadFile("testdata/wrong.yaml")
	if err != nil {
		t.Fatal(err)
	}
	findings, err := validation.Validate(content, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"CredentialsMissing", "InvalidConfigURL", "InvalidManifest",
		"NoRunnerContainer"}; !slices.Equal(reasons(findings), want) {
		t.Errorf("found %v, want %v", reasons(findings), want)
	}
}

// A runner's volume claim needs more than a name, wherever it is written.
func TestValidateVolumesOfManifests(t *testing.T) {
	set := strings.Replace(goodSet, "containers:",
		"volumes: [{name: work, ephemeral: {volumeClaimTemplate: {}}}], containers:", 1)
	findings, err := validation.Validate([]byte(set), nil, "")
	if err != nil || !slices.Equal(reasons(findings), []string{"InvalidManifest", "InvalidVolumeClaim"}) {
		t.Fatalf("found %+v, %v, want InvalidManifest and InvalidVolumeClaim", findings, err)
	}
	if want := "volumeClaimTemplate of volume work lacks accessModes and resources.requests.storage"; findings[1].Message != want {
		t.Errorf("says %q, want %q", findings[1].Message, want)
	}
}

func TestValidateValues(t *testing.T) {
	const good = "githubConfigUrl: https://github.com/acme\ngithubConfigSecret: github\n"
	const claim = "{accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}"
	for document, want := range map[string][]string{
		"": {}, "---\n": {}, "{}": {"CredentialsMissing", "InvalidConfigURL"},
		good:                      {},
		good + "maxRunners: -1":   {"InvalidValues"},
		good + "maxRunners: many": {"InvalidValues"},
		good + "maxRunners: ''":   {}, good + "containerMode: {type: none}": {},
		good + "containerMode: {type: docker}":                                 {"InvalidValues"},
		good + "template: {spec: {containers: [{name: runner}]}}":              {},
		good + "template: {spec: {containers: [{name: runner, image: mine}]}}": {"NoCommand"},
		"{kind: AutoscalingRunnerSet, apiVersion: actions.github.com/v1alpha1, metadata: {name: a}, spec: {githubConfigUrl: https://github.com/acme, githubConfigSecret: github, template: {spec: {containers: [{name: runner}]}}}}": {"InvalidManifest", "NoCommand", "NoImage"},
		good + "template: {spec: {containers: [{name: runner}, {name: dind, image: i}]}}":                   {},
		good + "template: {spec: {containers: [{name: runner}, {name: dind}]}}":                             {"InvalidValues"},
		"githubConfigUrl: https://github.com/acme\ngithubConfigSecret: {github_token: x}":                   {},
		"githubConfigUrl: https://github.com/acme\ngithubConfigSecret: {github_app_id: 1}":                  {"CredentialsMissing"},
		"githubConfigUrl: https://github.com/acme\ngithubConfigSecret: {github_token: x, github_app_id: 1}": {"CredentialsInvalid"},
		"githubConfigUrl: https://github.com/acme\ngithubConfigSecret: {github_token: ' '}":                 {"CredentialsMissing"},
		"githubConfigUrl: https://github.com/acme\ngithubConfigSecret: ''":                                  {"CredentialsMissing"},
		good + "runnerScaleSetName: Linux-Large":                                                            {"InvalidValues"},
		good + "runnerScaleSetName: linux large":                                                            {"InvalidValues"},
		good + "runnerScaleSetName: abc-":                                                                   {"InvalidValues"},
		good + "runnerScaleSetName: _abc_":                                                                  {"InvalidValues"},
		good + "runnerScaleSetName: " + strings.Repeat("a", 46):                                             {"InvalidValues"},
		good + "runnerScaleSetName: " + strings.Repeat("a", 45):                                             {},
		good + "runnerScaleSetName: linux_large.2":                                                          {},
		good + "runnerScaleSetName: 7":                                                                      {},
		good + "runnerScaleSetName:":                                                                        {},
		good + "pendingTimeout: '10'":                                                                       {"InvalidValues"},
		good + "registrationTimeout: -5m":                                                                   {"InvalidValues"},
		good + "pendingTimeout: 8761h":                                                                      {"InvalidValues"},
		good + "pendingTimeout: 1h30m\nregistrationTimeout: ''":                                             {},
		good + "proxy: {http: {credentialSecretRef: proxy}}":                                                {"InvalidValues"},
		good + "keyVault: {proxy: {https: {credentialSecretRef: proxy}}}":                                   {"InvalidValues"},
		good + "proxy: {https: {url: http://p, credentialSecretRef: p}, noProxy: a}":                        {},
		"githubConfigUrl: http://127.0.0.1:8080/acme\ngithubConfigSecret: github":                           {"AddressNotAllowed"},
		good + "proxy: {https: {url: 'http://localhost:3128'}}":                                             {"AddressNotAllowed"},
		good + "keyVault: {proxy: {http: {url: 'http://169.254.169.254'}}}":                                 {},
		good + "keyVault: {type: azure_key_vault, azureKeyVault: {url: a, tenantId: b, clientId: c, certificatePath: d}, proxy: {http: {url: 'http://169.254.169.254'}}}": {"AddressNotAllowed"},
		"kind: AutoscalingRunnerSet\napiVersion: actions.github.com/v1alpha1\nmetadata: {name: a}\nspec: {githubConfigUrl: 'http://[::1]/a', githubConfigSecret: s, " +
			"proxy: {http: {url: '127.0.0.1:1'}}, template: {spec: {containers: [{name: runner, image: i, command: [c]}]}}}": {"AddressNotAllowed"},
		"kind: AutoscalingRunnerSet\napiVersion: actions.github.com/v1alpha1\nspec: {githubConfigUrl: 'https://github.com/acme', githubConfigSecret: s, " +
			"template: {spec: {containers: [{name: runner, image: i, command: [c]}]}}}": {"InvalidManifest"}, // it has no name
		"githubConfigUrl: https://github.com/acme?tab=members\ngithubConfigSecret: gh": {"InvalidValues"},
		"githubConfigUrl: https://github.com/orgs//acme\ngithubConfigSecret: gh":       {"InvalidConfigURL"},
		"githubConfigUrl: https://github.com//acme\ngithubConfigSecret: gh":            {"InvalidValues"},
		"githubConfigUrl: https://github.com/acme\ngithubConfigSecret: My_Secret":      {"CredentialsMissing"},
		"githubConfigUrl: https://github.com/acme\ngithubConfigSecret: My_Secret\n" +
			"keyVault: {type: azure_key_vault, azureKeyVault: {url: a, tenantId: b, clientId: c, certificatePath: d}}": {},
		// not one after the other
		"githubConfigUrl: https://github.com/acme\nrunnerScaleSetName: Large":                                                  {"CredentialsMissing", "InvalidValues"},
		"githubConfigUrl: https://github.com/acme\ntemplate: {spec: {containers: [{name: runner, imagePullPolicy: no}]}}":      {"CredentialsMissing", "InvalidValues"},
		good + "template: {spec: {containers: [{name: runner, imagePullPolicy: always}]}}":                                     {"InvalidValues"},
		good + "template: {spec: {containers: [{name: runner, volumeMounts: [{name: a, mountPath: /a}]}]}}":                    {"InvalidValues"},
		good + "listenerTemplate: {spec: {containers: [{name: listener, resources: {requests: {cpu: 2}, limits: {cpu: 1}}}]}}": {"InvalidValues"},
		"replicaCount: 1\nvolumeMounts: [{name: a, mountPath: /a}]":                                                            {"InvalidValues"},
		"replicaCount: 1\nresources: {requests: {cpu: 1e999999999}}":                                                           {"InvalidValues"},
		"replicaCount: 1\nresources: {requests: {cpu: 1.5}}":                                                                   {},
		good + "githubServerTLS: {runnerMountPath: /ca}":                                                                       {"InvalidValues"},
		good + "githubServerTLS: {certificateFrom: {configMapKeyRef: {name: a}}}":                                              {"InvalidValues"},
		good + "githubServerTLS: {certificateFrom: {configMapKeyRef: {name: a, key: b}}}":                                      {},
		good + "keyVault: {type: azure_key_vault}":                                                                             {"InvalidValues"},
		good + "keyVault: {type: azure_key_vault, azure_key_vault: {url: a, tenant_id: b, client_id: c, certificate_path: d}}": {},
		good + "containerMode: {type: kubernetes}":                                                                             {"InvalidValues"},
		good + "containerMode: {type: kubernetes, kubernetesModeWorkVolumeClaim: {accessModes: [ReadWriteOnce]}}":              {"InvalidVolumeClaim"},
		good + "containerMode: {type: kubernetes, kubernetesModeWorkVolumeClaim: " + claim +
			"}": {},
		good + "containerMode: {type: kubernetes}\ntemplate: {spec: {volumes: [{name: work, emptyDir: {}}]}}": {},
		good + "containerMode: {type: kubernetes-novolume}":                                                   {},
		good + "template: {spec: {volumes: [{name: big, ephemeral: {volumeClaimTemplate: {}}}]}}":             {"InvalidValues", "InvalidVolumeClaim"},
		good + "template: {spec: {volumes: [{name: big, ephemeral: {volumeClaimTemplate: {spec: " + claim +
			"}}}]}}": {},
		"kind: AutoscalingRunnerSet\napiVersion: actions.github.com/v1alpha1\nmetadata: {name: a}\nspec: {runnerGroups: misspelt}": {"CredentialsMissing", "InvalidConfigURL", "InvalidManifest", "NoRunnerContainer"},
	} {
		findings, err := validation.Validate([]byte(document), nil, "")
		if err != nil || !slices.Equal(reasons(findings), want) {
			t.Errorf("%q: found %v, %v; want %v", document, reasons(findings), err, want)
		}
	}
	if _, err := validation.Validate([]byte("a: ["), nil, ""); err == nil {
		t.Error("input that is not YAML passes as valid")
	}
}

// What the templates stop at doesn't hide what is wrong elsewhere, if that is the address.
func TestValidateValuesBehindAnAddress(t *testing.T) {
	findings, err := validation.Validate([]byte("githubConfigUrl: https://github.com//acme\ngithubConfigSecret: gh\ntemplate: "+
		"{spec: {dnsPolicy: never}}"), nil, "")
	if err != nil || len(findings) != 2 {
		t.Fatalf("found %+v, %v; want two", findings, err)
	}
	for i, want := range []string{"is not the address at which runners register",
		"template.spec.dnsPolicy: Unsupported value"} {
		if !strings.Contains(findings[i].Message, want) {
			t.Errorf("says %q, want %q", findings[i].Message, want)
		}
	}
}

// What the chart merges passes, in whichever list it is; what contradicts itself doesn't. test/charts has the whole
// table.
func TestValidateContainersOfTheChart(t *testing.T) {
	const good = "githubConfigUrl: https://github.com/acme\ngithubConfigSecret: github\n"
	spec := func(mode, spec string) string {
		return good + "containerMode: {type: " + mode + "}\ntemplate: {spec: {" + spec + "}}"
	}
	for document, want := range map[string][]string{
		spec("dind", "containers: [{name: dind, resources: {limits: {cpu: 1}}}], initContainers: [{name: init-dind-externals, args: []}]"):                                {},
		spec("none", "containers: [{name: side, image: a}]"):                                                                                                              {"NoRunnerContainer"},
		spec("none", "containers: [], initContainers: [{name: runner, image: mine, command: [run]}]"):                                                                     {},
		spec("dind", "containers: [{name: side, image: a}]"):                                                                                                              {},
		good + "containerMode: {type: dind, kubernetesModeHookTemplate: {spec: {}}}":                                                                                      {"InvalidValues"},
		good + "containerMode: {type: kubernetes-novolume, kubernetesModeHookTemplate: {spec: {}}, kubernetesModeHookTemplateFrom: {configMapKeyRef: {name: a, key: b}}}": {"InvalidValues"},
		spec("dind", "initContainers: [{name: runner, image: mine}], containers: [{name: runner, command: [run]}]"):                                                       {},
		spec("dind", "initContainers: [{name: runner, image: mine}], containers: [{name: runner, env: []}]"):                                                              {"NoCommand"},
		spec("dind", "initContainers: [{name: dind, image: mine, env: [{name: A}]}], containers: [{name: dind, image: other, env: [{name: A}]}]"):                         {"InvalidValues"},
	} {
		findings, err := validation.Validate([]byte(document), nil, "")
		if err != nil || !slices.Equal(reasons(findings), want) {
			t.Errorf("%q: found %+v, %v; want %v", document, findings, err, want)
		}
	}
}

// A field of the other securityContext doesn't keep anything from being installed, so it is a warning. To remove it comes
// first: to write it elsewhere would change what runs.
func TestValidateWarnsOfMisplacedFields(t *testing.T) {
	const good = "githubConfigUrl: https://github.com/acme\ngithubConfigSecret: github\n"
	for values, want := range map[string][2]string{
		"template: {spec: {securityContext: {readOnlyRootFilesystem: true}}}":                                            {"template.spec.securityContext.readOnlyRootFilesystem", "template.spec.containers[].securityContext.readOnlyRootFilesystem"},
		"containerMode: {type: dind}\ntemplate: {spec: {initContainers: [{name: dind, securityContext: {fsGroup: 1}}]}}": {"template.spec.initContainers[0].securityContext.fsGroup", "template.spec.securityContext.fsGroup"},
		"variants: [{name: a, template: {spec: {securityContext: {privileged: true}}}}]":                                 {"variants[0].template.spec.securityContext.privileged", "variants[0].template.spec.containers[].securityContext.privileged"},
	} {
		findings, err := validation.Validate([]byte(good+values), nil, "")
		if err != nil || len(findings) != 1 || findings[0].Severity != finding.Warning || findings[0].Reason != "UnknownValue" ||
			!strings.HasPrefix(findings[0].Message, want[0]+": ") ||
			findings[0].Fix != "remove it to keep what runs, or write it as "+want[1] {
			t.Errorf("%s: found %+v, %v", values, findings, err)
		}
	}
}

// Another image may start the runner by itself, so without a command there is a warning; of GitHub's it is known that
// it doesn't.
func TestValidateRunnerWithoutCommand(t *testing.T) {
	const values = "githubConfigUrl: https://github.com/acme\ngithubConfigSecret: github\ntemplate: {spec: {containers: [{name: runner, image: "
	for image, want := range map[string]int{
		"mine": ExitFine, "example.com/actions-runner-of-ours:1": ExitFine,
		"ghcr.io/actions/actions-runner": ExitProblems, "mirror.example.com:5000/actions-runner@sha256:0": ExitProblems,
		"actions-runner:2": ExitProblems,
	} {
		file, output := filepath.Join(t.TempDir(), "values.yaml"), &bytes.Buffer{}
		if err := os.WriteFile(file, []byte(values+"\""+image+"\"}]}}"), 0o600); err != nil {
			t.Fatal(err)
		}
		if code := Main(t.Context(), []string{"validate", "-f", file}, output, output); code != want ||
			!strings.Contains(output.String(), "NoCommand") {
			t.Errorf("%s: exit code %d, want %d: %s", image, code, want, output)
		}
	}
}

// Each key of ARC's experimental chart is found with what replaces it.
func TestValidateValuesOfTheExperimentalChart(t *testing.T) {
	findings, err := validation.Validate([]byte("scaleset: {name: builders, maxRunners: 0, labels: []}\nauth: {url: https://github.com/acme, secretName: cred}\nrunner: {mode: dind}\nresource: {}\n"+
		"githubConfigUrl: https://github.com/acme\ngithubConfigSecret: github\n"), nil, "")
	if err != nil || len(findings) != 1 || findings[0].Reason != "InvalidValues" {
		t.Fatalf("found %+v, %v", findings, err)
	}
	for _, want := range []string{"auth.url -> githubConfigUrl", "runner.mode -> containerMode.type",
		"scaleset.maxRunners -> maxRunners"} {
		if !strings.Contains(findings[0].Message, want) {
			t.Errorf("says %q, want %q", findings[0].Message, want)
		}
	}
}
