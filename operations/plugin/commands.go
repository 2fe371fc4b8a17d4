package plugin

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/charts"
	"github.com/harrier-ci/harrier/internal/addresses"
	"github.com/harrier-ci/harrier/internal/kube/kinds"
	"github.com/harrier-ci/harrier/internal/output"
	"github.com/harrier-ci/harrier/operations/commands"
	"github.com/harrier-ci/harrier/operations/doctor"
	"github.com/harrier-ci/harrier/operations/doctor/snapshot"
	"github.com/harrier-ci/harrier/operations/history/rows"
	"github.com/harrier-ci/harrier/operations/plugin/check"
	"github.com/harrier-ci/harrier/operations/plugin/drain"
	"github.com/harrier-ci/harrier/operations/plugin/report"
	"github.com/harrier-ci/harrier/operations/plugin/top"
	"github.com/harrier-ci/harrier/operations/plugin/why"
)

// subcommands returns all commands but those that cobra has.
func subcommands(streams Streams) []*cobra.Command {
	out := streams.Out // a table that is redrawn in place moves the cursor
	streams.Out, streams.Err = output.NewWriter(streams.Out), output.NewWriter(streams.Err)
	all := []*cobra.Command{
		topCommand(streams, out), whyCommand(streams), reportCommand(streams), doctorCommand(streams),
		scaleSetsCommand(streams), checkCommand(streams),
		drainOrResume(streams, true, &cobra.Command{
			Use: "drain SET", Short: "Have a scale set take no more jobs, and wait until those that it has are done",
			Long: `Sets the annotation actions.github.com/drained on the scale set, and waits until neither jobs nor runners are left. Jobs that are assigned to it
run, also those that have not started. The spec stays as it is, so that GitOps tools undo nothing. Ctrl-C ends the wait; the scale set stays drained until
kubectl harrier resume.`,
			Example: example("kubectl harrier drain my-set -n my-runners", "kubectl harrier drain my-set --timeout 30m",
				"kubectl harrier drain my-set --wait=false"),
		}),
		drainOrResume(streams, false, &cobra.Command{
			Use: "resume SET", Short: "Have a drained scale set take jobs again",
			Long:    `Removes the annotation actions.github.com/drained from the scale set, and waits until its manager has seen that.`,
			Example: example("kubectl harrier resume my-set -n my-runners"),
		}),
	}
	// those of the manager's commands that ask no cluster, with the same flags, code and texts
	for i := range commands.Offline {
		of, flags := &commands.Offline[i], flag.NewFlagSet(commands.Offline[i].Name, flag.ContinueOnError)
		command, run := &cobra.Command{Use: of.Name + " -f FILE", Short: of.Short, Long: of.Long,
			Example: example(of.Examples("kubectl harrier")...)}, of.Prepare(flags)
		command.Flags().AddGoFlagSet(flags)
		command.RunE = func(command *cobra.Command, arguments []string) error {
			return run(command.Context(), arguments, streams.Out, streams.Err)
		}
		all = append(all, command)
	}
	return all
}

// example indents examples as cobra shows them, a line each.
func example(lines ...string) string { return "  " + strings.Join(lines, "\n  ") }

func topCommand(streams Streams, terminal io.Writer) *cobra.Command {
	access, options := &connection{}, top.Options{}
	command := &cobra.Command{
		Use: "top", Short: "Show scale sets and what limits each, live", Args: cobra.NoArgs,
		Long: `Shows a line for each scale set: runners with a job (BUSY), without one (IDLE) and not up yet (PEND); jobs that GitHub has assigned to it
(JOBS) and those of them that no runner has (WAIT); the numbers in force (MIN, MAX); and what keeps it from running more jobs. Below them are the ten jobs
that have waited longest, as far as their names are known: after five seconds, within half a minute.

On a terminal the table is redrawn in place; q or Ctrl-C quits. Elsewhere a line is added whenever a scale set has changed.`,
		Example: example("kubectl harrier top", "kubectl harrier top -A --sort-by waiting",
			"kubectl harrier top -n my-runners --once -o json"),
		RunE: func(command *cobra.Command, _ []string) error {
			if err := output.CheckFormat(options.Format); err != nil {
				return err
			}
			if !slices.Contains(top.Orders, options.Order) {
				return fmt.Errorf("--sort-by %q is unknown; use %s", options.Order, strings.Join(top.Orders, ", "))
			}
			connected, namespace, err := access.watching()
			if err != nil {
				return err
			}
			options.Namespace = namespace
			if screen := top.TerminalOf(streams.In, terminal); screen != nil {
				options.Screen = screen
			}
			return top.Run(command.Context(), connected, options, streams.Out)
		},
	}
	command.Flags().BoolVar(&options.Once, "once", false, "show the table once")
	command.Flags().StringVar(&options.Order, "sort-by", top.Orders[0],
		strings.Join(top.Orders, ", ")+": the greatest number first")
	completeWith(command, "sort-by", top.Orders)
	access.addFlags(command.Flags(), "scale sets")
	addOutput(command, &options.Format)
	return command
}

func whyCommand(streams Streams) *cobra.Command {
	access, ledgers, options := &connection{}, &past{}, why.Options{}
	command := &cobra.Command{
		Use: "why [JOB-ID|RUN-ID|RUN-URL|RUNNER|POD]", Short: "Tell what became of a job, and why it waits or was lost",
		Args: cobra.MaximumNArgs(1),
		Long: `Tells of each job that is meant how far it is, what it waited for and how long, where it ran, why it waits or what it was lost to, whether it
is run again, what to do next, and whose step that is. It reads runners, pods, Events and scale sets; whoever may only read pods is told what these know.
A runner is removed some seconds after its job; what was before that, the ledger of jobs knows (history.enabled of the controller's chart), if it can be asked.

Without an argument it tells of the jobs that have waited longest for a runner, at most 20. Without -n it looks in all namespaces or, as far as you may
not, in that of the kubeconfig's context. A job that waits is known after five seconds, within half a minute.`,
		Example: example("kubectl harrier why", "kubectl harrier why https://github.com/my-org/my-app/actions/runs/1234567890",
			"kubectl harrier why 1234567890 -n my-runners",
			"kubectl harrier why pod/my-runners-x7k2p-runner-8fzqd -o json",
			"kubectl harrier why 1234567890 --history-url http://localhost:8090"),
		RunE: func(command *cobra.Command, arguments []string) error {
			var err error
			if options.Ledger, err = ledgers.open(access); err != nil {
				return err
			}
			return access.examine(command.Context(), options.Format,
				func(ctx context.Context, cluster snapshot.Cluster, namespace string) error {
					options.Namespace, options.Everywhere = namespace, access.overrides.Context.Namespace == ""
					options.Longest = len(arguments) == 0
					return why.Run(ctx, cluster, strings.Join(arguments, ""), options, streams.Out)
				})
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	access.addFlags(command.Flags(), "")
	ledgers.addFlags(command.Flags())
	addOutput(command, &options.Format)
	return command
}

func reportCommand(streams Streams) *cobra.Command {
	access, ledgers, options := &connection{}, &past{}, report.Options{}
	command := &cobra.Command{
		Use: "report", Short: "Tell who has used how much, and which jobs request more than they use",
		Args: cobra.NoArgs,
		Long: `Tells what jobs that have finished come to: how many, how they ended, hours, requested CPU and memory, how long they waited on average and
for what most, and what they cost if prices are set. With --waits, how long half of them and 95 of 100 waited for each phase; with --right-sizing, what each
job of a workflow uses of what it requests, and what fitting requests would save; with --budgets, what is spent of a month's budgets; with --trends, how jobs ended, ran and waited over time; with --changes, what
got slower, fails more or waits longer than in the weeks before, by more than chance explains. It asks the ledger of jobs (history.enabled of the controller's chart), and changes nothing.

The ledger is that of the controller's own release, and asked by a port that is forwarded to its pod; that needs the right to create pods/portforward of it.`,
		Example: example("kubectl harrier report --since 7d",
			"kubectl harrier report --by workflow --since 30d -o csv >usage.csv",
			"kubectl harrier report --waits --by set --since 24h",
			"kubectl harrier report --right-sizing -n my-runners",
			"kubectl harrier report --budgets --month 2026-03",
			"kubectl harrier report --changes",
			"kubectl harrier report --trends --by branch --repository my-org/my-app --every week --since 90d",
			"kubectl harrier report --by set --history-url http://localhost:8090 -o json"),
		RunE: func(command *cobra.Command, _ []string) error {
			if err := output.CheckFormat(options.Format, output.CSV); err != nil {
				return err
			}
			if err := checkReport(&options); err != nil {
				return err
			}
			if (options.Waits || options.Trends) && !command.Flags().Changed("by") {
				options.By = "" // of all jobs together
			}
			open, err := ledgers.open(access)
			if err != nil {
				return err
			}
			ctx, stop := context.WithTimeout(command.Context(), longestAnswer)
			defer stop()
			from, err := open(ctx)
			if err != nil {
				return err
			}
			options.Namespace = access.overrides.Context.Namespace
			return report.Run(ctx, from, options, streams.Out, streams.Err)
		},
	}
	flags := command.Flags()
	groups := append(slices.Clone(report.Groups), report.TrendGroups[4:]...)
	flags.StringVar(&options.By, "by", report.Groups[0], strings.Join(groups, ", ")+": what is added up; the last two with --trends, which has no day")
	completeWith(command, "by", groups)
	flags.StringVar(&options.Since, "since", "30d",
		"how long ago, such as 24h or 30d, or a time such as 2026-03-04T12:00:00Z")
	flags.StringVar(&options.Repository, "repository", "", "jobs of this repository only: OWNER/REPO")
	flags.StringVar(&options.Workflow, "workflow", "", "jobs of this workflow only: OWNER/REPO/.github/workflows/FILE")
	flags.StringVar(&options.Set, "set", "", "jobs of this scale set only")
	flags.BoolVar(&options.Waits, "waits", false, "what jobs waited for and how long, of all together or --by")
	flags.BoolVar(&options.RightSizing, "right-sizing", false, "what each job of a workflow uses of what it requests")
	flags.BoolVar(&options.Budgets, "budgets", false,
		"what is spent of the month's budgets (history.budgets of the controller's chart)")
	flags.StringVar(&options.Month, "month", "", "with --budgets, another month than this one, such as 2026-03")
	flags.BoolVar(&options.Trends, "trends", false, "how jobs ended, ran and waited, of all together or --by, over time with --every")
	flags.BoolVar(&options.Changes, "changes", false, "what was worse in the last seven days than in the 21 days before")
	flags.StringVar(&options.Every, "every", rows.EveryAll, "with --trends: "+strings.Join(report.Everies, ", "))
	completeWith(command, "every", report.Everies)
	flags.StringVar(&options.Branch, "branch", "", "with --trends: jobs of this branch only, or of \"(pull requests)\"")
	flags.StringVar(&options.Event, "event", "", "with --trends: jobs of this event only, such as push")
	flags.IntVar(&options.Limit, "limit", 0, "rows of a page, with --waits and --trends groups, at most 1000; 0: the 1000 largest, and one for all others")
	flags.StringVar(&options.After, "after", "", "where a page begins: what the page before has named")
	command.MarkFlagsMutuallyExclusive("by", "right-sizing")
	command.MarkFlagsMutuallyExclusive("by", "changes")
	command.MarkFlagsMutuallyExclusive("waits", "right-sizing", "budgets", "trends", "changes")
	for _, other := range []string{"by", "since", "workflow", "set", "limit", "after"} {
		command.MarkFlagsMutuallyExclusive("budgets", other)
	}
	access.addFlags(flags, "")
	flags.Lookup("namespace").Usage = "jobs of runners in this namespace only; empty: in all"
	ledgers.addFlags(flags)
	addOutput(command, &options.Format, output.CSV)
	return command
}

// checkReport returns an error if there is no such report.
func checkReport(options *report.Options) error {
	groups := report.Groups
	if options.Trends {
		groups = report.TrendGroups
	}
	switch {
	case !slices.Contains(groups, options.By):
		return fmt.Errorf("--by %q is unknown; use %s", options.By, strings.Join(groups, ", "))
	case !slices.Contains(report.Everies, options.Every):
		return fmt.Errorf("--every %q is unknown; use %s", options.Every, strings.Join(report.Everies, ", "))
	case !options.Trends && (options.Branch != "" || options.Event != ""):
		return errors.New("--branch and --event are for --trends")
	case options.Limit < 0 || options.Limit > 1000:
		return fmt.Errorf("--limit %d must be from 0 to 1000", options.Limit)
	case options.Month != "" && !options.Budgets:
		return errors.New("--month is for --budgets; use --since")
	}
	return nil
}

func drainOrResume(streams Streams, drains bool, command *cobra.Command) *cobra.Command {
	access, options := &connection{}, drain.Options{Drain: drains}
	command.Args = cobra.ExactArgs(1)
	command.RunE = func(command *cobra.Command, arguments []string) error {
		if err := output.CheckFormat(options.Format); err != nil {
			return err
		}
		if options.Timeout < 0 {
			return fmt.Errorf("--timeout %s is negative; use 0 to wait without a limit", options.Timeout)
		}
		connected, namespace, err := access.watching()
		if err != nil {
			return err
		}
		options.Set = client.ObjectKey{Namespace: namespace, Name: withoutKind(arguments[0])}
		return drain.Run(command.Context(), connected, options, streams.Out, streams.Err)
	}
	command.ValidArgsFunction = completeSets(access)
	command.Flags().BoolVar(&options.Wait, "wait", true, "wait, with progress on standard error")
	command.Flags().DurationVar(&options.Timeout, "timeout", 0, "how long to wait, such as 30m; 0: without a limit")
	access.addFlags(command.Flags(), "")
	addOutput(command, &options.Format)
	return command
}

// withoutKind takes TYPE/NAME as well, as kubectl get -o name prints it.
func withoutKind(name string) string {
	if kind, rest, found := strings.Cut(name, "/"); found &&
		slices.Contains([]string{"ars", "autoscalingrunnerset", "autoscalingrunnersets",
			"autoscalingrunnerset.actions.github.com", "autoscalingrunnersets.actions.github.com"}, kind) {
		return rest
	}
	return name
}

func doctorCommand(streams Streams) *cobra.Command {
	access, options := &connection{}, doctor.Options{}
	command := &cobra.Command{
		Use: "doctor [SET]", Short: "Explain why jobs wait: the doctor of docs/doctor.md",
		Args: cobra.MaximumNArgs(1),
		Long: `Lists what may keep jobs waiting, the most likely cause first, each with what to do about it. It is the same as manager doctor, for the
namespace of the kubeconfig's context unless -n or -A is given.`,
		Example: example("kubectl harrier doctor -n my-runners my-set", "kubectl harrier doctor -A -o json"),
		RunE: func(command *cobra.Command, arguments []string) error {
			return access.examine(command.Context(), options.Output,
				func(ctx context.Context, cluster snapshot.Cluster, namespace string) error {
					options.Namespace = namespace
					if len(arguments) > 0 {
						options.Name = withoutKind(arguments[0])
					}
					return doctor.Run(ctx, cluster, options, streams.Out)
				})
		},
		ValidArgsFunction: completeSets(access),
	}
	access.addFlags(command.Flags(), "scale sets")
	addOutput(command, &options.Output)
	return command
}

func checkCommand(streams Streams) *cobra.Command {
	access, options := &connection{}, check.Options{}
	command := &cobra.Command{
		Use: "check [RELEASE] -f FILE", Short: "Try values on the cluster and on GitHub before they are installed",
		Args: cobra.MaximumNArgs(1),
		Long: `Renders values of one of the charts as Helm would, and sends what comes of them to the API server as dry runs, so that nothing stays behind: each
object, a pod of each workload, the runner's pod, the job's pod of the kubernetes modes, volume claims and ResourceClaims with their classes. It asks GitHub with
the credentials, the address and the proxy of the values. Each line of the list says what came of it, and whose step it is.

Everything is asked with your permissions, and from your machine: run it as whoever installs. A namespace that doesn't exist yet can't be tried; pods are tried in
namespace default instead, or in the one that --try-in names. A policy that decides by who makes a pod may decide otherwise for the manager.`,
		Example: example("kubectl harrier check my-runners -f values.yaml -n my-runners",
			"kubectl harrier check -f values.yaml --set containerMode.type=dind -n my-runners -o json",
			"kubectl harrier check arc -f values.yaml --chart gha-runner-scale-set-controller -n arc-systems --skip-github"),
		RunE: func(command *cobra.Command, arguments []string) error {
			if err := output.CheckFormat(options.Format); err != nil {
				return err
			}
			if !slices.Contains([]string{"", charts.ScaleSet, charts.Controller}, options.Chart) {
				return fmt.Errorf("--chart %q is unknown; use %s or %s", options.Chart, charts.ScaleSet, charts.Controller)
			}
			if len(arguments) > 0 {
				options.Release = arguments[0]
			}
			config, namespace, err := access.find()
			if err != nil {
				return err
			}
			// Charts render kinds that no table of ours has, so this client asks the API server which there are.
			cluster, err := client.New(config, client.Options{Scheme: kinds.Scheme()})
			if err != nil {
				return fmt.Errorf("connect to the API server: %w", err)
			}
			options.Namespace = namespace
			ctx, stop := context.WithTimeout(command.Context(), longestAnswer)
			defer stop()
			return check.Run(ctx, cluster, options, streams.Out)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := command.Flags()
	flags.StringArrayVarP(&options.Files, "values", "f", nil, "file of values, -: standard input; may be repeated: later ones win")
	flags.StringArrayVar(&options.Set, "set", nil, "values on the command line, as Helm's --set")
	flags.StringVar(&options.Chart, "chart", "", "chart of the values; empty: gha-runner-scale-set if they have a "+
		"githubConfigUrl or githubConfigSecret, else gha-runner-scale-set-controller")
	flags.StringVar(&options.TryIn, "try-in", "default", "namespace in which everything is tried while that of -n doesn't exist")
	flags.StringArrayVar(&options.AllowedURLs, addresses.Flag, nil, "address that the controller allows scale sets (its "+
		"flags.allowedGitHubURLs); may be repeated")
	flags.BoolVar(&options.WithoutGitHub, "skip-github", false, "don't ask GitHub")
	access.addFlags(flags, "")
	addOutput(command, &options.Format)
	return command
}
