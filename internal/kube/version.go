package kube

import (
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// IsStale reports whether the cached object is older than a version that we wrote ourselves: the watch has not delivered that
// version yet, and what the object says must not be acted on twice. If a version is empty or the two can't be compared, the
// object counts as current.
func IsStale(object client.Object, version string) bool {
	order, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), version)
	return err == nil && order < 0
}
