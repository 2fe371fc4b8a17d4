package commands

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube/kinds"
	"github.com/harrier-ci/harrier/operations/doctor"
	"github.com/harrier-ci/harrier/operations/doctor/snapshot"
	"github.com/harrier-ci/harrier/operations/finding"
)

// commanding are names with what a terminal or a CI system would take for a command.
var commanding = []string{
	"\x1b]0;title\x07\x1b[31m", "\u009b2J", "\u202eevil\u2066", "::error::a", "a\n::stop-commands::b", "a\r\n  ::error::c",
	"##[error]d", "##vso[task.complete]e", "\u2028::error::f", "\U000e0041", "x\ny",
}

// templates of input have NAME where somebody may write a name. It is in double quotes.
var inputsWithNames = map[string][]string{
	"validate": {
		"NAME: 1\n", "kind: NAME\n", "apiVersion: NAME\nkind: ConfigMap\nmetadata: {name: NAME}\n",
		"githubConfigUrl: NAME\ngithubConfigSecret: NAME\n",
		plainValues + "runnerScaleSetName: NAME\nNAME: NAME\n",
		plainValues + "template: {spec: {containers: [{name: NAME, image: NAME, NAME: 1}], NAME: 2}}\n",
		plainValues + "listenerTemplate: {metadata: {annotations: {NAME: NAME}}, spec: {volumes: [{name: NAME, hostPath: {path: NAME}}]}}\n",
		plainValues + "containerMode: {type: NAME}\n",
		"gha-runner-scale-set: {NAME: NAME}\n", "my-chart: {githubConfigUrl: NAME, NAME: 5}\n",
		"kind: HelmRelease\nmetadata: {name: NAME, namespace: NAME}\nspec: {chart: {spec: {chart: gha-runner-scale-set}}, " +
			"valuesFrom: [{kind: NAME, name: NAME}], values: {NAME: NAME}}\n",
		"kind: Application\nmetadata: {name: NAME}\nspec: {source: {chart: NAME, helm: {values: NAME, parameters: [{name: NAME, value: NAME}]}}}\n",
		"kind: ApplicationSet\nmetadata: {name: NAME}\nspec: {template: {spec: {source: {path: a/gha-runner-scale-set, helm: {values: NAME}}}}}\n",
		"apiVersion: actions.github.com/v1alpha1\nkind: AutoscalingRunnerSet\nmetadata: {name: NAME, namespace: NAME, labels: {NAME: NAME}}\n" +
			"spec: {NAME: 1, githubConfigUrl: NAME, runnerScaleSetLabels: [NAME], schedules: [{name: NAME, schedule: NAME}], " +
			"volumeClaimTemplates: [{metadata: {name: NAME}}]}\n",
		"replicaCount: 1\ntenants: [{namespaces: [NAME], NAME: 1}]\n",
		"a: [NAME\n", "a: *NAME\n", "'a': !!NAME 1\n",
	},
	"convert": {
		"kind: NAME\nmetadata: {name: NAME}\n", "a: [NAME\n", "kind: Runner\nmetadata: {name: NAME}\nNAME: 1\n",
		"kind: Runner\nmetadata: {name: NAME, namespace: NAME, labels: {NAME: NAME}, annotations: {NAME: NAME}}\n" +
			"spec: {organization: acme, labels: [NAME], group: NAME, NAME: 1, env: [{name: NAME, value: NAME}], " +
			"image: NAME, workDir: NAME, volumes: [{name: NAME, hostPath: {path: NAME}}]}\n",
		"kind: RunnerDeployment\nmetadata: {name: a}\nspec: {template: {metadata: {labels: {NAME: NAME}, annotations: {NAME: NAME}}, " +
			"spec: {repository: NAME, containers: [{name: runner, command: [NAME], args: [NAME], env: [{name: A, value: NAME}]}]}}}\n" +
			"---\nkind: HorizontalRunnerAutoscaler\nmetadata: {name: NAME}\nspec: {scaleTargetRef: {kind: NAME, name: NAME}, " +
			"metrics: [{type: NAME, repositoryNames: [NAME]}], scheduledOverrides: [{startTime: NAME}]}\n",
	},
}

// Whatever names are in what the commands read and are told, nothing that they print is a command to who reads it, and
// what they print as a document is one.
func TestNothingThatCommandsPrintIsACommand(t *testing.T) {
	for command, inputs := range inputsWithNames {
		for _, name := range commanding {
			quoted, err := json.Marshal(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, input := range inputs {
				for _, format := range []string{"text", "json"} {
					checkPrinted(t, command, format, name, strings.ReplaceAll(input, "NAME", string(quoted)))
				}
			}
		}
	}
}

// checkPrinted runs a command with a file of that content, whose name has the name, too.
func checkPrinted(t *testing.T, command, format, name, content string) {
	t.Helper()
	directory := t.TempDir()
	file := filepath.Join(directory, "values"+strings.ReplaceAll(name, "/", "")+".yaml")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	arguments := []string{command, "-f", file, "-o", format}
	if command == "convert" && format == "json" {
		arguments = append(arguments, "-d", filepath.Join(directory, "values"))
	}
	var stdout, stderr bytes.Buffer
	code := Main(t.Context(), arguments, &stdout, &stderr)
	if stdout.Len()+stderr.Len() == 0 {
		t.Errorf("%s: nothing is said of %q", command, content)
	}
	wantNoCommand(t, stdout.String()+stderr.String())
	said := stderr.String()
	if command == "validate" {
		said += stdout.String()
	}
	if strings.Contains(said, "\ny") {
		t.Errorf("%s: a name begins a line: %.500q", command, said)
	}
	var document any
	read := map[string]func([]byte, any) error{
		"validate json": json.Unmarshal, "convert json": json.Unmarshal,
		"convert text": func(content []byte, into any) error { return yaml.UnmarshalStrict(content, into) },
	}[command+" "+format]
	if code != ExitUnable && read != nil {
		if err := read(stdout.Bytes(), &document); err != nil {
			t.Errorf("%s: no document: %v: %s", command, err, stdout.String())
		}
	}
}

func TestNoArgumentIsPrintedAsACommand(t *testing.T) {
	for _, name := range commanding {
		for _, arguments := range [][]string{
			{name}, {"doctor", "a", name}, {"doctor", "-o", name}, {"doctor", "-kubeconfig", name}, {"validate", "-f", name},
			{"validate", "-" + name}, {"validate", name}, {"validate", "--set", name}, {"validate", "--set", "a[" + name},
			{"convert", "-f", name}, {"convert", "-f", "testdata", "--github-url", name}, {"convert", "-o", name},
		} {
			var printed bytes.Buffer
			Main(t.Context(), arguments, &printed, &printed)
			wantNoCommand(t, printed.String())
		}
	}
}

// Objects of a cluster, whose API server would refuse some of these names.
func TestNothingThatTheDoctorPrintsIsACommand(t *testing.T) {
	for _, name := range commanding {
		set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "runners", Name: name}}
		set.Spec.GitHubConfigUrl, set.Spec.GitHubConfigSecret, set.Spec.RunnerGroup = name, name, name
		for _, about := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionScaleSetRegistered,
			v1alpha1.ConditionCredentialsValid, v1alpha1.ConditionListenerReady, v1alpha1.ConditionPodTemplateRefused} {
			set.Status.Conditions = append(set.Status.Conditions,
				metav1.Condition{Type: about, Status: metav1.ConditionFalse, Reason: name, Message: name})
		}
		labels := map[string]string{v1alpha1.LabelScaleSetName: set.Name}
		runnerSet := &v1alpha1.EphemeralRunnerSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: name, Labels: labels},
			Status: v1alpha1.EphemeralRunnerSetStatus{Listener: &v1alpha1.ListenerStatus{
				State: v1alpha1.ListenerState(name), Reason: name, Message: name}},
		}
		second := set.DeepCopy()
		second.Name = "second"
		server := fake.NewClientBuilder().WithScheme(kinds.Scheme()).WithObjects(set, runnerSet, second).
			WithIndex(&corev1.Event{}, "type", func(client.Object) []string { return nil }).Build()
		for _, format := range []string{"text", "json"} {
			var printed bytes.Buffer
			err := doctor.Run(t.Context(), snapshot.Cluster{Reader: server}, doctor.Options{Output: format}, &printed)
			if err != nil && !errors.Is(err, finding.ErrProblems) {
				t.Fatalf("%q: %v", name, err)
			}
			wantNoCommand(t, printed.String())
			if format == "json" && !json.Valid(printed.Bytes()) {
				t.Errorf("no JSON: %s", printed.String())
			}
		}
	}
}

// wantNoCommand looks at every character.
func wantNoCommand(t *testing.T, text string) {
	t.Helper()
	for i, r := range text {
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
			t.Errorf("%q is left in %q", r, text[max(0, i-100):min(len(text), i+100)])
		}
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "::") || strings.Contains(line, "##") {
			t.Errorf("a CI system would obey %q", line)
		}
	}
}
