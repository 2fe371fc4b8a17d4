package site

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// AwaitNoScaleSets waits until no AutoscalingRunnerSet is left: the controller may be uninstalled then.
func (s *Site) AwaitNoScaleSets(ctx context.Context, c client.Client) error {
	return s.Await(ctx, "all scale sets to be gone", UninstallLimit, func() (string, error) {
		sets, err := List(ctx, c, ourKinds[0])
		if err != nil || len(sets) == 0 {
			return "", err
		}
		return Describe(&sets[0]), nil
	})
}

// AwaitUninstalled waits until neither GitHub nor the cluster has anything of the product any more.
func (s *Site) AwaitUninstalled(ctx context.Context, c client.Client, namespaces ...string) error {
	return s.Await(ctx, "everything to be gone", UninstallLimit, func() (string, error) {
		snapshot, err := s.Control.Snapshot(ctx)
		if err != nil {
			return "", fmt.Errorf("ask GitHub for its state: %w", err)
		}
		left, err := EverythingLeft(ctx, c, namespaces...)
		return Shorten(append(LeftOnGitHub(snapshot, true), left...), 8), err
	})
}
