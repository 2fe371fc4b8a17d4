package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/internal/kube/kinds"
	"github.com/harrier-ci/harrier/internal/output"
	"github.com/harrier-ci/harrier/operations/plugin/scalesets"
)

func scaleSetsCommand(streams Streams) *cobra.Command {
	access, options := &connection{}, scalesets.Options{}
	command := &cobra.Command{
		Use: "scalesets [URL]", Short: "List the scale sets that GitHub has, and delete one that nobody holds",
		Args: cobra.MaximumNArgs(1),
		Long: `Lists the scale sets that GitHub has for an organization, repository or enterprise, and which AutoscalingRunnerSet of the cluster holds each.
Those that "nobody here" holds may be another cluster's, or left by one that is gone.

GitHub is asked with your own token, in the environment variable GITHUB_TOKEN or GH_TOKEN, or with a Secret that you may read: --secret, or that of an
AutoscalingRunnerSet with --set, together with its address, proxy and authorities. With a token no cluster is needed.

--delete deletes one, by id or name. It asks for its name before; it refuses what a set of the cluster holds, and what somebody listens to, in whatever cluster.`,
		Example: example("GITHUB_TOKEN=$(gh auth token) kubectl harrier scalesets https://github.com/my-org",
			"kubectl harrier scalesets --set my-set -n my-runners -o json",
			"kubectl harrier scalesets https://github.com/my-org --secret github -n my-runners --delete 17"),
		RunE: func(command *cobra.Command, arguments []string) error {
			if err := output.CheckFormat(options.Format); err != nil {
				return err
			}
			if len(arguments) > 0 {
				options.Address = arguments[0]
			}
			if err := chooseCredentials(&options); err != nil {
				return err
			}
			var cluster client.Reader
			config, namespace, err := access.find()
			if err == nil {
				cluster, err = client.New(config, client.Options{Scheme: kinds.Scheme(), Mapper: kinds.Mapper()})
			}
			options.Namespace, options.Unreachable = namespace, err
			ctx := command.Context()
			if options.Delete == "" { // nobody is waited for
				var stop context.CancelFunc
				ctx, stop = context.WithTimeout(ctx, longestAnswer)
				defer stop()
			}
			return scalesets.Run(ctx, cluster, options, streams.In, streams.Out, streams.Err)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := command.Flags()
	flags.StringVar(&options.Secret, "secret", "", "Secret with the credentials, as githubConfigSecret of a scale set names it")
	flags.StringVar(&options.Set, "set", "", "AutoscalingRunnerSet whose address and credentials are used")
	flags.StringVar(&options.Delete, "delete", "", "id or name of the scale set to delete")
	flags.BoolVar(&options.Yes, "yes", false, "delete without asking; refused if not all AutoscalingRunnerSets can be read")
	command.MarkFlagsMutuallyExclusive("secret", "set")
	access.addFlags(flags, "")
	addOutput(command, &options.Format)
	return command
}

// chooseCredentials takes the caller's token unless a flag names other credentials.
func chooseCredentials(options *scalesets.Options) error {
	if options.Secret == "" && options.Set == "" {
		options.Token = cmp.Or(os.Getenv("GITHUB_TOKEN"), os.Getenv("GH_TOKEN"))
		if options.Token == "" {
			return errors.New("no credentials: set GITHUB_TOKEN, or name a Secret with --secret, or an AutoscalingRunnerSet " +
				"with --set")
		}
	}
	if options.Address == "" && options.Set == "" {
		return errors.New("no address: give that of an organization, repository or enterprise, such as " +
			"https://github.com/my-org, or an AutoscalingRunnerSet with --set")
	}
	if options.Yes && options.Delete == "" {
		return fmt.Errorf("--yes confirms --delete, which names no scale set")
	}
	return nil
}
