// Package plugin turns a command line of kubectl-harrier, the plugin of kubectl for people who operate scale sets, into
// a call of one of its rooms, and what comes of it into an exit code. What the rooms know stands in them:
//
//	top: what limits each scale set   why: one job   report: who used what   drain: no more jobs
//	scalesets: what GitHub has, and who holds it   check: what an installation would meet
//	doctor, and of the package commands validate and convert: the same code as the manager's commands
package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/harrier-ci/harrier/internal/build"
	"github.com/harrier-ci/harrier/internal/output"
	"github.com/harrier-ci/harrier/operations/commands"
	"github.com/harrier-ci/harrier/operations/finding"
	"github.com/harrier-ci/harrier/operations/plugin/drain"
	"github.com/harrier-ci/harrier/operations/plugin/scalesets"
)

// Streams are the program's input and output.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

const about = `Scale sets of GitHub Actions runners, for those who operate them.

Exit codes of all commands: 0 if all is well, 1 if somebody has to act, or if a wait was given up, 2 if the command could not do its work.
A command reads what you may read, says what it could not read, and goes on.`

// Main runs a command line, which is given without the program's name, and returns the exit code.
func Main(ctx context.Context, arguments []string, streams Streams) int {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process
	root := Command(streams)
	root.SetArgs(arguments)
	switch err := root.ExecuteContext(ctx); {
	case err == nil:
		return commands.ExitFine
	case errors.Is(err, finding.ErrProblems), errors.Is(err, drain.ErrNotYet):
		return commands.ExitProblems
	case errors.Is(err, scalesets.ErrNotDeleted):
		fmt.Fprintln(output.NewWriter(streams.Err), output.Clean(err.Error()))
		return commands.ExitProblems
	default:
		fmt.Fprintln(output.NewWriter(streams.Err), output.Clean(err.Error()))
		return commands.ExitUnable
	}
}

// Command returns the tree of commands.
func Command(streams Streams) *cobra.Command {
	root := &cobra.Command{
		Use: "kubectl-harrier", Short: "Scale sets of GitHub Actions runners, for those who operate them", Long: about,
		Version:      build.Version + " (" + build.CommitSHA + ")",
		Annotations:  map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl harrier"},
		SilenceUsage: true, SilenceErrors: true,
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	root.SetFlagErrorFunc(func(command *cobra.Command, err error) error {
		return fmt.Errorf("%w; %s --help lists the flags", err, command.CommandPath())
	})
	root.AddCommand(subcommands(streams)...)
	addCompletion(root, streams)
	return root
}

// addOutput adds -o, with text, JSON, and what the command has besides.
func addOutput(command *cobra.Command, format *string, more ...string) {
	known := append([]string{output.Text, output.JSON}, more...)
	command.Flags().StringVarP(format, "output", "o", output.Text,
		strings.Join(known[:len(known)-1], ", ")+" or "+known[len(known)-1])
	completeWith(command, "output", known)
}

// completeWith has shells complete the values of a flag.
func completeWith(command *cobra.Command, flag string, values []string) {
	// it fails for unknown flags only
	_ = command.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}
