package manager

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
)

const (
	// Outdated CRDs are checked again after crdPause, doubled each time up to crdMaxPause. The first pauses are short, because
	// manager and CRDs are often installed together, and the API server takes a second or two to publish a new CRD.
	crdPause    = time.Second
	crdMaxPause = 30 * time.Second
)

// awaitCRDs waits until the CRDs have the fields we need. It fails only with the context's error. The reason for waiting is
// logged when it changes, and passed to report for /readyz.
func awaitCRDs(ctx context.Context, check func(context.Context) error, clk clock.Clock, log logr.Logger, report func(error)) error {
	logged := ""
	for pause := crdPause; ; pause = min(2*pause, crdMaxPause) {
		err := check(ctx)
		if err == nil || crdsUnreadable(err) {
			report(nil)
			return nil
		}
		report(err)
		if text := err.Error(); text != logged {
			log.Error(err, "Waiting for the CustomResourceDefinitions to be upgraded before starting", "recheckAtLeastEvery", crdMaxPause.String())
			logged = text
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-clk.After(pause):
		}
	}
}

// crdsUnreadable reports whether we may not read schemas in this cluster. The CRDs are then assumed to be right.
func crdsUnreadable(err error) bool { return apierrors.IsForbidden(err) }
