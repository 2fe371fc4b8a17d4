// Package scalesets tells which scale sets GitHub has at an address, and which of them no AutoscalingRunnerSet of the
// cluster holds; and deletes one that nobody holds. People are left with such scale sets when a cluster is gone.
//
//	GitHub's list ─┐
//	               ├─▶ rows: who holds which ─▶ table, JSON
//	the cluster's ─┘          └─▶ deletion: asked for, and refused while somebody holds it
package scalesets

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
)

// GitHub is what is asked of GitHub, at one address.
type GitHub interface {
	ListRunnerScaleSets(ctx context.Context) ([]actions.RunnerScaleSet, error)
	GetRunnerScaleSetByID(ctx context.Context, id int) (*actions.RunnerScaleSet, error)
	CreateSession(ctx context.Context, id int, owner string) (*actions.Session, error)
	DeleteRunnerScaleSet(ctx context.Context, id int) error
}

// Row is a scale set of GitHub's, and who holds it.
type Row struct {
	ID         int      `json:"id"`
	Name       string   `json:"name"`
	Group      string   `json:"group,omitempty"`
	Labels     []string `json:"labels,omitempty"`
	CreatedOn  string   `json:"createdOn,omitempty"`
	Jobs       int      `json:"assignedJobs"`
	Registered int      `json:"registeredRunners"`
	// HeldBy are AutoscalingRunnerSets of the cluster, as NAMESPACE/NAME.
	HeldBy []string `json:"heldBy,omitempty"`
}

// document is the answer as JSON.
type document struct {
	Address string `json:"address"`
	// Unseen is why not all AutoscalingRunnerSets of the cluster are known, so that heldBy may lack some.
	Unseen    string `json:"unseen,omitempty"`
	ScaleSets []Row  `json:"scaleSets"`
}

// read returns the document about an address, by id.
func read(
	ctx context.Context, github GitHub, cluster client.Reader, address string, unreachable error,
) (document, error) {
	found, err := github.ListRunnerScaleSets(ctx)
	if err != nil {
		return document{}, fmt.Errorf("list the scale sets of %s: %w", address, err)
	}
	told := document{Address: address, ScaleSets: []Row{}}
	var holders map[int][]string
	if err = unreachable; err == nil {
		holders, err = holdersOf(ctx, cluster, address)
	}
	if err != nil {
		told.Unseen = err.Error()
	}
	for i := range found {
		told.ScaleSets = append(told.ScaleSets, rowOf(&found[i], holders))
	}
	slices.SortFunc(told.ScaleSets, func(a, b Row) int { return a.ID - b.ID })
	return told, nil
}

func rowOf(set *actions.RunnerScaleSet, holders map[int][]string) Row {
	row := Row{ID: set.ID, Name: set.Name, Group: set.RunnerGroupName, HeldBy: holders[set.ID]}
	for _, label := range set.Labels {
		row.Labels = append(row.Labels, label.Name)
	}
	if !set.CreatedOn.IsZero() {
		row.CreatedOn = set.CreatedOn.UTC().Format("2006-01-02")
	}
	if set.Statistics != nil {
		row.Jobs, row.Registered = set.Statistics.TotalAssignedJobs, set.Statistics.TotalRegisteredRunners
	}
	return row
}

// holdersOf returns the AutoscalingRunnerSets that name a scale set of the address as theirs, by its id. Whoever may
// write one can claim what he likes: that shows him, and keeps from nothing but a deletion by this command.
func holdersOf(ctx context.Context, cluster client.Reader, address string) (map[int][]string, error) {
	sets := &v1alpha1.AutoscalingRunnerSetList{}
	err := cluster.List(ctx, sets)
	if apierrors.IsNotFound(err) {
		return nil, nil // a cluster without the kind has none
	}
	if err != nil {
		return nil, fmt.Errorf("the cluster's AutoscalingRunnerSets could not be read, so it is not known which of "+
			"them holds a scale set: %w; ask for the right to list them in all namespaces", err)
	}
	holders := map[int][]string{}
	for i := range sets.Items {
		set := &sets.Items[i]
		for _, id := range idsOf(set, address) {
			holders[id] = append(holders[id], set.Namespace+"/"+set.Name)
		}
	}
	return holders, nil
}

// idsOf returns the scale sets of the address that a set has, or may still have: an address that was changed a moment
// ago is in the status only.
func idsOf(set *v1alpha1.AutoscalingRunnerSet, address string) (ids []int) {
	if id, err := strconv.Atoi(set.Annotations[v1alpha1.AnnotationRunnerScaleSetID]); err == nil && id > 0 &&
		same(set.Spec.GitHubConfigUrl, address) {
		ids = append(ids, id)
	}
	if known := set.Status.Registration; known != nil && known.ID > 0 && same(known.URL, address) {
		ids = append(ids, known.ID)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// same reports whether two config URLs are the same place on GitHub.
func same(one, other string) bool {
	a, errOfOne := actions.ParseConfigURL(one)
	b, errOfOther := actions.ParseConfigURL(other)
	return errors.Join(errOfOne, errOfOther) == nil && strings.EqualFold(a.String(), b.String())
}
