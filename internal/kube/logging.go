package kube

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
)

// keyScaleSet names the scale set, as NAMESPACE/NAME, in the log lines of controllers, of calls to GitHub and of listeners, so
// that all of them can be filtered by it.
const keyScaleSet = "scaleSet"

// WithScaleSetLogger returns a context whose logger names the scale set, and more keys with their values.
func WithScaleSetLogger(ctx context.Context, set types.NamespacedName, more ...any) context.Context {
	return ctrl.LoggerInto(ctx, ctrl.LoggerFrom(ctx).WithValues(append([]any{keyScaleSet, set.String()}, more...)...))
}
