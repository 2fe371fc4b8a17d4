package manager

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
)

const (
	// Outdated CRDs are looked at again after crdPause, doubled each time up to crdMaxPause. The API server takes a second or
	// two to publish a new one, so the first pauses are short: manager and CRDs often arrive together.
	crdPause    = time.Second
	crdMaxPause = 30 * time.Second
)

// awaitCRDs returns when the CRDs have what we need, or with the context's error. The reason for waiting is logged
// when it changes, and told to report for /readyz.
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
			log.Error(err, "Not starting before the CustomResourceDefinitions are right; they are looked at again", "atLeastEvery", crdMaxPause.String())
			logged = text
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-clk.After(pause):
		}
	}
}

// crdsUnreadable reports whether this cluster tells nobody like us about schemas. Then nothing is known against the CRDs.
func crdsUnreadable(err error) bool { return apierrors.IsForbidden(err) }
