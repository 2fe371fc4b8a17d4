package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Deadlines of everything that is waited for: about ten times what it takes on two cores.
const (
	githubLimit    = 30 * time.Second
	helmLimit      = 2 * time.Minute
	sessionLimit   = 90 * time.Second
	jobsLimit      = 4 * time.Minute // the longest job has 15 s
	emptyLimit     = 90 * time.Second
	uninstallLimit = 2 * time.Minute
	// cleanUpLimit is for everything after an interruption.
	cleanUpLimit = 3 * time.Minute
)

const askEvery = 100 * time.Millisecond

// await asks until nothing is missing. The answer says what is, and becomes the error at the deadline; an error ends the wait.
func (s *site) await(ctx context.Context, what string, limit time.Duration, ask func() (missing string, err error)) error {
	missing := "not asked yet"
	err := wait.PollUntilContextTimeout(ctx, askEvery, limit, true, func(context.Context) (bool, error) {
		if s.failed != nil {
			if err := s.failed(); err != nil {
				return false, err
			}
		}
		var err error
		missing, err = ask()
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
