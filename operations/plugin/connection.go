package plugin

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"
	// what kubectl knows in a kubeconfig besides certificates, tokens and programs
	_ "k8s.io/client-go/plugin/pkg/client/auth/oidc"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/internal/kube/kinds"
	"github.com/harrier-ci/harrier/internal/output"
	"github.com/harrier-ci/harrier/operations/doctor/snapshot"
	"github.com/harrier-ci/harrier/operations/plugin/ledger"
	"github.com/harrier-ci/harrier/operations/plugin/why"
)

// connection leads a command to the cluster: by the flags of kubectl, which mean the same here.
type connection struct {
	kubeconfig    string
	overrides     clientcmd.ConfigOverrides
	allNamespaces bool
}

// addFlags adds kubectl's flags. what names the objects that -n and -A choose, empty for a command that is about a
// single object.
func (c *connection) addFlags(flags *pflag.FlagSet, what string) {
	flags.StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig file; empty: KUBECONFIG or ~/.kube/config")
	names := clientcmd.RecommendedConfigOverrideFlags("")
	// kubectl has them no more
	names.AuthOverrideFlags.Username.LongName, names.AuthOverrideFlags.Password.LongName = "", ""
	clientcmd.BindOverrideFlags(&c.overrides, flags, names)
	flags.Lookup(clientcmd.FlagNamespace).Usage = "namespace; empty: that of the kubeconfig's context"
	if what != "" {
		flags.BoolVarP(&c.allNamespaces, "all-namespaces", "A", false, what+" of all namespaces")
	}
}

// find returns the configuration, and the namespace that the command is about: "" for all.
func (c *connection) find() (config *rest.Config, namespace string, err error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	loader := clientcmd.NewInteractiveDeferredLoadingClientConfig(rules, &c.overrides, os.Stdin)
	if config, err = loader.ClientConfig(); err == nil {
		namespace, _, err = loader.Namespace()
	}
	if err != nil {
		return nil, "", fmt.Errorf("find the API server: %w; use --kubeconfig FILE or --context NAME, or set "+
			"KUBECONFIG", err)
	}
	if c.allNamespaces {
		namespace = ""
	}
	config.QPS = -1 // requests are bounded by what a command asks, and the API server has its own limits
	return config, namespace, nil
}

// past leads a command to the ledger of jobs: at an address, or in its pod, by a forwarded port.
type past struct {
	url    string
	wanted ledger.Wanted
}

func (p *past) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&p.url, "history-url", "",
		"address of the ledger, such as http://localhost:8090; empty: its pod, by a forwarded port")
	flags.StringVar(&p.wanted.Namespace, "history-namespace", "",
		"namespace of the ledger's pod, that of a controller; empty: that of the release with the CustomResourceDefinitions")
	flags.StringVar(&p.wanted.Pod, "history-pod", "", "the ledger's pod; empty: the only one in that namespace")
}

// open returns the function that finds the ledger. It fails for a wrong address; whether there is a ledger turns out
// later.
func (p *past) open(access *connection) (why.Opener, error) {
	if p.url != "" {
		at, err := ledger.At(p.url)
		return func(context.Context) (*ledger.Ledger, error) { return at, nil }, err
	}
	return func(ctx context.Context) (*ledger.Ledger, error) {
		config, _, err := access.find()
		if err != nil {
			return nil, fmt.Errorf("%w; a ledger elsewhere is named by --history-url", err)
		}
		connected, err := client.New(config, client.Options{Scheme: kinds.Scheme(), Mapper: kinds.Mapper()})
		if err != nil {
			return nil, fmt.Errorf("connect to the API server: %w", err)
		}
		return ledger.Find(ctx, connected, config, p.wanted)
	}, nil
}

// watching returns a client that can watch.
func (c *connection) watching() (client.WithWatch, string, error) {
	config, namespace, err := c.find()
	if err != nil {
		return nil, "", err
	}
	connected, err := client.NewWithWatch(config, client.Options{Scheme: kinds.Scheme(), Mapper: kinds.Mapper()})
	if err != nil {
		return nil, "", fmt.Errorf("connect to the API server: %w", err)
	}
	return connected, namespace, nil
}

// longestAnswer limits commands that don't wait for anything.
const longestAnswer = time.Minute

// examine runs a command that reads the cluster as the doctor does, and doesn't wait for anything.
func (c *connection) examine(ctx context.Context, format string,
	run func(context.Context, snapshot.Cluster, string) error) error {
	if err := output.CheckFormat(format); err != nil {
		return err
	}
	config, namespace, err := c.find()
	if err != nil {
		return err
	}
	cluster, err := snapshot.ConnectTo(config)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, longestAnswer)
	defer stop()
	return run(ctx, cluster, namespace)
}
