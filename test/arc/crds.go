package arc

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// ARC 0.14.2 has these fields in spec and status of each kind. Its CRDs lack all others that our kinds have, or will
// have.
const (
	runnerSpec = "githubConfigUrl githubConfigSecret githubServerTLS runnerScaleSetId proxy proxySecretRef " +
		"vaultConfig ephemeralRunnerConfigSecretMetadata metadata spec"
	counts = "phase pendingEphemeralRunners runningEphemeralRunners failedEphemeralRunners"
)

var fields = map[string]map[string]string{
	"AutoscalingRunnerSet": {
		"spec": "githubConfigUrl githubConfigSecret runnerGroup runnerScaleSetName runnerScaleSetLabels proxy " +
			"githubServerTLS vaultConfig template autoscalingListener " +
			"listenerMetrics listenerTemplate listenerServiceAccountMetadata listenerRoleMetadata " +
			"listenerRoleBindingMetadata listenerConfigSecretMetadata " +
			"ephemeralRunnerSetMetadata ephemeralRunnerMetadata ephemeralRunnerConfigSecretMetadata maxRunners " +
			"minRunners",
		"status": "currentRunners " + counts,
	},
	"AutoscalingListener": {
		"spec": "githubConfigUrl githubConfigSecret runnerScaleSetId autoscalingRunnerSetNamespace " +
			"autoscalingRunnerSetName ephemeralRunnerSetName maxRunners minRunners image " +
			"imagePullSecrets proxy githubServerTLS vaultConfig metrics template configSecretMetadata " +
			"serviceAccountMetadata roleMetadata roleBindingMetadata",
		"status": "",
	},
	"EphemeralRunnerSet": {
		"spec":   "replicas patchID ephemeralRunnerSpec ephemeralRunnerMetadata",
		"status": "currentReplicas " + counts,
	},
	"EphemeralRunner": {
		"spec": runnerSpec,
		"status": "ready phase reason message runnerId runnerName failures jobRequestId jobId jobRepositoryName " +
			"jobWorkflowRef workflowRunId jobDisplayName",
	},
}

// required are the fields that its CRDs require.
var required = map[string]map[string]string{"EphemeralRunnerSet": {"spec": "patchID", "status": "currentReplicas"}}

// CRDs returns the four CustomResourceDefinitions of ARC 0.14.2. It makes them of ours in a directory: they have only
// ARC's fields, and neither our rules for values nor our defaults nor our columns.
func CRDs(directory string) (made []*unstructured.Unstructured, err error) {
	files, err := filepath.Glob(filepath.Join(directory, "*.yaml"))
	if err != nil || len(files) != len(fields) {
		return nil, fmt.Errorf("%s has %d CRDs, want %d", directory, len(files), len(fields))
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		crd := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(content, &crd.Object); err != nil {
			return nil, fmt.Errorf("decode %s: %w", file, err)
		}
		kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		version := versions[0].(map[string]any)
		delete(version, "additionalPrinterColumns")
		for half, names := range fields[kind] {
			schema := child(version, "schema", "openAPIV3Schema", "properties", half)
			prune(schema, names)
			if must := required[kind][half]; must != "" {
				schema["required"] = []any{must}
			}
		}
		if kind == "EphemeralRunnerSet" {
			prune(child(version, "schema", "openAPIV3Schema", "properties", "spec", "properties",
				"ephemeralRunnerSpec"), runnerSpec)
		}
		if err := unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		made = append(made, crd)
	}
	return made, nil
}

func child(object map[string]any, path ...string) map[string]any {
	for _, name := range path {
		object = object[name].(map[string]any)
	}
	return object
}

// prune removes all but the named fields from a schema.
func prune(schema map[string]any, names string) {
	delete(schema, "x-kubernetes-validations")
	delete(schema, "default")
	properties, _ := schema["properties"].(map[string]any)
	keep(properties, names)
}

func keep(object map[string]any, names string) {
	maps.DeleteFunc(object, func(name string, _ any) bool { return !strings.Contains(" "+names+" ", " "+name+" ") })
}

// Forget removes the fields of an object that ARC doesn't know. With its CRDs in the cluster they are lost when
// somebody writes the object.
func Forget(object *unstructured.Unstructured) {
	for half, names := range fields[object.GetKind()] {
		known, _ := object.Object[half].(map[string]any)
		keep(known, names)
	}
	if runners, found, _ := unstructured.NestedMap(object.Object, "spec", "ephemeralRunnerSpec"); found {
		keep(runners, runnerSpec)
		child(object.Object, "spec")["ephemeralRunnerSpec"] = runners
	}
}
