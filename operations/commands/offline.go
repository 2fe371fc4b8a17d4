package commands

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/harrier-ci/harrier/operations/convert"
	"github.com/harrier-ci/harrier/operations/validation"
)

// OfflineCommand is a command that asks no cluster. The manager has it, and so has the plugin of kubectl, with the same
// flags and texts.
type OfflineCommand struct {
	// Name is its word on the command line; Synopsis are its main flags, Short what it is for in a line, and Long all
	// that is to be known.
	Name, Synopsis, Short, Long string
	// Prepare defines the flags, and returns the function that runs the command when they are parsed, with what the
	// command line has besides flags.
	Prepare func(*flag.FlagSet) func(ctx context.Context, rest []string, stdout, stderr io.Writer) error

	examples string
}

// Examples returns command lines of it, as they are for a program.
func (c *OfflineCommand) Examples(program string) []string {
	return strings.Split(strings.ReplaceAll(c.examples, "PROGRAM", program), "\n")
}

// Offline are the commands that ask no cluster.
var Offline = []OfflineCommand{
	{
		Name: "validate", Synopsis: "-f FILE [-f FILE]... [--set KEY=VALUE]... [--chart NAME] [-n NAMESPACE] " +
			"[--controller-values FILE] [--storage-classes FILE] [-o json]",
		Short: "Check values and manifests before they are applied",
		Long: fmt.Sprintf(`Reports what the charts, the API server and the manager would say of values and manifests, before they are applied. It reads values of
both charts, also below the charts' names or aliases in values of a chart that has them as dependencies, and in a HelmRelease, HelmChart,
Application or ApplicationSet; and AutoscalingRunnerSets. Values of several files and of --set are merged, as Helm merges them.

Exit codes: %d nothing is wrong, %d something is, %d the check could not run: a file doesn't exist or is not YAML, there is nothing
of the above in it, or the value tenants of the controller is not valid; or it has taken a minute.`, ExitFine, ExitProblems, ExitUnable),
		examples: `PROGRAM validate -f values.yaml
PROGRAM validate -f values.yaml -f production.yaml --set maxRunners=20
PROGRAM validate -f values.yaml -n team-a --controller-values your-controller-values.yaml
kubectl get storageclasses -o yaml | PROGRAM validate -f values.yaml --storage-classes -
kubectl get autoscalingrunnersets -A -o yaml | PROGRAM validate -f -`,
		Prepare: func(flags *flag.FlagSet) func(context.Context, []string, io.Writer, io.Writer) error {
			options := validation.NewOptions(flags)
			return func(ctx context.Context, rest []string, stdout, _ io.Writer) error {
				return options.Run(ctx, rest, stdout)
			}
		},
	},
	{
		Name: "convert", Synopsis: "-f FILE [-f FILE]... [-d DIRECTORY] [-n NAMESPACE] [--github-url URL] " +
			"[--github-config-secret NAME] [-o json]",
		Short: "Make values from manifests of ARC's legacy mode",
		Long: fmt.Sprintf(`Makes values of the chart gha-runner-scale-set from RunnerDeployments, RunnerReplicaSets, RunnerSets and Runners of ARC's legacy mode, with
the HorizontalRunnerAutoscalers that scale them, and reports what became of each field: which value it is now, or why there is none, what
to do instead, and whose step that is. It asks neither a cluster nor GitHub.

Exit codes: %d nothing has to be done by hand (warnings don't count), %d something has to, which the report says first, %d nothing could be
converted: a file doesn't exist or is not YAML, there is no such object in it, or more than a thousand, a file of values is there already and
says something else, or it has taken a minute.`, ExitFine, ExitProblems, ExitUnable),
		examples: `PROGRAM convert -f runners.yaml -d values
kubectl get runnerdeployments,runnerreplicasets,runnersets,runners,horizontalrunnerautoscalers -A -o yaml | PROGRAM convert -f - -d values`,
		Prepare: func(flags *flag.FlagSet) func(context.Context, []string, io.Writer, io.Writer) error {
			return convert.NewOptions(flags).Run
		},
	},
}
