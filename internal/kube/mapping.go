package kube

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// NamedByLabels returns a function that maps an object to the object that two of its labels name. That may live in another
// namespace, where no owner reference can point. An object without the name maps to nothing.
func NamedByLabels(namespaceLabel, nameLabel string) handler.MapFunc {
	return func(_ context.Context, object client.Object) []reconcile.Request {
		labels := object.GetLabels()
		if labels[nameLabel] == "" {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{
			Namespace: labels[namespaceLabel], Name: labels[nameLabel],
		}}}
	}
}
