package kube

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
)

// keyScaleSet is by what the lines of all controllers, of calls to GitHub and of listeners can be filtered: NAMESPACE/NAME.
const keyScaleSet = "scaleSet"

// LogAbout adds to everything that is logged with the context which scale set it is about, and more keys with their values.
func LogAbout(ctx context.Context, set types.NamespacedName, more ...any) context.Context {
	return ctrl.LoggerInto(ctx, ctrl.LoggerFrom(ctx).WithValues(append([]any{keyScaleSet, set.String()}, more...)...))
}
