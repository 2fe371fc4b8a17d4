// Package kinds is the table of the kinds that manager and doctor work with: their Go types, resources and scopes. A client
// that has it needs no discovery. Discovery is asked when a client or a cache is set up, outside of any context: with an API
// server that fails just then the program ends, and with one that accepts connections and doesn't answer it waits for ever.
package kinds

import (
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// namespaced and clusterWide are the kinds that manager or doctor reads or writes, each with a resource that is its name in
// lower case and the plural. One that is missing here fails at its first use, with "no matches for kind".
var (
	namespaced = map[schema.GroupVersion][]string{
		v1alpha1.GroupVersion:     {"AutoscalingRunnerSet", "AutoscalingListener", "EphemeralRunnerSet", "EphemeralRunner"},
		corev1.SchemeGroupVersion: {"ConfigMap", "Event", "Pod", "ResourceQuota", "Secret", "ServiceAccount"},
		rbacv1.SchemeGroupVersion: {"Role", "RoleBinding"},
		appsv1.SchemeGroupVersion: {"Deployment"},
	}
	clusterWide = map[schema.GroupVersion][]string{
		authenticationv1.SchemeGroupVersion: {"SelfSubjectReview"},
		authorizationv1.SchemeGroupVersion:  {"SelfSubjectAccessReview", "SubjectAccessReview"},
	}
)

// Scheme returns a new scheme with the Go types of Kubernetes and of actions.github.com.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	// Both fail only when two Go types claim one kind, which no input can cause.
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	return scheme
}

// Mapper returns a new mapper of the kinds of the table, which never asks the API server. Any other kind is a
// *meta.NoKindMatchError.
func Mapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	add := func(kinds map[schema.GroupVersion][]string, scope meta.RESTScope) {
		for version, names := range kinds {
			for _, name := range names {
				mapper.Add(version.WithKind(name), scope)
				mapper.Add(version.WithKind(name+"List"), scope) // as discovery: a cache of some namespaces asks for a list's scope
			}
		}
	}
	add(namespaced, meta.RESTScopeNamespace)
	add(clusterWide, meta.RESTScopeRoot)
	return mapper
}
