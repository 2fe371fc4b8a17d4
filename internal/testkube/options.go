package testkube

import (
	"fmt"
	"path/filepath"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

// Options choose the parts of a cluster. The zero value is etcd and kube-apiserver with the project's CRDs.
type Options struct {
	// ControllerManager runs kube-controller-manager: garbage collection, deletion of namespaces, ResourceQuota status,
	// ServiceAccounts of namespaces, Deployments, Jobs, PodDisruptionBudgets, and claims that are kept while pods have
	// them. It has no controller that evicts or collects pods of nodes that have no Node object, because fake nodes
	// have none.
	ControllerManager bool
	// AuditLog records every request; see Cluster.AuditEvents.
	AuditLog bool
	// AuditObjects adds to the audit log the objects that were sent and answered by changes of pods, claims, Leases and
	// the project's kinds.
	AuditObjects bool
	// CRDs are directories or files with CustomResourceDefinitions. Nil means apis/crds of this module, an empty slice
	// none.
	CRDs []string
	// AddToScheme add kinds to the scheme of Cluster.Client, which has those of Kubernetes already.
	AddToScheme []func(*runtime.Scheme) error
	// AsShipped lets the programs collect garbage as they do elsewhere, because their CPU time or memory is measured.
	// Otherwise they do it less often.
	AsShipped bool
	// IPv6 has the API server at ::1, and gives Services addresses of that family only.
	IPv6 bool
	// APIServerFlags are appended to kube-apiserver's arguments and take precedence over them.
	APIServerFlags []string
}

// crdPaths returns CRDs or, if that is nil, the directory of the project's own.
func (o Options) crdPaths() ([]string, error) {
	if o.CRDs != nil {
		return o.CRDs, nil
	}
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	return []string{filepath.Join(root, "apis", "crds")}, nil
}

// scheme returns the kinds of Kubernetes and those of AddToScheme.
func (o Options) scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range append([]func(*runtime.Scheme) error{clientgoscheme.AddToScheme}, o.AddToScheme...) {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("build the client's scheme: %w", err)
		}
	}
	return scheme, nil
}
