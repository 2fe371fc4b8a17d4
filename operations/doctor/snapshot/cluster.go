package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/apiaccess"
	"github.com/harrier-ci/harrier/internal/crdcheck"
	"github.com/harrier-ci/harrier/internal/kube/kinds"
)

// Cluster is examined by the doctor.
type Cluster struct {
	client.Reader
	// Host is the address of the API server, for messages.
	Host string
	// Reviews answers who may do what; nil skips these checks.
	Reviews Reviews
	// CheckCRDs fails with *crdcheck.OutdatedError if the CustomResourceDefinitions lack something; nil skips the
	// check.
	CheckCRDs func(context.Context) error
	// CheckServer fails with *ForeignServerError if the server is not a Kubernetes API server; nil skips the check.
	CheckServer func(context.Context) error
}

// Reviews creates access reviews. A client.Client implements it.
type Reviews interface {
	Create(ctx context.Context, review client.Object, options ...client.CreateOption) error
}

// ForeignServerError says that the server at the configured address is not a Kubernetes API server.
type ForeignServerError struct{ Host string }

// Error names the address and the next step.
func (e *ForeignServerError) Error() string {
	return fmt.Sprintf("the server at %s is not a Kubernetes API server; %s", e.Host, correctKubeconfig)
}

const (
	correctKubeconfig = "check that the kubeconfig (-kubeconfig FILE or KUBECONFIG) names the right server"
	reachServer       = correctKubeconfig + ", and that the server can be reached from here (VPN, proxy, firewall)"
)

// find returns the client configuration from a kubeconfig file, or from the environment if there is none. It has no
// rate limit, because the doctor bounds its concurrent requests.
func find(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		config, err := ctrl.GetConfig()
		if err == nil && os.Getenv("KUBERNETES_SERVICE_HOST") != "" { // in the manager's pod
			config = apiaccess.WithoutProxy(config)
		}
		return config, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err == nil {
		config.QPS = -1
	}
	return config, err
}

// Connect prepares the clients for the cluster of a kubeconfig file, or of the environment if there is none. It sends
// no request to the API server yet.
func Connect(kubeconfig string) (Cluster, error) {
	config, err := find(kubeconfig)
	if err != nil {
		return Cluster{}, fmt.Errorf("find the API server: %w; use -kubeconfig FILE or set KUBECONFIG", err)
	}
	return ConnectTo(config)
}

// ConnectTo does the same for a cluster that the caller has found.
func ConnectTo(config *rest.Config) (Cluster, error) {
	address, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return Cluster{}, fmt.Errorf("read the API server's address: %w; %s", err, correctKubeconfig)
	}
	connection, err := client.New(config, client.Options{Scheme: kinds.Scheme(), Mapper: kinds.Mapper()})
	if err != nil {
		return Cluster{}, fmt.Errorf("connect to the API server: %w", err)
	}
	crds, err := crdcheck.New(config)
	if err != nil {
		return Cluster{}, err
	}
	requests, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return Cluster{}, fmt.Errorf("create a discovery client: %w", err)
	}
	host := address.Redacted()
	check := func(ctx context.Context) error { return checkServer(ctx, requests.RESTClient(), host) }
	return Cluster{Reader: connection, Host: host, Reviews: connection, CheckCRDs: crds.Check, CheckServer: check}, nil
}

// checkServer requests the version, which every Kubernetes API server returns, even to users who may read nothing else.
// It fails with *ForeignServerError, or with the reason why there was no answer.
func checkServer(ctx context.Context, requests rest.Interface, host string) error {
	answer, err := requests.Get().AbsPath("/version").Do(ctx).Raw()
	info := version.Info{}
	if err == nil && (json.Unmarshal(answer, &info) != nil || info.GitVersion == "") || apierrors.IsNotFound(err) {
		return &ForeignServerError{Host: host}
	}
	return err
}

// unlisted explains why the scale sets of a namespace ("" means all) could not be listed, with the next step for that
// cause.
func (c Cluster) unlisted(err error, namespace string) error {
	var answered apierrors.APIStatus
	step := reachServer
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the API server at %s did not answer in time: %w; %s", c.Host, err, reachServer)
	case apierrors.IsUnauthorized(err):
		step = "log in again: the API server does not accept the kubeconfig's credentials"
	case apierrors.IsForbidden(err) && namespace == "":
		step = "use -n NAMESPACE with a namespace whose scale sets you may list"
	case apierrors.IsForbidden(err):
		step = fmt.Sprintf("ask for permission to list autoscalingrunnersets.%s in namespace %s",
			v1alpha1.GroupVersion.Group, namespace)
	case errors.As(err, &answered):
		step = "try again later; if the error persists, check the API server: kubectl get --raw /readyz?verbose"
	}
	return fmt.Errorf("list scale sets at %s: %w; %s", c.Host, err, step)
}
