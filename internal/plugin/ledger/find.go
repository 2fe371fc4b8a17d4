package ledger

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/doctor/finding"
	"github.com/harrier-ci/harrier/internal/kube"
)

// labels are those that the chart gives the ledger's Service.
var labels = client.MatchingLabels{v1alpha1.LabelPartOf: v1alpha1.PartOfHarrier,
	v1alpha1.LabelComponent: v1alpha1.ComponentHistory}

// port is the name of the port of the Service. The proxy wants it where there is a name, and RBAC sees it.
const port = "http"

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

// Find returns the ledger whose Service is in a namespace or, if that is empty, in any. Its error names what is
// missing.
func Find(ctx context.Context, reader client.Reader, config *rest.Config, namespace string) (*Ledger, error) {
	kind := corev1.SchemeGroupVersion.WithKind("Service")
	found, err := kube.ListMetadataOf(ctx, reader, kind, client.InNamespace(namespace), labels)
	where := "in namespace " + namespace
	if namespace == "" {
		where = "in any namespace"
	}
	switch {
	case apierrors.IsForbidden(err) && namespace == "":
		return nil, fmt.Errorf("find the ledger: %w; name the controller's namespace with --history-namespace, "+
			"or the address with --history-url", err)
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("find the ledger %s: %w; %s, or use --history-url", where, err, askForRole)
	case err != nil:
		return nil, fmt.Errorf("find the ledger %s: %w", where, err)
	case len(found) == 0:
		return nil, fmt.Errorf("there is no ledger %s: the cluster's administrator gets one with "+
			"history.enabled=true of the controller's chart; one that is elsewhere is named by --history-url", where)
	case len(found) > 1:
		var names []string
		for i := range found {
			names = append(names, found[i].Namespace+"/"+found[i].Name)
		}
		return nil, fmt.Errorf("several Services look like the ledger's: %s; choose by --history-namespace or "+
			"--history-url",
			finding.Listed(names, 5))
	}
	return through(config, found[0].Namespace, found[0].Name)
}

// through returns the ledger behind the API server's proxy of a Service.
func through(config *rest.Config, namespace, name string) (*Ledger, error) {
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("read the API server's address: %w", err)
	}
	caller, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	own := *caller // what config has for all may be shared
	own.CheckRedirect = stay
	return &Ledger{
		Where: fmt.Sprintf("Service %s/%s", namespace, name), client: &own,
		base:    server.JoinPath("api/v1/namespaces", namespace, "services", name+":"+port, "proxy"),
		proxied: fmt.Sprintf("-n %s service/%s", namespace, name),
	}, nil
}
