package manager

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// newScheme returns the kinds the manager works with.
func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	// Both fail only when two Go types claim one kind, which no input can cause.
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	return scheme
}

// cacheOptions say what is kept in memory. Of a cluster with 10,000 pods that is only what belongs to scale sets, and of
// that no managedFields, which are half of a small object.
func (o Options) cacheOptions() cache.Options {
	ours := cache.ByObject{Label: scaleSetSelector()}
	options := cache.Options{
		SyncPeriod:       &o.SyncPeriod,
		DefaultTransform: cache.TransformStripManagedFields(),
		// Our own kinds are cached whole: an AutoscalingRunnerSet is written by users and needs no label.
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}:            ours,
			&corev1.ServiceAccount{}: ours,
			&rbacv1.Role{}:           ours,
			&rbacv1.RoleBinding{}:    ours,
		},
	}
	if watched := o.watched(); watched != nil {
		options.DefaultNamespaces = map[string]cache.Config{}
		for _, namespace := range watched {
			options.DefaultNamespaces[namespace] = cache.Config{}
		}
	}
	return options
}

// scaleSetSelector selects what bears the label that everything we create bears, whatever its value.
func scaleSetSelector() labels.Selector {
	selector, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: v1alpha1.LabelScaleSetName, Operator: metav1.LabelSelectorOpExists},
	}})
	utilruntime.Must(err) // the requirement is a constant
	return selector
}

// clientOptions keep Secrets and ConfigMaps out of the cache: to cache them is to list and watch every one of them.
func clientOptions() client.Options {
	return client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}}}
}
