package charts

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"
)

// steps lead to a value: keys of maps and indices of lists.
type steps []any

// nullable is a chart whose values are set to null in turn.
type nullable struct {
	chart chart
	// refused are required values; null is refused, too. For defaulted ones null removes the default of values.yaml:
	// Helm does that before the chart sees it.
	refused, defaulted []string
}

var nullables = []nullable{
	{chart: scaleSet, refused: []string{
		"[githubConfigUrl]", "[githubConfigSecret]", "[githubConfigSecret github_token]", "[containerMode type]",
		"[template]", "[template spec]",
		"[template spec initContainers 0 name]", "[template spec volumes 0 name]", "[template spec containers 0 name]",
		"[listenerTemplate spec containers 0 name]", "[controllerServiceAccount]", "[controllerServiceAccount name]",
		"[volumeClaimTemplates 0 metadata]", "[volumeClaimTemplates 0 metadata name]", "[volumeClaimTemplates 0 spec]",
		"[volumeClaimTemplates 0 spec accessModes]", "[volumeClaimTemplates 0 spec resources]",
		"[volumeClaimTemplates 0 spec resources requests]", "[volumeClaimTemplates 0 spec resources requests storage]",
		"[controllerServiceAccount namespace]", "[proxy http url]", "[keyVault proxy https url]", "[keyVault azureKeyVault]",
		"[keyVault azureKeyVault url]", "[keyVault azureKeyVault tenantId]", "[keyVault azureKeyVault clientId]",
		"[keyVault azureKeyVault certificatePath]", "[githubServerTLS certificateFrom]",
		"[githubServerTLS certificateFrom configMapKeyRef]", "[githubServerTLS certificateFrom configMapKeyRef name]",
		"[githubServerTLS certificateFrom configMapKeyRef key]",
		"[variants 0 name]", "[variants 0 template spec]", "[variants 0 template spec volumes 0 name]",
		"[variants 0 template spec containers 0 name]",
	}},
	{chart: controller, refused: []string{"[imagePullSecrets 0 name]", "[metrics controllerManagerAddr]"},
		defaulted: []string{
			"[podSecurityContext]", "[securityContext]", "[securityContext capabilities]", "[securityContext capabilities drop]",
			"[flags]", "[flags logLevel]", "[flags logFormat]", "[flags runnerMaxConcurrentReconciles]",
		}},
}

// A null means not set: for every value, at any depth, the chart renders it as without the key, or refuses it by its
// name. testdata/nulls has the values. To take only seconds, a render has one null under each key of the first level.
func TestNullIsWhatIsNotSet(t *testing.T) {
	t.Parallel()
	for _, n := range nullables {
		content, err := os.ReadFile(filepath.Join("testdata", "nulls", n.chart.name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		taken, refused := n.paths(t, content)
		for _, path := range refused {
			t.Run(fmt.Sprint(n.chart.name, path), func(t *testing.T) {
				t.Parallel()
				checkContains(t, refusal(t, n.chart, changed(t, content, true, path)), fmt.Sprint(path[len(path)-1]))
			})
		}
		for i, round := range rounds(taken) {
			t.Run(fmt.Sprint(n.chart.name, i), func(t *testing.T) {
				t.Parallel()
				checkNulls(t, n.chart, changed(t, content, true, round...), changed(t, content, false, round...))
			})
		}
	}
}

// Maps of nulls only, and maps of such maps, mean not set, too.
func TestMapsOfNulls(t *testing.T) {
	t.Parallel()
	for _, values := range []string{
		"proxy: {http: {url: null, credentialSecretRef: null}, https: null, noProxy: null}", "githubServerTLS: {runnerMountPath: null}",
		"keyVault: {type: null, azureKeyVault: {url: null}, proxy: {http: null}}", "containerMode: {kubernetesModeHookTemplate: {spec: null}}",
		"listenerTemplate: {metadata: null, spec: null}", "listenerMetrics: {counters: null, gauges: null, histograms: null}",
		"template: {metadata: {labels: null}, spec: {containers: null, nodeSelector: null}}",
	} {
		checkNulls(t, scaleSet, minimal+values, minimal)
	}
	const vault = minimal +
		"keyVault: {type: azure_key_vault, azureKeyVault: {url: u, tenantId: t, clientId: c, certificatePath: p, " +
		"proxy: {http: {url: 'http://proxy'}}}, proxy: %s}"
	checkNulls(t, scaleSet, fmt.Sprintf(vault, "{http: null, noProxy: null}"), fmt.Sprintf(vault, "{}"))
}

// paths returns the paths of values that may be null, and of those that may not.
func (n nullable) paths(t *testing.T, content []byte) (taken, refused []steps) {
	t.Helper()
	for _, path := range paths(parsed(t, content), nil) {
		switch name := fmt.Sprint(path); {
		case slices.Contains(n.refused, name):
			refused = append(refused, path)
		case !slices.Contains(n.defaulted, name):
			taken = append(taken, path)
		}
	}
	if len(refused) != len(n.refused) {
		t.Errorf("%d of %d values that are to be refused are there", len(refused), len(n.refused))
	}
	return taken, refused
}

// valuesHash is an annotation that may differ between equal renders: for null, Helm removes a key of values.yaml.
var valuesHash = regexp.MustCompile(`actions.github.com/values-hash: .*`)

// checkNulls compares the renders of values with nulls and values without these keys.
func checkNulls(t *testing.T, c chart, nulls, absent string) {
	t.Helper()
	got, stderr, err := c.template(t, nulls)
	if err != nil {
		t.Fatal(stderr)
	}
	want, stderr, err := c.template(t, absent)
	if err != nil {
		t.Fatal(stderr)
	}
	check(t, "render", valuesHash.ReplaceAllString(got, ""), valuesHash.ReplaceAllString(want, ""))
}

// rounds divides paths so that no two of a round begin with the same key.
func rounds(all []steps) (rounds [][]steps) {
	next := map[any]int{}
	for _, path := range all {
		round := next[path[0]]
		next[path[0]]++
		if round == len(rounds) {
			rounds = append(rounds, nil)
		}
		rounds[round] = append(rounds[round], path)
	}
	return rounds
}

// paths returns the paths of all keys of a value.
func paths(value any, at steps) (all []steps) {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range sortedKeys(value) {
			path := append(slices.Clone(at), key)
			all = append(append(all, path), paths(value[key], path)...)
		}
	case []any:
		for i := range value {
			all = append(all, paths(value[i], append(slices.Clone(at), i))...)
		}
	}
	return all
}

func parsed(t *testing.T, content []byte) (values map[string]any) {
	t.Helper()
	if err := yaml.Unmarshal(content, &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// changed returns the values with null at these paths, or without their keys.
func changed(t *testing.T, content []byte, null bool, at ...steps) string {
	t.Helper()
	values := parsed(t, content)
	for _, path := range at {
		last := path[len(path)-1].(string)
		parent := follow(values, path[:len(path)-1]).(map[string]any)
		delete(parent, last)
		if null {
			parent[last] = nil
		}
	}
	text, err := yaml.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func follow(value any, path steps) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			value = value.(map[string]any)[step]
		case int:
			value = value.([]any)[step]
		}
	}
	return value
}
