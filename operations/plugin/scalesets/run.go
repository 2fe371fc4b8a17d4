package scalesets

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/output"
)

// Options say which address of GitHub is asked, with which credentials, and what is done there.
type Options struct {
	// Address is the organization, repository or enterprise; empty means that of Set.
	Address string
	// Token is the caller's own. Without it the credentials are those of Secret, or of Set with its proxy and
	// authorities, in Namespace.
	Token, Secret, Set string
	Namespace          string
	// Delete is the id or name of the scale set to delete, empty to list; Yes is set if that is confirmed already.
	Delete string
	Yes    bool
	Format string
	// Unreachable is why there is no cluster to read; nil if there is one.
	Unreachable error
}

// Run lists the scale sets, or deletes one. In is asked for the confirmation, notes are for people.
func Run(ctx context.Context, cluster client.Reader, options Options, in io.Reader, answer, notes io.Writer) error {
	github, address, err := connect(ctx, cluster, options)
	if err != nil {
		return err
	}
	defer github.Close()
	told, err := read(ctx, github, cluster, address, options.Unreachable)
	if err != nil {
		return err
	}
	if options.Delete != "" {
		return remove(ctx, github, told, options.Delete, options.Yes, in, notes)
	}
	return write(answer, notes, told, options.Format)
}

// connect returns a client of the address, with the credentials that the options name. What the caller may read of the
// cluster decides, and nobody's rights but his own are used.
func connect(ctx context.Context, cluster client.Reader, options Options) (*actions.Client, string, error) {
	reference := credentials.Reference{Namespace: options.Namespace, GitHubConfigURL: options.Address,
		GitHubConfigSecret: options.Secret}
	if options.Token == "" && options.Unreachable != nil {
		return nil, "", options.Unreachable
	}
	if options.Set != "" {
		set := &v1alpha1.AutoscalingRunnerSet{}
		err := cluster.Get(ctx, client.ObjectKey{Namespace: options.Namespace, Name: options.Set}, set)
		if err != nil {
			return nil, "", fmt.Errorf("read AutoscalingRunnerSet %s/%s: %w", options.Namespace, options.Set, err)
		}
		reference = credentials.ForAutoscalingRunnerSet(set)
		if options.Address != "" {
			reference.GitHubConfigURL = options.Address
		}
	}
	if options.Token != "" {
		github, err := actions.NewClient(reference.GitHubConfigURL, actions.Credentials{Token: options.Token},
			actions.Options{})
		return github, reference.GitHubConfigURL, err
	}
	github, err := credentials.New(cluster, credentials.Options{}).Client(ctx, reference)
	if apierrors.IsForbidden(err) {
		err = fmt.Errorf("%w; without the right to read that Secret use a token of your own: GITHUB_TOKEN", err)
	}
	return github, reference.GitHubConfigURL, err
}

// write writes the answer as a table or as JSON.
func write(to, notes io.Writer, told document, format string) error {
	if format == output.JSON {
		return output.WriteJSON(to, told, true)
	}
	if told.Unseen != "" {
		fmt.Fprintf(notes, "Note: %s.\n", output.Clean(told.Unseen))
	}
	if len(told.ScaleSets) == 0 {
		_, err := fmt.Fprintf(to, "GitHub has no scale sets at %s.\n", output.Clean(told.Address))
		return err
	}
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tNAME\tGROUP\tLABELS\tCREATED\tJOBS\tRUNNERS\tHELD BY")
	for _, row := range told.ScaleSets {
		holder := "nobody here"
		switch {
		case len(row.HeldBy) > 0:
			holder = strings.Join(row.HeldBy, ", ")
		case told.Unseen != "":
			holder = "unknown"
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%d\t%d\t%s\n", row.ID, output.Cell(row.Name), output.Cell(row.Group),
			output.Cell(strings.Join(row.Labels, ",")), row.CreatedOn, row.Jobs, row.Registered, output.Cell(holder))
	}
	return table.Flush()
}
