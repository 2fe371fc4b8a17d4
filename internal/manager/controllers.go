package manager

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/pool"
)

// addControllers adds the controllers and what they share: the pool of slow calls and the clients of GitHub.
func addControllers(ctx context.Context, manager ctrl.Manager, options Options) error {
	if err := fillCaches(ctx, manager.GetCache()); err != nil {
		return err
	}
	clock := clock.RealClock{}
	calls := pool.New(pool.Limit, clock)
	if err := manager.Add(calls); err != nil {
		return fmt.Errorf("add the pool of calls to GitHub: %w", err)
	}
	github := credentials.New(manager.GetAPIReader(), credentials.Options{
		Clock: clock, Logger: manager.GetLogger().WithName("github"), UserAgent: userAgent(), OnRequest: observeGitHub,
	})
	_ = github
	return nil
}

// fillCaches asks for the kinds that every controller stands on, so that a manager counts as ready only with them, also
// while it stands by.
func fillCaches(ctx context.Context, informers cache.Cache) error {
	for _, kind := range []client.Object{
		&v1alpha1.AutoscalingRunnerSet{}, &v1alpha1.AutoscalingListener{},
		&v1alpha1.EphemeralRunnerSet{}, &v1alpha1.EphemeralRunner{}, &corev1.Pod{},
	} {
		if _, err := informers.GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
	}
	return nil
}
