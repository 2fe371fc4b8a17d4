package controllertest

import (
	"reflect"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/harrier-ci/harrier/internal/kube/kinds"
	"github.com/harrier-ci/harrier/internal/volumesnapshots"
)

// NewKubernetes begins a fake API server. With each write, one goes through its whole scheme, so it has the kinds of
// which the controllers know the resource, and no others. What it applies objects with is made a single time.
func NewKubernetes() *fake.ClientBuilder {
	return fake.NewClientBuilder().WithScheme(knownKinds()).
		WithTypeConverters(typed(), managedfields.NewDeducedTypeConverter())
}

var knownKinds = sync.OnceValue(func() *runtime.Scheme {
	known, mapper := runtime.NewScheme(), kinds.Mapper()
	for kind, goType := range kinds.Scheme().AllKnownTypes() {
		if _, err := mapper.RESTMapping(kind.GroupKind(), kind.Version); err != nil {
			continue
		}
		if !known.IsVersionRegistered(kind.GroupVersion()) {
			metav1.AddToGroupVersion(known, kind.GroupVersion())
		}
		known.AddKnownTypeWithName(kind, reflect.New(goType).Interface().(runtime.Object))
	}
	// a kind without a Go type, which a cluster may lack
	snapshot := volumesnapshots.Kind
	known.AddKnownTypeWithName(snapshot, &unstructured.Unstructured{})
	known.AddKnownTypeWithName(snapshot.GroupVersion().WithKind(snapshot.Kind+"List"), &unstructured.UnstructuredList{})
	return known
})

// typed has the schemas of Kubernetes' own kinds, as a fake API server would read them.
var typed = sync.OnceValue(func() managedfields.TypeConverter {
	return applyconfigurations.NewTypeConverter(clientgoscheme.Scheme)
})
