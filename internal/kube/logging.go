package kube

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
)

// keyScaleSet names the scale set, as NAMESPACE/NAME, in the log lines of controllers, of calls to GitHub and of listeners, so
// that all of them can be filtered by it.
const keyScaleSet = "scaleSet"

// WithScaleSetLogger returns a context whose logger adds the scale set, and the keys and values in more, to each line.
func WithScaleSetLogger(ctx context.Context, set types.NamespacedName, more ...any) context.Context {
	return ctrl.LoggerInto(ctx, ctrl.LoggerFrom(ctx).WithValues(append([]any{keyScaleSet, set.String()}, more...)...))
}
