package kube

import (
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// IsStale reports whether an object, as the cache has it, is older than a version that was written by ourselves: the watch
// has not brought that yet, and what the object says must not be acted on twice. Where versions are empty or can't be
// compared nothing is known, and the object counts as current.
func IsStale(object client.Object, version string) bool {
	order, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), version)
	return err == nil && order < 0
}
