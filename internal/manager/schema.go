package manager

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// requiredFields are fields that ARC's CRDs lack and without which the API server would silently drop what we write.
// One for each kind and each half of it that we depend on is enough: the CRDs are of one version.
var requiredFields = map[string][]string{
	"AutoscalingRunnerSet": {"status.registration", "status.conditions"},
	"AutoscalingListener":  {"status.conditions"},
	"EphemeralRunnerSet":   {"spec.assignedJobs", "status.listener"},
	"EphemeralRunner":      {"status.jobPatchID"},
}

const (
	// Outdated CRDs are looked at again after schemaPause, doubled each time up to schemaMaxPause. The API server takes
	// a second or two to publish a new one, so the first pauses are short: manager and CRDs often arrive together.
	schemaPause    = time.Second
	schemaMaxPause = 30 * time.Second
	schemaTimeout  = 15 * time.Second
)

// OutdatedCRDsError says that the CustomResourceDefinitions in the cluster are missing or too old.
type OutdatedCRDsError struct {
	// Missing are kinds, or fields as KIND.PATH.
	Missing []string
}

// Error names what is missing and the fix.
func (e *OutdatedCRDsError) Error() string {
	return fmt.Sprintf("the CustomResourceDefinitions of %s lack %s; upgrade them with the chart gha-runner-scale-set-controller "+
		"(helm upgrade --take-ownership, crds.install=true), or apply those of the same version (apis/crds of the source, or helm template CHART --show-only 'templates/crds/*.yaml') with kubectl apply --server-side --force-conflicts",
		v1alpha1.GroupVersion.Group, strings.Join(e.Missing, ", "))
}

// schemaCheck asks the API server for the schemas it serves. OpenAPI is readable by every authenticated user, so the
// manager needs no permission on CustomResourceDefinitions.
type schemaCheck struct {
	client rest.Interface
}

func newSchemaCheck(config *rest.Config) (*schemaCheck, error) {
	made, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for discovery: %w", err)
	}
	return &schemaCheck{client: made.RESTClient()}, nil
}

// CheckCRDs fails with *OutdatedCRDsError where the cluster's CustomResourceDefinitions lack what this version needs, or with
// the API server's own error.
func CheckCRDs(ctx context.Context, config *rest.Config) error {
	schemas, err := newSchemaCheck(config)
	if err != nil {
		return err
	}
	return schemas.check(ctx)
}

// check fails with *OutdatedCRDsError, or with the API server's own error.
func (s *schemaCheck) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, schemaTimeout)
	defer cancel()
	document, err := s.client.Get().
		AbsPath("/openapi/v3/apis", v1alpha1.GroupVersion.Group, v1alpha1.GroupVersion.Version).
		SetHeader("Accept", "application/json").
		Do(ctx).Raw()
	if apierrors.IsNotFound(err) {
		document, err = []byte("{}"), nil // no kind of the group is served
	}
	if err != nil {
		return fmt.Errorf("read the schemas of %s: %w", v1alpha1.GroupVersion, err)
	}
	return checkSchemas(document)
}

// fieldSchema is the part of an OpenAPI schema that says which fields there are.
type fieldSchema struct {
	Properties map[string]fieldSchema `json:"properties"`
	Kinds      []struct {
		Kind string `json:"kind"`
	} `json:"x-kubernetes-group-version-kind"`
}

func (s fieldSchema) has(path string) bool {
	for _, field := range strings.Split(path, ".") {
		next, known := s.Properties[field]
		if !known {
			return false
		}
		s = next
	}
	return true
}

// checkSchemas looks for the required fields in an OpenAPI v3 document.
func checkSchemas(document []byte) error {
	var decoded struct {
		Components struct {
			Schemas map[string]fieldSchema `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(document, &decoded); err != nil {
		return fmt.Errorf("decode the schemas of %s: %w", v1alpha1.GroupVersion, err)
	}
	served := map[string]fieldSchema{}
	for _, candidate := range decoded.Components.Schemas {
		for _, kind := range candidate.Kinds {
			served[kind.Kind] = candidate
		}
	}
	return missingFields(served)
}

func missingFields(served map[string]fieldSchema) error {
	var missing []string
	for kind, fields := range requiredFields {
		found, known := served[kind]
		if !known {
			missing = append(missing, kind)
			continue
		}
		for _, field := range fields {
			if !found.has(field) {
				missing = append(missing, kind+"."+field)
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return &OutdatedCRDsError{Missing: missing}
}

// awaitSchema returns when the CRDs have what we need, or with the context's error. The reason for waiting is logged
// when it changes, and told to report for /readyz.
func awaitSchema(ctx context.Context, check func(context.Context) error, clock clock.Clock, log logr.Logger, report func(error)) error {
	logged := ""
	for pause := schemaPause; ; pause = min(2*pause, schemaMaxPause) {
		err := check(ctx)
		if err == nil || schemaUnreadable(err) {
			report(nil)
			return nil
		}
		report(err)
		if text := err.Error(); text != logged {
			log.Error(err, "Not starting before the CustomResourceDefinitions are right; they are looked at again", "atLeastEvery", schemaMaxPause.String())
			logged = text
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-clock.After(pause):
		}
	}
}

// schemaUnreadable reports whether this cluster tells nobody like us about schemas. Then nothing is known against the CRDs.
func schemaUnreadable(err error) bool { return apierrors.IsForbidden(err) }
