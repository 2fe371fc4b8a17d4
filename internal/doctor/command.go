package doctor

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/apiaccess"
	"github.com/harrier-ci/harrier/internal/crdcheck"
)

// Exit codes of the commands.
const (
	ExitFine     = 0
	ExitProblems = 1
	// ExitUnable: the command line is wrong, or it could not look: no API server, no file, or scale sets that can't be listed.
	ExitUnable = 2
)

// timeout ends the look at the cluster.
const timeout = time.Minute

// Commands are the first arguments that Main understands.
var Commands = []string{"doctor", "validate"}

// IsCommand reports whether the command line, without the program's name, is one for Main.
func IsCommand(arguments []string) bool {
	return len(arguments) > 0 && slices.Contains(Commands, arguments[0])
}

// Main runs a command line for which IsCommand holds, and returns the program's exit code. The cluster is that of the flag
// -kubeconfig, of KUBECONFIG, of ~/.kube/config, or the one the process runs in.
func Main(ctx context.Context, arguments []string, output, trouble io.Writer) int {
	run := doctorCommand
	if arguments[0] == "validate" {
		run = validateCommand
	}
	err := run(ctx, arguments[1:], output, trouble)
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return ExitFine
	case errors.Is(err, ErrProblems):
		return ExitProblems
	}
	fmt.Fprintln(trouble, err)
	return ExitUnable
}

func doctorCommand(ctx context.Context, arguments []string, output, trouble io.Writer) error {
	options := Options{}
	flags := flag.NewFlagSet("doctor", flag.ContinueOnError)
	flags.SetOutput(trouble)
	flags.Usage = func() {
		fmt.Fprintf(trouble, "Usage: manager doctor [flags] [scale set]\n\nSays why jobs wait. Exit codes: %d nothing keeps jobs waiting for long, %d something does until somebody acts, "+
			"%d it could not look.\n\n", ExitFine, ExitProblems, ExitUnable)
		flags.PrintDefaults()
	}
	flags.StringVar(&options.Namespace, "n", "", "namespace of the scale sets; empty is all")
	flags.StringVar(&options.Output, "o", "text", "text or json")
	kubeconfig := flags.String("kubeconfig", "", "file that says where the cluster is; empty is KUBECONFIG, ~/.kube/config, or the cluster it runs in")
	if err := parse(flags, arguments, &options.Name); err != nil {
		return err
	}
	if options.Output != "text" && options.Output != "json" {
		return fmt.Errorf("-o %q is unknown; use text or json", options.Output)
	}
	cluster, err := connect(*kubeconfig)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return Run(ctx, cluster, options, output)
}

// parse takes flags before and after the one argument that there may be.
func parse(flags *flag.FlagSet, arguments []string, name *string) error {
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return nil
	}
	*name = flags.Arg(0)
	if err := flags.Parse(flags.Args()[1:]); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return nil
}

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

func connect(kubeconfig string) (Cluster, error) {
	config, err := find(kubeconfig)
	if err != nil {
		return Cluster{}, fmt.Errorf("find the API server: %w; use -kubeconfig FILE or set KUBECONFIG", err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return Cluster{}, err
		}
	}
	connection, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return Cluster{}, fmt.Errorf("connect to the API server: %w", err)
	}
	crds, err := crdcheck.New(config)
	if err != nil {
		return Cluster{}, err
	}
	return Cluster{Reader: connection, Reviews: connection, CheckCRDs: crds.Check}, nil
}

func validateCommand(_ context.Context, arguments []string, output, trouble io.Writer) error {
	path := ""
	flags := flag.NewFlagSet("validate", flag.ContinueOnError)
	flags.SetOutput(trouble)
	flags.StringVar(&path, "f", "", "file with values of the chart gha-runner-scale-set, or manifests; - is standard input")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if path == "" || flags.NArg() > 0 {
		return errors.New("use validate -f FILE")
	}
	content, err := read(path)
	if err != nil {
		return err
	}
	v, err := validate(content)
	if err != nil {
		return err
	}
	return v.report(output)
}

func read(path string) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(os.Stdin)
	}
	return os.ReadFile(path)
}
