package site

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/hack/installation"
)

// AwaitNoScaleSets waits until no AutoscalingRunnerSet is left. Only then may the controller be uninstalled.
func (s *Site) AwaitNoScaleSets(ctx context.Context, c client.Client) error {
	return s.Await(ctx, "all scale sets to be gone", UninstallLimit, func() (string, error) {
		sets, err := installation.List(ctx, c, installation.OurKinds[0])
		if err != nil || len(sets) == 0 {
			return "", err
		}
		return installation.Describe(sets[0])[0], nil
	})
}

// AwaitUninstalled waits until nothing of the product is left on GitHub or in the cluster.
func (s *Site) AwaitUninstalled(ctx context.Context, c client.Client, namespaces ...string) error {
	return s.Await(ctx, "everything to be gone", UninstallLimit, func() (string, error) {
		snapshot, err := s.Control.Snapshot(ctx)
		if err != nil {
			return "", fmt.Errorf("ask GitHub for its state: %w", err)
		}
		left, err := EverythingLeft(ctx, c, namespaces...)
		return installation.Shorten(append(installation.LeftOnGitHub(snapshot, true), left...), 8), err
	})
}
