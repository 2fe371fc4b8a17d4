package kinds

import (
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/restmapper"

	"github.com/harrier-ci/harrier/internal/testkube"
)

func TestMain(m *testing.M) { os.Exit(testkube.Main(m, testkube.Options{})) }

// In the package: nothing but its tables lists all kinds, and a mapper only answers for one that is named.

// Each kind and its list have the resource and the scope that discovery returns, and the kind has a Go type.
func TestTableIsWhatTheServerSays(t *testing.T) {
	requests, err := discovery.NewDiscoveryClientForConfig(testkube.Shared(t).Config())
	if err != nil {
		t.Fatal(err)
	}
	groups, err := restmapper.GetAPIGroupResources(requests)
	if err != nil {
		t.Fatal(err)
	}
	server, known := restmapper.NewDiscoveryRESTMapper(groups), Mapper()
	for _, table := range []map[schema.GroupVersion][]string{namespaced, clusterWide} {
		for version, names := range table {
			for _, name := range names {
				for _, kind := range []schema.GroupVersionKind{
					version.WithKind(name), version.WithKind(name + "List"),
				} {
					want, got := mapping(t, server, kind), mapping(t, known, kind)
					if got.Resource != want.Resource || got.Scope.Name() != want.Scope.Name() {
						t.Errorf(
							"%s is %s by %s, want %s by %s", kind, got.Resource, got.Scope.Name(), want.Resource,
							want.Scope.Name(),
						)
					}
				}
				if version != apiextensions && !Scheme().Recognizes(version.WithKind(name)) {
					t.Errorf("%s has no Go type", version.WithKind(name))
				}
			}
		}
	}
}

func mapping(t *testing.T, mapper meta.RESTMapper, kind schema.GroupVersionKind) *meta.RESTMapping {
	t.Helper()
	found, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		t.Fatalf("%s: %v", kind, err)
	}
	return found
}
