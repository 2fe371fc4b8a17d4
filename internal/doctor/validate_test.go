package doctor

import (
	"os"
	"slices"
	"testing"
)

func reasons(findings []Finding) []string {
	list := []string{}
	for _, finding := range findings {
		list = append(list, finding.Reason)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func TestValidateManifests(t *testing.T) {
	content, err := os.ReadFile("testdata/wrong.yaml")
	if err != nil {
		t.Fatal(err)
	}
	findings, err := Validate(content)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"CredentialsMissing", "InvalidConfigURL", "InvalidLimits", "NoRunnerContainer"}; !slices.Equal(reasons(findings), want) {
		t.Errorf("found %v, want %v", reasons(findings), want)
	}
}

func TestValidateValues(t *testing.T) {
	const good = "githubConfigUrl: https://github.com/acme\ngithubConfigSecret: github\n"
	for document, want := range map[string][]string{
		"": {}, "---\n": {}, "{}": {"CredentialsMissing", "InvalidConfigURL"},
		good:                                   {},
		good + "maxRunners: -1":                {"InvalidLimits"},
		good + "maxRunners: many":              {"InvalidValues"},
		good + "maxRunners: ''":                {},
		good + "containerMode: {type: docker}": {"UnknownContainerMode"},
		good + "template: {spec: {containers: [{name: runner}]}}":              {},
		good + "template: {spec: {containers: [{name: runner, image: mine}]}}": {"NoCommand"},
		"{kind: AutoscalingRunnerSet, apiVersion: actions.github.com/v1alpha1, spec: {githubConfigUrl: https://github.com/acme, githubConfigSecret: github, template: {spec: {containers: [{name: runner}]}}}}": {"NoCommand", "NoImage"},
		good + "template: {spec: {containers: [{name: dind}]}}":                                               {},
		"githubConfigUrl: https://github.com/acme\ngithubConfigSecret: {github_token: x}":                     {},
		"githubConfigUrl: https://github.com/acme\ngithubConfigSecret: {github_app_id: 1}":                    {"CredentialsMissing"},
		"githubConfigUrl: https://github.com/acme\ngithubConfigSecret: {github_token: x, github_app_id: 1}":   {"CredentialsInvalid"},
		"githubConfigUrl: https://github.com/acme\ngithubConfigSecret: ''":                                    {"CredentialsMissing"},
		"kind: AutoscalingRunnerSet\napiVersion: actions.github.com/v1alpha1\nspec: {runnerGroups: misspelt}": {"InvalidManifest"},
	} {
		findings, err := Validate([]byte(document))
		if err != nil || !slices.Equal(reasons(findings), want) {
			t.Errorf("%q: found %v, %v; want %v", document, reasons(findings), err, want)
		}
	}
	if _, err := Validate([]byte("a: [")); err == nil {
		t.Error("what is no YAML is taken for good")
	}
}
