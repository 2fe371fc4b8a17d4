package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/client-go/util/workqueue"
)

// MaxParallelism is how many requests to the API server one reconcile has in flight. A request takes 2–10 ms of a server
// that has time, so 128 are as much as one on two cores takes, and a burst of 1,000 creations ends in eight rounds. An API
// server serves 100 of a connection; a second one is opened for the rest.
const MaxParallelism = 128

// namedErrors is how many failures of one ForEach are told in full: what refuses one of a thousand objects most often
// refuses all of them, in the same words.
const namedErrors = 3

// ForEach calls do for every item, at most limit at a time, and returns the errors joined, the first namedErrors of them
// and how many there are besides. Items that were not begun when the context ended are left out, and the context's error
// is part of the answer.
func ForEach[T any](ctx context.Context, limit int, items []T, do func(context.Context, T) error) error {
	errs := make([]error, len(items))
	workqueue.ParallelizeUntil(ctx, limit, len(items), func(i int) { errs[i] = do(ctx, items[i]) })
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if more := len(errs) - namedErrors; more > 0 {
		errs = append(errs[:namedErrors], fmt.Errorf("and %d more", more))
	}
	return errors.Join(append(errs, ctx.Err())...)
}
