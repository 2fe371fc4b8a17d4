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

const doctorUsage = `Usage: manager doctor [flags] [scale set]

Says why jobs wait. Exit codes: %d nothing keeps jobs waiting for long, %d something does until somebody acts, %d it could not look.

`

func doctorCommand(ctx context.Context, arguments []string, output, trouble io.Writer) error {
	options := Options{}
	flags := flag.NewFlagSet("doctor", flag.ContinueOnError)
	flags.StringVar(&options.Namespace, "n", "", "namespace of the scale sets; empty is all")
	flags.StringVar(&options.Output, "o", "text", "text or json")
	kubeconfig := flags.String("kubeconfig", "", "file that says where the cluster is; empty is KUBECONFIG, ~/.kube/config, or the cluster it runs in")
	if err := parse(flags, arguments, doctorUsage, trouble); err != nil {
		return err
	}
	if flags.NArg() > 0 { // flags may follow the name
		options.Name = flags.Arg(0)
		if err := parse(flags, flags.Args()[1:], doctorUsage, trouble); err != nil {
			return err
		}
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q; name one scale set, or none for all", flags.Arg(0))
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

// parse reads flags. The usage is for those who ask for it; who is wrong is told so, once.
func parse(flags *flag.FlagSet, arguments []string, usage string, trouble io.Writer) error {
	flags.SetOutput(io.Discard)
	err := flags.Parse(arguments)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(trouble, usage, ExitFine, ExitProblems, ExitUnable)
		flags.SetOutput(trouble)
		flags.PrintDefaults()
	case err != nil:
		err = fmt.Errorf("%w; manager %s --help lists the flags", err, flags.Name())
	}
	return err
}

const validateUsage = `Usage: manager validate -f FILE

Says what would not work of values and manifests, before they are applied. Exit codes: %d nothing is wrong, %d something is,
%d it could not look: no such file, no YAML, or neither values of the chart gha-runner-scale-set nor an AutoscalingRunnerSet.

  manager validate -f values.yaml
  kubectl get autoscalingrunnersets -A -o yaml | manager validate -f -

`

func validateCommand(_ context.Context, arguments []string, output, trouble io.Writer) error {
	path := ""
	flags := flag.NewFlagSet("validate", flag.ContinueOnError)
	flags.StringVar(&path, "f", "", "file with values of the chart gha-runner-scale-set, or manifests; - is standard input")
	if err := parse(flags, arguments, validateUsage, trouble); err != nil {
		return err
	}
	if path == "" || flags.NArg() > 0 {
		return errors.New("use manager validate -f FILE; --help says more")
	}
	content, name, err := read(path)
	if err != nil {
		return err
	}
	v, err := validate(content)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return v.report(output, name)
}

// read returns what a file holds, and what to call it.
func read(path string) (content []byte, name string, err error) {
	if path == "-" {
		content, err = io.ReadAll(os.Stdin)
		return content, "standard input", err
	}
	content, err = os.ReadFile(path)
	return content, path, err
}
