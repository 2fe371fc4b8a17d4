package commands

import (
	"testing"
)

// What Flux, Argo CD and k3s are told to install is read where they read it. What they merge from elsewhere is named,
// and what it may put right is no problem.
func TestValidateObjectsOfGitOpsTools(t *testing.T) {
	const (
		flux = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: linux, namespace: " +
			"runners}\nspec:\n"
		ofChart = "  chart: {spec: {chart: gha-runner-scale-set}}\n"
		ofArgo  = "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: linux, namespace: " +
			"argocd}\nspec:\n  destination: {namespace: runners}\n"
		argoHelm = "  source:\n    repoURL: ghcr.io/acme/charts\n    chart: gha-runner-scale-set\n    helm:\n"
		sets     = "apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: all, namespace: " +
			"argocd}\nspec: {template: {metadata: {name: '{{name}}'}, spec: {source: "
	)
	values := "  values:\n" + indented(indented(plainValues))
	for name, test := range map[string]struct {
		object string
		code   int
		says   []string
	}{
		"a release":               {flux + ofChart + values, ExitFine, []string{"Nothing is wrong"}},
		"a wrong release":         {flux + ofChart + values + "    maxRuners: 1\n", ExitProblems, []string{"HelmRelease runners/linux: UnknownValue: maxRuners"}},
		"one without values":      {flux + ofChart, ExitProblems, []string{"CredentialsMissing"}},
		"values from elsewhere":   {flux + ofChart + "  valuesFrom: [{kind: Secret, name: a}]\n  values: {maxRunners: 1}\n", ExitFine, []string{"HelmRelease runners/linux: not checked: spec.valuesFrom"}},
		"still unknown":           {flux + ofChart + "  valuesFrom: [{kind: Secret, name: a}]\n  values: {maxRuners: 1}\n", ExitProblems, []string{"UnknownValue"}},
		"placeholders":            {flux + ofChart + "  values: {githubConfigUrl: '${url}', githubConfigSecret: gh}\n", ExitFine, []string{"not checked: what Flux puts in the place of ${...}"}},
		"of another version":      {"apiVersion: helm.toolkit.fluxcd.io/v2beta1\n" + flux[len("apiVersion: helm.toolkit.fluxcd.io/v2\n"):] + ofChart + values + "    templates: {}\n", ExitProblems, []string{"UnknownValue"}},
		"by reference":            {flux + "  chartRef: {kind: OCIRepository, name: anything}\n" + values + "    maxRuners: 1\n", ExitProblems, []string{"UnknownValue"}},
		"the controller's":        {flux + "  chart: {spec: {chart: ./charts/gha-runner-scale-set-controller}}\n  values: {flags: {logLevl: debug}}\n", ExitProblems, []string{"UnknownValue: flags.logLevl"}},
		"of a parent chart":       {flux + "  chart: {spec: {chart: ./platform}}\n  values: {gha-runner-scale-set: {githubConfigUrl: 5}}\n", ExitProblems, []string{"linux, gha-runner-scale-set: InvalidValues: githubConfigUrl"}},
		"of another chart":        {flux + "  chart: {spec: {chart: redis}}\n  values: {image: {tag: a}, replicaCount: many}\n", ExitUnable, []string{"HelmRelease of the chart redis"}},
		"a name that is too long": {flux + "  releaseName: " + "a23456789-123456789-123456789-123456789-123456789\n" + ofChart + values, ExitProblems, []string{"45 characters"}},
		"in a list":               {listStart + "{kind: HelmRelease, metadata: {name: a}, spec: {chart: {spec: {chart: gha-runner-scale-set}}, values: {maxRuners: 1}}}", ExitProblems, []string{"UnknownValue"}},
		"of the wrong form":       {flux + "  chart: gha-runner-scale-set\n", ExitProblems, []string{"InvalidManifest", "correct the HelmRelease"}},
		"k3s":                     {"kind: HelmChart\nmetadata: {name: linux}\nspec:\n  chart: oci://example.com/gha-runner-scale-set\n  valuesContent: |\n" + indented(indented(plainValues)) + "    maxRuners: 1\n", ExitProblems, []string{"UnknownValue"}},
		"an application":          {ofArgo + argoHelm + "      values: |\n" + indented(indented(indented(indented(plainValues)))), ExitFine, []string{"Nothing is wrong"}},
		"valuesObject wins":       {ofArgo + argoHelm + "      values: 'maxRuners: 1'\n      valuesObject: {githubConfigUrl: 'https://github.com/acme', githubConfigSecret: gh}\n", ExitFine, []string{"Nothing is wrong"}},
		"parameters":              {ofArgo + argoHelm + "      valuesObject: {githubConfigUrl: 'https://github.com/acme', githubConfigSecret: gh}\n      parameters: [{name: maxRunners, value: '1'}, {name: 'template.spec.containers[0].nam', value: a}]\n", ExitProblems, []string{"template.spec.containers[0]"}},
		"a list in parameters":    {ofArgo + argoHelm + "      valuesObject: {githubConfigUrl: 'https://github.com/acme', githubConfigSecret: gh}\n      parameters: [{name: scaleSetLabels, value: '{a,b}'}, {name: annotations.a, value: 'b\\,c,d'}]\n", ExitFine, []string{"Nothing is wrong"}},
		"one's own, named so":     {ofArgo + "  source: {repoURL: git, path: apps/gha-runner-scale-set, helm: {valuesObject: {gha-runner-scale-set: {githubConfigUrl: 'https://github.com/acme', githubConfigSecret: gh}}}}\n", ExitFine, []string{"Nothing is wrong"}},
		"ours, not below":         {ofArgo + argoHelm + "      valuesObject: {gha-runner-scale-set: {githubConfigUrl: 'https://github.com/acme', githubConfigSecret: gh}}\n", ExitProblems, []string{"UnknownValue: gha-runner-scale-set"}},
		"several sources":         {ofArgo + "  sources:\n  - {repoURL: git, ref: values}\n  - {repoURL: ghcr.io/a, chart: gha-runner-scale-set, helm: {valueFiles: [$values/a.yaml], valuesObject: {maxRuners: 1}}}\n", ExitProblems, []string{"UnknownValue", "not checked: helm.valueFiles"}},
		"files of a path":         {ofArgo + "  source: {repoURL: git, path: charts/gha-runner-scale-set}\n", ExitFine, []string{"not checked: the files in charts/gha-runner-scale-set"}},
		"values that are none":    {ofArgo + argoHelm + "      values: 'a: ['\n", ExitProblems, []string{"InvalidManifest", "helm.values"}},
		"a set of applications":   {sets + "{chart: gha-runner-scale-set, helm: {valuesObject: {githubConfigUrl: 'https://github.com/acme', githubConfigSecret: gh, maxRuners: 1}}}}}}", ExitProblems, []string{"UnknownValue"}},
		"with placeholders":       {sets + "{chart: gha-runner-scale-set, helm: {valuesObject: {githubConfigUrl: '{{url}}', githubConfigSecret: gh}}}}}}", ExitFine, []string{"not checked: what the generators fill in"}},
		"values to be filled in":  {sets + "{chart: gha-runner-scale-set, helm: {values: '{{- if a }}'}}}}}", ExitUnable, []string{"only content that is not checked: ApplicationSet"}},
	} {
		if code, output := said(t, map[string]string{"object.yaml": test.object}, "-f",
			"object.yaml"); code != test.code ||
			!containsAll(output, test.says) {
			t.Errorf("%s: exit code %d, want %d and %q: %s", name, code, test.code, test.says, output)
		}
	}
}
