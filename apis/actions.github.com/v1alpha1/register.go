package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "actions.github.com", Version: "v1alpha1"}

var schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

// AddToScheme registers the four kinds and their lists.
var AddToScheme = schemeBuilder.AddToScheme

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&AutoscalingRunnerSet{}, &AutoscalingRunnerSetList{},
		&AutoscalingListener{}, &AutoscalingListenerList{},
		&EphemeralRunnerSet{}, &EphemeralRunnerSetList{},
		&EphemeralRunner{}, &EphemeralRunnerList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
