package manager

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
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
	var outdated *OutdatedCRDsError
	if !errors.As(err, &outdated) {
		t.Fatalf("ARC's schemas: got %v", err)
	}
	want := []string{
		"AutoscalingListener.status.conditions",
		"AutoscalingRunnerSet.status.conditions", "AutoscalingRunnerSet.status.registration",
		"EphemeralRunner",
		"EphemeralRunnerSet.spec.assignedJobs", "EphemeralRunnerSet.status.listener",
	}
	if difference := cmp.Diff(want, outdated.Missing); difference != "" {
		t.Errorf("missing (-want +got):\n%s", difference)
	}
	if err := checkSchemas([]byte("<html>")); err == nil || errors.As(err, &outdated) {
		t.Errorf("no document: got %v", err)
	}
}

func TestAwaitSchemaWaitsUntilTheCRDsAreRight(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	answers := []error{&OutdatedCRDsError{Missing: []string{"EphemeralRunner"}}, errors.New("the API server is away"), nil}
	var reported []error
	asked := 0
	check := func(context.Context) error {
		asked++
		return answers[asked-1]
	}
	done := make(chan error)
	go func() {
		done <- awaitSchema(t.Context(), check, clock, logr.Discard(), func(err error) { reported = append(reported, err) })
	}()
	for range len(answers) - 1 {
		gomega.NewWithT(t).Eventually(clock.HasWaiters).WithTimeout(startTimeout).WithPolling(time.Millisecond).Should(gomega.BeTrue())
		clock.Step(schemaMaxPause)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if len(reported) != 3 || reported[0] == nil || reported[1] == nil || reported[2] != nil {
		t.Errorf("reported %v", reported)
	}
}

func TestAwaitSchemaEnds(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	report := func(error) {}
	forbidden := apierrors.NewForbidden(schema.GroupResource{}, "openapi", nil)
	if err := awaitSchema(t.Context(), func(context.Context) error { return forbidden }, clock, logr.Discard(), report); err != nil {
		t.Errorf("where schemas can't be read: %v", err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	outdated := func(context.Context) error { return &OutdatedCRDsError{} }
	if err := awaitSchema(canceled, outdated, clock, logr.Discard(), report); !errors.Is(err, context.Canceled) {
		t.Errorf("when told to stop: %v", err)
	}
}
