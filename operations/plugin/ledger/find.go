package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/operations/finding"
)

// labels are those that the chart gives the ledger's StatefulSet.
var labels = client.MatchingLabels{v1alpha1.LabelPartOf: v1alpha1.PartOfHarrier,
	v1alpha1.LabelComponent: v1alpha1.ComponentHistory}

// What Helm writes on the objects of a release, and the chart's label with the release's name.
const (
	releaseName      = "meta.helm.sh/release-name"
	releaseNamespace = "meta.helm.sh/release-namespace"
	labelInstance    = "app.kubernetes.io/instance"
)

// Wanted says which ledger is meant. Where it is empty, it is that of the manager's own release.
type Wanted struct{ Namespace, Pod string }

// At returns the ledger at an address, without asking anything yet.
func At(address string) (*Ledger, error) {
	base, err := url.Parse(address)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, errors.New("--history-url must be the address of the ledger's page, such as http://localhost:8090")
	}
	base.RawQuery, base.Fragment = "", ""
	return &Ledger{Where: base.Redacted(), base: base, client: &http.Client{CheckRedirect: stay}}, nil
}

// stay has redirections shown instead of followed: they lead to logins, which answer with pages for people.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Find returns a ledger, by a port that is forwarded to its pod. Nothing that a tenant can write decides which: the
// manager's release is told by the CustomResourceDefinition, or its namespace by the user, and there nobody else creates
// StatefulSets. Its error names what is missing.
func Find(ctx context.Context, reader client.Reader, config *rest.Config, wanted Wanted) (*Ledger, error) {
	chosen := maps.Clone(labels)
	if wanted.Namespace == "" {
		release, err := releaseOfManager(ctx, reader)
		if err != nil {
			return nil, fmt.Errorf("find the ledger: %w; name the controller's namespace with --history-namespace, or "+
				"the address with --history-url", err)
		}
		wanted.Namespace, chosen[labelInstance] = release.Namespace, release.Name
	}
	if wanted.Pod != "" {
		return forwarded(config, wanted)
	}
	kind := appsv1.SchemeGroupVersion.WithKind("StatefulSet")
	found, err := kube.ListMetadataOf(ctx, reader, kind, client.InNamespace(wanted.Namespace), chosen)
	switch {
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("find the ledger in namespace %s: %w; name its pod with --history-pod, or %s",
			wanted.Namespace, err, askForRole)
	case err != nil:
		return nil, fmt.Errorf("find the ledger in namespace %s: %w", wanted.Namespace, err)
	case len(found) == 0:
		return nil, fmt.Errorf("there is no ledger in namespace %s: the cluster's administrator gets one with "+
			"history.enabled=true of the controller's chart; one that is elsewhere is named by --history-namespace or "+
			"--history-url", wanted.Namespace)
	case len(found) > 1:
		var names []string
		for i := range found {
			names = append(names, found[i].Name+"-0")
		}
		return nil, fmt.Errorf("namespace %s has several ledgers: choose by --history-pod one of %s", wanted.Namespace,
			finding.Listed(names, 5))
	}
	wanted.Pod = found[0].Name + "-0"
	return forwarded(config, wanted)
}

// releaseOfManager returns namespace and name of the release that has the CustomResourceDefinitions. They belong to the
// cluster: only its administrators write them, while anybody may label objects of a namespace as the manager's.
func releaseOfManager(ctx context.Context, reader client.Reader) (client.ObjectKey, error) {
	const name = "autoscalingrunnersets.actions.github.com"
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1",
		Kind: "CustomResourceDefinition"})
	if err := reader.Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
		return client.ObjectKey{}, fmt.Errorf("read which release has the CustomResourceDefinitions: %w", err)
	}
	release := client.ObjectKey{Namespace: crd.Annotations[releaseNamespace], Name: crd.Annotations[releaseName]}
	if release.Namespace == "" || release.Name == "" {
		return release, fmt.Errorf("CustomResourceDefinition %s is of no Helm release", name)
	}
	return release, nil
}
