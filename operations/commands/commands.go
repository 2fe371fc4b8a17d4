// Package commands has the command lines of `manager doctor`, `manager validate` and `manager convert`: flags, usage and
// exit codes. What they do stands in the packages doctor, validation and convert, which don't know each other. The
// plugin of kubectl has the same commands, by its own command line.
package commands

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/internal/output"
	"github.com/harrier-ci/harrier/operations/doctor"
	"github.com/harrier-ci/harrier/operations/doctor/snapshot"
	"github.com/harrier-ci/harrier/operations/finding"
)

// Exit codes of the commands.
const (
	ExitFine     = 0
	ExitProblems = 1
	// ExitUnable: the command line is wrong, or the check could not run: no API server, no file, or scale sets that
	// can't be listed.
	ExitUnable = 2
)

// timeout limits the examination of the cluster.
const timeout = time.Minute

// Names are the first arguments that Main understands.
var Names = []string{"doctor", "validate", "convert"}

const usage = `Usage: manager doctor [flags] [scale set]    explain why jobs wait
       manager validate -f FILE [flags]     check values and manifests before they are applied
       manager convert -f FILE [flags]      make values from manifests of ARC's legacy mode

--help after a command lists its flags. The program harrier beside the manager has the same commands.
`

// Main runs a command line, which is given without the program's name, and returns the exit code. The cluster is the
// one that -kubeconfig, KUBECONFIG or ~/.kube/config names, or else the one that the process runs in.
func Main(ctx context.Context, arguments []string, stdout, stderr io.Writer) int {
	stdout, stderr = output.NewWriter(stdout), output.NewWriter(stderr)
	command := ""
	if len(arguments) > 0 {
		command = arguments[0]
	}
	var err error
	offline := slices.IndexFunc(Offline, func(c OfflineCommand) bool { return c.Name == command })
	switch {
	case command == "doctor":
		err = doctorCommand(ctx, arguments[1:], stdout, stderr)
	case offline >= 0:
		err = Offline[offline].run(ctx, arguments[1:], stdout, stderr)
	case slices.Contains([]string{"-h", "-help", "--help", "help"}, command):
		fmt.Fprint(stdout, usage)
		return ExitFine
	default:
		fmt.Fprint(stderr, usage)
		return ExitUnable
	}
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return ExitFine
	case errors.Is(err, finding.ErrProblems):
		return ExitProblems
	}
	fmt.Fprintln(stderr, output.OneLine(err.Error()))
	return ExitUnable
}

var doctorUsage = fmt.Sprintf(`Usage: manager doctor [flags] [scale set]

Explains why jobs wait. Exit codes: %d nothing keeps jobs waiting for long, %d something does until somebody acts, %d the check could not run.

`, ExitFine, ExitProblems, ExitUnable)

func doctorCommand(ctx context.Context, arguments []string, stdout, stderr io.Writer) error {
	options := doctor.Options{}
	flags := flag.NewFlagSet("doctor", flag.ContinueOnError)
	flags.StringVar(&options.Namespace, "n", "", "namespace of the scale sets; empty: all")
	flags.StringVar(&options.Output, "o", "text", "text or json")
	kubeconfig := flags.String("kubeconfig", "",
		"kubeconfig file; empty: KUBECONFIG, ~/.kube/config, or the cluster it runs in")
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
	return doctor.Run(ctx, cluster, options, stdout)
}

// parse parses flags. It prints the usage only on request; the caller prints the error.
func parse(flags *flag.FlagSet, arguments []string, usage string, stderr io.Writer) error {
	flags.SetOutput(io.Discard)
	err := flags.Parse(arguments)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stderr, usage)
		flags.SetOutput(stderr)
		flags.PrintDefaults()
	case err != nil:
		err = fmt.Errorf("%w; manager %s --help lists the flags", err, flags.Name())
	}
	return err
}

// run runs the command of the manager.
func (c *OfflineCommand) run(ctx context.Context, arguments []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet(c.Name, flag.ContinueOnError)
	run := c.Prepare(flags)
	usage := fmt.Sprintf("Usage: manager %s %s\n\n%s\n\n  %s\n\n", c.Name, c.Synopsis, c.Long,
		strings.Join(c.Examples("manager"), "\n  "))
	if err := parse(flags, arguments, usage, stderr); err != nil {
		return err
	}
	return run(ctx, flags.Args(), stdout, stderr)
}
