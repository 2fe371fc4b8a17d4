package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// MaxParallelism bounds the requests to the API server that one pass has in flight. A request takes 2–10 ms on an idle
// server, so 128 are as many as a server on two cores can handle, and a burst of 1,000 creations takes eight rounds. An
// API server allows 100 per connection; a second connection is opened for the rest.
const MaxParallelism = 128

// ForEach reports namedErrors failures in full: what refuses one of a thousand objects usually refuses all of them, in
// the same words.
const namedErrors = 3

// ForEach calls do for every item, at most limit at a time. It returns the first namedErrors errors and the number of
// further ones, joined. When the context ends, the remaining items are skipped and its error is joined, too.
func ForEach[T any](ctx context.Context, limit int, items []T, do func(context.Context, T) error) error {
	errs := make([]error, len(items))
	workqueue.ParallelizeUntil(ctx, limit, len(items), func(i int) { errs[i] = do(ctx, items[i]) })
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if more := len(errs) - namedErrors; more > 0 {
		errs = append(errs[:namedErrors], fmt.Errorf("and %d more", more))
	}
	return errors.Join(append(errs, ctx.Err())...)
}

// LaterOf returns the later of two moments.
func LaterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// EarlierOf returns the earlier of two moments. Zero means never.
func EarlierOf(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// SetIfZero sets a time unless it is set already, and reports whether it did.
func SetIfZero(t *time.Time, now time.Time) bool {
	if !t.IsZero() {
		return false
	}
	*t = now
	return true
}
