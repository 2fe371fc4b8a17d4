package docs

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// setValues are the values that the chart of scale sets needs without a cluster.
const setValues = `
githubConfigUrl: https://github.com/my-org
githubConfigSecret: github-credentials
controllerServiceAccount: {name: harrier-gha-rs-controller, namespace: harrier-system}
`

// clusterOnly are flags of helm install and upgrade that mean nothing to helm template.
var clusterOnly = []string{
	"--reuse-values", "--reset-then-reuse-values", "--install", "--wait", "--create-namespace", "--take-ownership",
	"--rollback-on-failure",
}

// `make publish` puts the charts of this tree at publishedCharts.
const publishedCharts = "oci://ghcr.io/harrier-ci/charts/"

// checkHelm renders the objects that a command would install, and has Helm read the flags of other commands.
func (r *reader) checkHelm(arguments []string) error {
	if !slices.Contains([]string{"install", "upgrade", "template"}, arguments[0]) || len(arguments) < 3 {
		return r.run("helm", append(slices.Clone(arguments), "--help")...)
	}
	chart, isPublished := strings.CutPrefix(arguments[2], publishedCharts)
	if isPublished { // it exists only after its publication
		chart = "charts/" + chart
	}
	template := []string{"template", arguments[1], chart}
	if filepath.Base(arguments[2]) == "gha-runner-scale-set" {
		// As a file below the values that the command gives: a Secret's name and --set of its keys don't go together.
		defaults := filepath.Join(r.directory, "your-values.yaml")
		if strings.Contains(strings.ReplaceAll(strings.Join(arguments, " "), "githubConfigSecretRevision", ""),
			"githubConfigSecret") {
			template = append(template, "--set",
				"controllerServiceAccount.name=harrier,controllerServiceAccount.namespace=harrier-system")
		} else {
			template = append(template, "--values", defaults)
		}
	}
	for _, word := range arguments[3:] {
		if !slices.Contains(clusterOnly, word) {
			template = append(template, word)
		}
	}
	return r.run("helm", template...)
}

// withValue are the flags of kubectl in the documentation whose value is a word of its own.
var withValue = []string{"-n", "--namespace", "-l", "-o", "-f", "-c", "-p", "--type", "--sort-by", "--tail"}

// checkKubectl makes the objects that a command would create, and has kubectl read the flags of all commands. Resources
// must exist.
func (r *reader) checkKubectl(arguments []string) error {
	if end := slices.Index(arguments, "--"); end >= 0 {
		if inside := arguments[end+1:]; inside[0] == "/manager" {
			if err := r.checkManager(inside[1:]); err != nil {
				return err
			}
		}
		arguments = arguments[:end]
	}
	if arguments[0] == "krew" { // a plugin of others; make release-dry-run follows the manifest
		return nil
	}
	if arguments[0] == "harrier" {
		return r.checkPlugin(arguments[1:])
	}
	if err := r.run("kubectl", append(slices.Clone(arguments), "--help")...); err != nil {
		return err
	}
	words := positional(arguments)
	if len(words) < 2 { // prose names a command with flags only
		return nil
	}
	switch words[0] {
	case "create":
		if slices.Contains(arguments, "--dry-run=client") {
			return r.run("kubectl", arguments...)
		}
		return r.run("kubectl", append(slices.Clone(arguments), "--dry-run=client", "--output=yaml")...)
	case "get", "describe", "wait", "delete", "label", "annotate", "patch":
		if strings.Contains(words[1], ",") && slices.Contains(arguments, "--watch") {
			return errors.New("kubectl watches one resource type at a time")
		}
		return r.checkResource(words[1])
	case "rollout", "logs", "exec", "apply", "replace", "explain", "port-forward", "auth":
		return nil
	}
	return fmt.Errorf("say in test/docs how to check kubectl %s", words[0])
}

// positional returns the words that are neither flags nor values of flags.
func positional(arguments []string) []string {
	var words []string
	for i := 0; i < len(arguments); i++ {
		switch word := arguments[i]; {
		case slices.Contains(withValue, word):
			i++
		case !strings.HasPrefix(word, "-"):
			words = append(words, word)
		}
	}
	return words
}

// checkResource takes TYPE, TYPE/NAME and lists of types.
func (r *reader) checkResource(word string) error {
	for one := range strings.SplitSeq(word, ",") {
		if kind, _, _ := strings.Cut(one, "/"); !r.resources[kind] {
			return fmt.Errorf("%s is no resource", kind)
		}
	}
	return nil
}

// resources returns the names of our kinds, and of Kubernetes' kinds in the documentation.
func resources(t *testing.T) map[string]bool {
	t.Helper()
	known := map[string]bool{}
	for _, name := range []string{
		"configmap", "crd", "deployment", "endpointslices", "events", "namespace", "namespaces", "nodes", "pod", "pods",
		"secret", "secrets", "resourcequota", "leases", "rolebindings", "clusterrolebindings", "storageclasses",
	} {
		known[name] = true
	}
	definitions, err := filepath.Glob(filepath.Join(root, "apis", "crds", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range definitions {
		var definition apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(read(t, file), &definition); err != nil {
			t.Fatal(err)
		}
		names := definition.Spec.Names
		for _, name := range append([]string{names.Plural, names.Singular}, names.ShortNames...) {
			known[name] = true
		}
	}
	return known
}
