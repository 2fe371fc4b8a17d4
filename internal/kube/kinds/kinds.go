// Package kinds is the table of all kinds that manager, doctor and plugin use: Go types, resources and scopes. It
// replaces API discovery, which clients and caches run during set-up without a context: if the API server fails at that
// moment the program exits, and if it accepts the connection but never answers, the program hangs.
package kinds

import (
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// namespaced and clusterWide are the kinds that manager, doctor or plugin reads or writes. The resource of each is its
// name in lower case and plural. The first use of a kind that is missing here fails with "no matches for kind".
var (
	namespaced = map[schema.GroupVersion][]string{
		v1alpha1.GroupVersion: {
			"AutoscalingRunnerSet", "AutoscalingListener", "EphemeralRunnerSet", "EphemeralRunner",
		},
		corev1.SchemeGroupVersion: {
			"ConfigMap", "Event", "PersistentVolumeClaim", "Pod", "ResourceQuota", "Secret", "Service", "ServiceAccount",
		},
		rbacv1.SchemeGroupVersion:         {"Role", "RoleBinding"},
		appsv1.SchemeGroupVersion:         {"Deployment", "StatefulSet"},
		batchv1.SchemeGroupVersion:        {"Job"},
		coordinationv1.SchemeGroupVersion: {"Lease"},
		policyv1.SchemeGroupVersion:       {"PodDisruptionBudget"},
		eventsv1.SchemeGroupVersion:       {"Event"},
	}
	// installed are kinds that a cluster may lack: nothing watches them, and who uses them says what is missing then.
	installed = map[schema.GroupVersion][]string{
		{Group: "snapshot.storage.k8s.io", Version: "v1"}: {"VolumeSnapshot"},
		{Group: "resource.k8s.io", Version: "v1"}:         {"ResourceClaim", "ResourceClaimTemplate"},
	}
	clusterWide = map[schema.GroupVersion][]string{
		corev1.SchemeGroupVersion:           {"Namespace", "Node", "PersistentVolume"},
		authenticationv1.SchemeGroupVersion: {"SelfSubjectReview", "TokenReview"},
		authorizationv1.SchemeGroupVersion:  {"SelfSubjectAccessReview", "SubjectAccessReview"},
		rbacv1.SchemeGroupVersion:           {"ClusterRoleBinding"},
		apiextensions:                       {"CustomResourceDefinition"},
	}
	// Of these only the metadata is read: their Go types would make the programs megabytes larger.
	apiextensions = schema.GroupVersion{Group: "apiextensions.k8s.io", Version: "v1"}
)

// Scheme returns a new scheme with the Go types of Kubernetes and of actions.github.com.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	// Both fail only if two Go types claim the same kind, which no input can cause.
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	return scheme
}

// Mapper returns a new mapper of the kinds in the table, which never asks the API server. For any other kind it returns
// *meta.NoKindMatchError.
func Mapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	add := func(kinds map[schema.GroupVersion][]string, scope meta.RESTScope) {
		for version, names := range kinds {
			for _, name := range names {
				mapper.Add(version.WithKind(name), scope)
				// As discovery does: a cache of some namespaces needs the scope of a list.
				mapper.Add(version.WithKind(name+"List"), scope)
			}
		}
	}
	add(namespaced, meta.RESTScopeNamespace)
	add(installed, meta.RESTScopeNamespace)
	add(clusterWide, meta.RESTScopeRoot)
	return mapper
}
