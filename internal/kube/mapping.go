package kube

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// NamedByLabels leads from an object to the one that two of its labels name, which may live in another namespace, where
// an owner reference can't reach. An object without the name leads nowhere.
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
