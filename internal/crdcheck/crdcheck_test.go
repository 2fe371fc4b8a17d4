package crdcheck

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// document is an OpenAPI document with the given fields of each kind.
func document(t *testing.T, kinds map[string][]string) []byte {
	t.Helper()
	schemas := map[string]any{}
	for kind, fields := range kinds {
		halves := map[string]map[string]any{"spec": {}, "status": {}}
		for _, field := range fields {
			half, name, _ := strings.Cut(field, ".")
			halves[half][name] = map[string]any{"type": "string"}
		}
		schemas["com.github.actions.v1alpha1."+kind] = map[string]any{
			"properties": map[string]any{
				"spec":   map[string]any{"properties": halves["spec"]},
				"status": map[string]any{"properties": halves["status"]},
			},
			"x-kubernetes-group-version-kind": []map[string]string{{"group": "actions.github.com", "kind": kind, "version": "v1alpha1"}},
		}
	}
	text, err := json.Marshal(map[string]any{"components": map[string]any{"schemas": schemas}})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestCheckSchemas(t *testing.T) {
	if err := checkSchemas(document(t, requiredFields)); err != nil {
		t.Errorf("complete schemas: %v", err)
	}
	arc := map[string][]string{
		"AutoscalingRunnerSet": {"status.phase"}, "AutoscalingListener": {}, "EphemeralRunnerSet": {"spec.replicas"},
	}
	err := checkSchemas(document(t, arc))
	var outdated *OutdatedError
	if !errors.As(err, &outdated) {
		t.Fatalf("ARC's schemas: got %v", err)
	}
	want := []string{
		"AutoscalingListener.status.conditions",
		"AutoscalingRunnerSet.status.conditions", "AutoscalingRunnerSet.status.limitedBy",
		"AutoscalingRunnerSet.status.lostJobs",
		"AutoscalingRunnerSet.status.registration", "AutoscalingRunnerSet.status.registrations",
		"AutoscalingRunnerSet.status.runnerSpecHash", "AutoscalingRunnerSet.status.runnerVersion",
		"EphemeralRunner",
		"EphemeralRunnerSet.spec.assignedJobs", "EphemeralRunnerSet.spec.canceledJobs", "EphemeralRunnerSet.status.checks",
		"EphemeralRunnerSet.status.desired",
		"EphemeralRunnerSet.status.listener",
		"EphemeralRunnerSet.status.lostRunners", "EphemeralRunnerSet.status.placement",
		"EphemeralRunnerSet.status.provenTemplate",
	}
	if difference := cmp.Diff(want, outdated.Missing); difference != "" {
		t.Errorf("missing (-want +got):\n%s", difference)
	}
	if err := checkSchemas([]byte("<html>")); err == nil || errors.As(err, &outdated) {
		t.Errorf("no document: got %v", err)
	}
}
