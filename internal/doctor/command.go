package doctor

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/internal/addresses"
	"github.com/harrier-ci/harrier/internal/doctor/snapshot"
	"github.com/harrier-ci/harrier/internal/doctor/tenants"
	"github.com/harrier-ci/harrier/internal/listenertemplate"
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
var Commands = []string{"doctor", "validate"}

const usage = `Usage: manager doctor [flags] [scale set]    explain why jobs wait
       manager validate -f FILE [flags]     check values and manifests before they are applied

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
	var paths []string
	var set settings
	var namespace, controllerValues, format string
	flags := flag.NewFlagSet("validate", flag.ContinueOnError)
	flags.Func("f", "file with values or manifests, -: standard input; may be repeated: values are merged as Helm merges them", func(path string) error {
		paths = append(paths, path)
		return nil
	})
	for _, flag := range settingFlags {
		flags.Func(flag.name, flag.usage, func(text string) error {
			set = append(set, setting{flag, text})
			return nil
		})
	}
	flags.StringVar(&namespace, "n", "", "namespace of values, and of manifests that name none; for --controller-values")
	flags.StringVar(&format, "o", "text", "text or json")
	flags.StringVar(&controllerValues, "controller-values", "",
		"file with values of the chart gha-runner-scale-set-controller: says what its tenants allow or refuse")
	policy := listenertemplate.Policy{}
	name := flags.String("listener-template-policy", listenertemplate.Restricted, "the manager's policy for listenerTemplate: restricted or unrestricted")
	flags.Func("listener-sidecar-images", "image that the manager allows in further containers of listener pods; may be repeated", func(image string) error {
		policy.SidecarImages = append(policy.SidecarImages, image)
		return nil
	})
	var allowed []string
	flags.Func(addresses.Flag, "address that the controller allows scale sets (its flags.allowedGitHubURLs); may be repeated", func(text string) error {
		allowed = append(allowed, text)
		return nil
	})
	if err := parse(flags, arguments, validateUsage, stderr); err != nil {
		return err
	}
	if len(paths)+len(set) == 0 || flags.NArg() > 0 {
		return errors.New("run manager validate -f FILE; --help explains the flags")
	}
	if format != "text" && format != "json" {
		return fmt.Errorf("-o %q is unknown; use text or json", format)
	}
	if !slices.Contains(listenertemplate.Names, *name) {
		return fmt.Errorf("--listener-template-policy=%q is unknown; use %s", *name, strings.Join(listenertemplate.Names, " or "))
	}
	policy.Unrestricted = *name == listenertemplate.Unrestricted
	inputs, err := readInputs(paths)
	if err != nil {
		return err
	}
	beside := parent{}
	if len(paths) > 0 {
		if beside, err = parentOf(paths[0]); err != nil {
			return err
		}
	}
	var entries tenants.Entries
	if controllerValues != "" {
		content, err := readFile(controllerValues, maxInput)
		if err != nil {
			return err
		}
		if entries, err = tenants.Read(content); err != nil {
			return fmt.Errorf("%s: %w", controllerValues, err)
		}
	}
	addressPolicy, err := addresses.New(allowed)
	if err != nil {
		return fmt.Errorf("--%s: %w", addresses.Flag, err)
	}
	var names []string
	for _, file := range inputs {
		names = append(names, file.name)
	}
	place := cmp.Or(strings.Join(names, ", "), "the command line")
	v, err := validateInTime(ctx, func() (*validation, error) {
		return validate(inputs, set, beside, controller{listeners: policy, addresses: addressPolicy, tenants: entries, namespace: namespace})
	})
	if err != nil {
		return fmt.Errorf("%s: %w", place, err)
	}
	return v.report(stdout, place, format)
}

// errTooLong: templates have no limit of their own, and values can be made so that one doesn't end in a day.
var errTooLong = fmt.Errorf("the check has not ended within %v: validate fewer values at a time, or smaller ones", timeout)

// validateInTime ends when the check does, or when its time does. What is left of the check ends with the program.
func validateInTime(ctx context.Context, check func() (*validation, error)) (*validation, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errTooLong)
	defer cancel()
	type result struct {
		validation *validation
		err        error
	}
	ended := make(chan result, 1)
	go func() {
		v, err := check()
		ended <- result{v, err}
	}()
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case found := <-ended:
		return found.validation, found.err
	}
}

// maxInput is the size of a file that is read: a thousand scale sets of a cluster have some 20 MB.
const maxInput = 64 << 20

// readInputs reads files, with the name to use for each in messages.
func readInputs(paths []string) (inputs []input, err error) {
	for _, path := range paths {
		file := input{name: path}
		if path == "-" {
			file.name = "standard input"
			file.content, err = readAll(os.Stdin, file.name, maxInput)
		} else {
			file.content, err = readFile(path, maxInput)
		}
		if err != nil {
			return nil, err
		}
		inputs = append(inputs, file)
	}
	return inputs, nil
}

func readAll(from io.Reader, name string, limit int64) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(from, limit+1))
	if int64(len(content)) > limit {
		return nil, fmt.Errorf("%s has more than %d MiB, which is more than is read", name, limit>>20)
	}
	return content, err
}
