// Package crdcheck checks whether the CustomResourceDefinitions in a cluster have the fields that this version needs.
// The manager checks before it starts its controllers, and the doctor when it looks for what keeps jobs waiting.
package crdcheck

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// requiredFields are fields that ARC's CRDs lack, so that the API server would silently drop what we write to them. One
// field is enough for spec or status of a kind, because a CRD is of one version.
var requiredFields = map[string][]string{
	"AutoscalingRunnerSet": {
		"status.registration", "status.registrations", "status.conditions", "status.runnerSpecHash", "status.lostJobs",
		"status.runnerVersion", "status.limitedBy",
	},
	"AutoscalingListener": {"status.conditions"},
	"EphemeralRunnerSet": {
		"spec.assignedJobs", "spec.canceledJobs", "status.listener", "status.lostRunners", "status.placement", "status.checks",
		"status.provenTemplate", "status.desired",
	},
	"EphemeralRunner": {"status.jobPatchID", "status.lostCause", "status.disruptions", "status.phases", "status.rerun"},
}

// timeout limits a check.
const timeout = 15 * time.Second

// OutdatedError says that the CustomResourceDefinitions in the cluster are missing or too old.
type OutdatedError struct {
	// Missing are kinds, or fields as KIND.PATH.
	Missing []string
}

// Error names what is missing, and the fix.
func (e *OutdatedError) Error() string {
	return fmt.Sprintf("the CustomResourceDefinitions of %s lack %s; upgrade them with the chart "+
		"gha-runner-scale-set-controller (helm upgrade --take-ownership, crds.install=true), or apply those of the "+
		"same version (apis/crds of the source, or helm template CHART --show-only 'templates/crds/*.yaml') with "+
		"kubectl apply --server-side --force-conflicts",
		v1alpha1.GroupVersion.Group, strings.Join(e.Missing, ", "))
}

// Checker reads the schemas that the API server serves. Every authenticated user may read OpenAPI, so no permission on
// CustomResourceDefinitions is needed.
type Checker struct {
	client rest.Interface
}

// New returns a checker for the cluster. It fails if the client configuration is unusable.
func New(config *rest.Config) (*Checker, error) {
	made, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create a discovery client: %w", err)
	}
	return &Checker{client: made.RESTClient()}, nil
}

// Check fails with *OutdatedError if the CustomResourceDefinitions lack what this version needs, or with the API
// server's own error.
func (c *Checker) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	document, err := c.client.Get().
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

// fieldSchema is the part of an OpenAPI schema that lists the fields.
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
	return &OutdatedError{Missing: missing}
}
