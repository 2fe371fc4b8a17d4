package site

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Deadlines, about ten times as long as the steps take on two cores.
const (
	GitHubLimit    = 30 * time.Second
	HelmLimit      = 2 * time.Minute
	UninstallLimit = 2 * time.Minute
)

const askEvery = 100 * time.Millisecond

// Await calls ask until nothing is missing, and reports what is missing. At the deadline, the error names what was
// missing last. An error of ask ends the wait.
func (s *Site) Await(
	ctx context.Context, what string, limit time.Duration, ask func() (missing string, err error),
) error {
	missing := "not asked yet"
	err := wait.PollUntilContextTimeout(ctx, askEvery, limit, true, func(context.Context) (bool, error) {
		if s.Failed != nil {
			if err := s.Failed(); err != nil {
				return false, err
			}
		}
		var err error
		missing, err = ask()
		if missing != "" {
			s.Report("%s, for at most %s", missing, limit)
		}
		return missing == "", err
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("wait for %s: %w", what, context.Cause(ctx))
	case wait.Interrupted(err):
		return fmt.Errorf("waited %s for %s: %s", limit, what, missing)
	default:
		return fmt.Errorf("wait for %s: %w", what, err)
	}
}
