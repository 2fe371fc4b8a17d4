package doctor

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/harrier-ci/harrier/internal/convert"
	"github.com/harrier-ci/harrier/internal/doctor/snapshot"
	"github.com/harrier-ci/harrier/internal/doctor/validation"
)

// Exit codes of the commands.
const (
	ExitFine     = 0
	ExitProblems = 1
	// ExitUnable: the command line is wrong, or the check could not run: no API server, no file, or scale sets that can't be listed.
	ExitUnable = 2
)

// timeout limits the examination of the cluster.
const timeout = time.Minute

// Commands are the first arguments that Main understands.
var Commands = []string{"doctor", "validate", "convert"}

const usage = `Usage: manager doctor [flags] [scale set]    explain why jobs wait
       manager validate -f FILE [flags]     check values and manifests before they are applied
       manager convert -f FILE [flags]      make values from manifests of ARC's legacy mode

--help after a command lists its flags. The program harrier beside the manager has the same commands.
`

// Main runs a command line, which is given without the program's name, and returns the exit code. The cluster is the one that
// -kubeconfig, KUBECONFIG or ~/.kube/config names, or else the one that the process runs in.
func Main(ctx context.Context, arguments []string, stdout, stderr io.Writer) int {
	command := ""
	if len(arguments) > 0 {
		command = arguments[0]
	}
	var err error
	switch command {
	case "doctor":
		err = doctorCommand(ctx, arguments[1:], stdout, stderr)
	case "validate":
		err = validateCommand(ctx, arguments[1:], stdout, stderr)
	case "convert":
		err = convertCommand(ctx, arguments[1:], stdout, stderr)
	case "-h", "-help", "--help", "help":
		fmt.Fprint(stdout, usage)
		return ExitFine
	default:
		fmt.Fprint(stderr, usage)
		return ExitUnable
	}
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return ExitFine
	case errors.Is(err, ErrProblems):
		return ExitProblems
	}
	fmt.Fprintln(stderr, err)
	return ExitUnable
}

const doctorUsage = `Usage: manager doctor [flags] [scale set]

Explains why jobs wait. Exit codes: %d nothing keeps jobs waiting for long, %d something does until somebody acts, %d the check could not run.

`

func doctorCommand(ctx context.Context, arguments []string, stdout, stderr io.Writer) error {
	options := Options{}
	flags := flag.NewFlagSet("doctor", flag.ContinueOnError)
	flags.StringVar(&options.Namespace, "n", "", "namespace of the scale sets; empty: all")
	flags.StringVar(&options.Output, "o", "text", "text or json")
	kubeconfig := flags.String("kubeconfig", "", "kubeconfig file; empty: KUBECONFIG, ~/.kube/config, or the cluster it runs in")
	if err := parse(flags, arguments, doctorUsage, stderr); err != nil {
		return err
	}
	if flags.NArg() > 0 { // flags may follow the name
		options.Name = flags.Arg(0)
		if err := parse(flags, flags.Args()[1:], doctorUsage, stderr); err != nil {
			return err
		}
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q; name one scale set, or none for all", flags.Arg(0))
	}
	if options.Output != "text" && options.Output != "json" {
		return fmt.Errorf("-o %q is unknown; use text or json", options.Output)
	}
	cluster, err := snapshot.Connect(*kubeconfig)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return Run(ctx, cluster, options, stdout)
}

// parse parses flags. It prints the usage only on request; the caller prints the error.
func parse(flags *flag.FlagSet, arguments []string, usage string, stderr io.Writer) error {
	flags.SetOutput(io.Discard)
	err := flags.Parse(arguments)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(stderr, usage, ExitFine, ExitProblems, ExitUnable)
		flags.SetOutput(stderr)
		flags.PrintDefaults()
	case err != nil:
		err = fmt.Errorf("%w; manager %s --help lists the flags", err, flags.Name())
	}
	return err
}

const validateUsage = `Usage: manager validate -f FILE [-f FILE]... [--set KEY=VALUE]... [-n NAMESPACE] [--controller-values FILE] [-o json]

Reports what the charts, the API server and the manager would say of values and manifests, before they are applied. It reads values of
both charts, also below the charts' names or aliases in values of a chart that has them as dependencies, and in a HelmRelease, HelmChart,
Application or ApplicationSet; and AutoscalingRunnerSets. Values of several files and of --set are merged, as Helm merges them.

Exit codes: %d nothing is wrong, %d something is, %d the check could not run: a file doesn't exist or is not YAML, there is nothing
of the above in it, or the value tenants of the controller is not valid; or it has taken a minute.

  manager validate -f values.yaml
  manager validate -f values.yaml -f production.yaml --set maxRunners=20
  manager validate -f values.yaml -n team-a --controller-values your-controller-values.yaml
  kubectl get autoscalingrunnersets -A -o yaml | manager validate -f -

`

func validateCommand(ctx context.Context, arguments []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("validate", flag.ContinueOnError)
	options := validation.NewOptions(flags)
	if err := parse(flags, arguments, validateUsage, stderr); err != nil {
		return err
	}
	return options.Run(ctx, flags.Args(), stdout)
}

const convertUsage = `Usage: manager convert -f FILE [-f FILE]... [-d DIRECTORY] [-n NAMESPACE] [--github-url URL] [--github-config-secret NAME] [-o json]

Makes values of the chart gha-runner-scale-set from RunnerDeployments, RunnerReplicaSets, RunnerSets and Runners of ARC's legacy mode, with
the HorizontalRunnerAutoscalers that scale them, and reports what became of each field: which value it is now, or why there is none, what
to do instead, and whose step that is. It asks neither a cluster nor GitHub.

Exit codes: %d nothing has to be done by hand (warnings don't count), %d something has to, which the report says first, %d nothing could be
converted: a file doesn't exist or is not YAML, there is no such object in it, or more than a thousand, a file of values is there already and
says something else, or it has taken a minute.

  manager convert -f runners.yaml -d values
  kubectl get runnerdeployments,runnerreplicasets,runnersets,runners,horizontalrunnerautoscalers -A -o yaml | manager convert -f - -d values

`

func convertCommand(ctx context.Context, arguments []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("convert", flag.ContinueOnError)
	options := convert.NewOptions(flags)
	if err := parse(flags, arguments, convertUsage, stderr); err != nil {
		return err
	}
	return options.Run(ctx, flags.Args(), stdout, stderr)
}
