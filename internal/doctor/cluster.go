package doctor

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

// Cluster is what the doctor looks at.
type Cluster struct {
	client.Reader
	// Host is the address of the API server, for messages.
	Host string
	// Reviews are asked who may do what; nil means that nobody is.
	Reviews Reviews
	// CheckCRDs fails with *crdcheck.OutdatedError where the CustomResourceDefinitions lack something; nil is not asked.
	CheckCRDs func(context.Context) error
	// CheckServer fails with *ForeignServerError where something else answers than a Kubernetes API server; nil is not asked.
	CheckServer func(context.Context) error
}

// ForeignServerError says that something else than a Kubernetes API server answers at the address of one.
type ForeignServerError struct{ Host string }

// Error names the address and the next step.
func (e *ForeignServerError) Error() string {
	return fmt.Sprintf("what answers at %s is no Kubernetes API server; %s", e.Host, correctKubeconfig)
}

const (
	correctKubeconfig = "see that the kubeconfig (-kubeconfig FILE or KUBECONFIG) names the right server"
	reachServer       = correctKubeconfig + ", and that it is reached from here (VPN, proxy, firewall)"
)

// find returns how to reach the cluster of a kubeconfig file, or without one that of the environment. The client has no
// limit of its own: what the doctor asks at a time is bounded.
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

// connect asks the API server nothing yet.
func connect(kubeconfig string) (Cluster, error) {
	config, err := find(kubeconfig)
	if err != nil {
		return Cluster{}, fmt.Errorf("find the API server: %w; use -kubeconfig FILE or set KUBECONFIG", err)
	}
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
		return Cluster{}, fmt.Errorf("make a client for discovery: %w", err)
	}
	host := address.Redacted()
	check := func(ctx context.Context) error { return checkServer(ctx, requests.RESTClient(), host) }
	return Cluster{Reader: connection, Host: host, Reviews: connection, CheckCRDs: crds.Check, CheckServer: check}, nil
}

// checkServer asks for the version, which every Kubernetes API server tells, also those who may see nothing else. It fails with
// *ForeignServerError, or with what kept it from an answer.
func checkServer(ctx context.Context, requests rest.Interface, host string) error {
	answer, err := requests.Get().AbsPath("/version").Do(ctx).Raw()
	told := version.Info{}
	if err == nil && (json.Unmarshal(answer, &told) != nil || told.GitVersion == "") || apierrors.IsNotFound(err) {
		return &ForeignServerError{Host: host}
	}
	return err
}

// foreign returns *ForeignServerError where something else answers than an API server. What is not known is taken for one.
func (c Cluster) foreign(ctx context.Context) error {
	if c.CheckServer == nil {
		return nil
	}
	if foreign, ok := errors.AsType[*ForeignServerError](c.CheckServer(ctx)); ok {
		return foreign
	}
	return nil
}

// unlisted explains why the scale sets of a namespace ("" is all) could not be listed, with the step that fits the cause.
func (c Cluster) unlisted(err error, namespace string) error {
	var answered apierrors.APIStatus
	step := reachServer
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the API server at %s has not answered in time: %w; %s", c.Host, err, reachServer)
	case apierrors.IsUnauthorized(err):
		step = "log in again: the API server does not take the credentials of the kubeconfig"
	case apierrors.IsForbidden(err) && namespace == "":
		step = "use -n NAMESPACE for one whose scale sets you may read"
	case apierrors.IsForbidden(err):
		step = fmt.Sprintf("ask for the right to list autoscalingrunnersets.%s in namespace %s", v1alpha1.GroupVersion.Group, namespace)
	case errors.As(err, &answered):
		step = "ask again later; where it stays, see how the API server is: kubectl get --raw /readyz?verbose"
	}
	return fmt.Errorf("list scale sets at %s: %w; %s", c.Host, err, step)
}
