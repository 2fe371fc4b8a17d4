package apiserver

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// resource is a kind of objects, as addresses name it.
type resource struct{ group, version, plural string }

type key struct{ namespace, name string }

type place struct {
	resource
	key
}

// Request is what a request asks for.
type Request struct {
	resource
	// Verb is one of Kubernetes' own: get, list, watch, create, update, patch, delete.
	Verb string
	// Namespace is empty for all, or for what belongs to none; Name for those of a list, and of what is created.
	Namespace, Name, Subresource string
	// DryRun has the server only say what it would do.
	DryRun bool
}

// Resource is the name of the resource, with the subresource if there is one: pods, ephemeralrunners/status.
func (q Request) Resource() string {
	if q.Subresource != "" {
		return q.plural + "/" + q.Subresource
	}
	return q.plural
}

// kinds are the kinds that the server has, by resource. Those of ours are the ones that have generations.
var kinds = map[string]string{
	"autoscalingrunnersets": "AutoscalingRunnerSet", "autoscalinglisteners": "AutoscalingListener",
	"ephemeralrunnersets": "EphemeralRunnerSet", "ephemeralrunners": "EphemeralRunner",
	"configmaps": "ConfigMap", "events": "Event", "persistentvolumeclaims": "PersistentVolumeClaim",
	"persistentvolumes": "PersistentVolume", "pods": "Pod", "secrets": "Secret", "serviceaccounts": "ServiceAccount",
	"namespaces": "Namespace", "nodes": "Node", "resourcequotas": "ResourceQuota", "roles": "Role",
	"rolebindings": "RoleBinding", "leases": "Lease", "poddisruptionbudgets": "PodDisruptionBudget",
	"volumesnapshots": "VolumeSnapshot", "deployments": "Deployment", "jobs": "Job",
}

// ours is the group whose kinds a CRD defines, with a status of its own and generations.
const ours = "actions.github.com"

func (r resource) kind() string { return kinds[r.plural] }

func (r resource) groupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: r.group, Version: r.version}
}

func (r resource) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.group, Resource: r.plural}
}

// Parse reads what a request asks for. It fails with the server's refusal.
func Parse(r *http.Request) (q Request, err error) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		q.version, parts = parts[1], parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		q.group, q.version, parts = parts[1], parts[2], parts[3:]
	default:
		return q, apierrors.NewNotFound(schema.GroupResource{}, r.URL.Path)
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		q.Namespace, parts = parts[1], parts[2:]
	}
	parts = append(parts, "", "", "")
	q.plural, q.Name, q.Subresource = parts[0], parts[1], parts[2]
	if q.kind() == "" {
		return q, apierrors.NewNotFound(q.groupResource(), q.Name)
	}
	q.DryRun = r.URL.Query().Get("dryRun") != ""
	watches, _ := strconv.ParseBool(r.URL.Query().Get("watch"))
	switch q.Verb = strings.ToLower(r.Method); {
	case r.Method == http.MethodPost:
		q.Verb = "create"
	case r.Method == http.MethodPut:
		q.Verb = "update"
	case r.Method == http.MethodGet && watches:
		q.Verb = "watch"
	case r.Method == http.MethodGet && q.Name == "":
		q.Verb = "list"
	}
	return q, nil
}

// selectorOf returns which objects a list or watch asks for.
func selectorOf(r *http.Request) (func(*unstructured.Unstructured) bool, error) {
	query := r.URL.Query()
	byLabel, err := labels.Parse(query.Get("labelSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	byField, err := fields.ParseSelector(query.Get("fieldSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return func(object *unstructured.Unstructured) bool {
		for _, wanted := range byField.Requirements() {
			has, _, _ := unstructured.NestedString(object.Object, strings.Split(wanted.Field, ".")...)
			if has != wanted.Value {
				return false
			}
		}
		return byLabel.Matches(labels.Set(object.GetLabels()))
	}, nil
}

func sortedKeys(objects map[key]*stored) []key {
	return slices.SortedFunc(maps.Keys(objects), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
}

func formatVersion(version int64) string { return strconv.FormatInt(version, 10) }
