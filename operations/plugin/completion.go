package plugin

import (
	"context"
	_ "embed"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/internal/kube"
)

// kubectlCompletion is the program that kubectl asks what may follow "kubectl harrier": a file of this name in a
// directory of PATH.
//
//go:embed kubectl_complete-harrier
var kubectlCompletion string

// addCompletion adds the command completion: for each shell cobra's script, and for kubectl the program that it runs.
func addCompletion(root *cobra.Command, streams Streams) {
	root.InitDefaultCompletionCmd()
	completion, _, err := root.Find([]string{"completion"})
	if err != nil || completion == root { // cobra has one
		return
	}
	completion.Short = "Print what completes command lines: for kubectl, bash, zsh, fish or powershell"
	completion.Long = `Prints a script that completes command lines. kubectl harrier itself is completed by kubectl's own completion, once a program
kubectl_complete-harrier is in PATH; completion kubectl prints it. The other scripts complete kubectl-harrier, with the dash.`
	completion.AddCommand(&cobra.Command{
		Use: "kubectl", Short: "Print the program kubectl_complete-harrier", Args: cobra.NoArgs,
		Long: `Prints the program that kubectl runs to complete the words after kubectl harrier. Write it into a directory of PATH as
kubectl_complete-harrier, and make it executable.`,
		Example: example("kubectl harrier completion kubectl >kubectl_complete-harrier"),
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(streams.Out, kubectlCompletion)
			return err
		},
	})
}

// A shell waits completionTimeout for names at most.
const completionTimeout = 3 * time.Second

// completeSets completes the first argument with the names of scale sets. Without an answer in time there are none.
func completeSets(access *connection) cobra.CompletionFunc {
	return func(command *cobra.Command, arguments []string, _ string) ([]string, cobra.ShellCompDirective) {
		connected, namespace, err := access.watching()
		if err != nil || len(arguments) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, stop := context.WithTimeout(command.Context(), completionTimeout)
		defer stop()
		sets, err := kube.ListMetadata(ctx, connected, "AutoscalingRunnerSet", client.InNamespace(namespace))
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []string
		for i := range sets {
			names = append(names, sets[i].Name)
		}
		slices.Sort(names)
		return slices.Compact(names), cobra.ShellCompDirectiveNoFileComp
	}
}
