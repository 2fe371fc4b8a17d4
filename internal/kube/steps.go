package kube

import "context"

// InOrder runs the steps of a pass in order, up to the first that fails.
func InOrder[P any](ctx context.Context, pass P, steps ...func(context.Context, P) error) error {
	for _, step := range steps {
		if err := step(ctx, pass); err != nil {
			return err
		}
	}
	return nil
}
