package kube

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
)

// keyScaleSet is by what the lines of all controllers, of calls to GitHub and of listeners can be filtered: NAMESPACE/NAME.
const keyScaleSet = "scaleSet"

// WithScaleSetLogger returns a context whose logger names the scale set, and more keys with their values.
func WithScaleSetLogger(ctx context.Context, set types.NamespacedName, more ...any) context.Context {
	return ctrl.LoggerInto(ctx, ctrl.LoggerFrom(ctx).WithValues(append([]any{keyScaleSet, set.String()}, more...)...))
}
