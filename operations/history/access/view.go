package access

import (
	"context"
	"net/http"
	"time"

	"github.com/harrier-ci/harrier/operations/history/ledger"
	"github.com/harrier-ci/harrier/operations/history/prices"
)

// View is the ledger as the request of a context may see it: nothing without a grant.
type View struct {
	Ledger Reader
	// Cluster is the name of this cluster in the ledger.
	Cluster string
}

// narrow has a filter choose nothing that the request may not see.
func (v *View) narrow(ctx context.Context, filter *ledger.Filter) error {
	g, granted := ctx.Value(key{}).(*grant)
	switch {
	case !granted:
		return &RefusedError{http.StatusForbidden, "nobody says who asks"}
	case g.everything:
		return nil
	case g.allNamespaces:
		filter.Cluster = v.Cluster
		return nil
	case g.namespace == "":
		return &RefusedError{http.StatusForbidden, "you may not see all namespaces: choose one by namespace=NAME, in which you " +
			"may get autoscalingrunnersets"}
	}
	filter.Cluster, filter.Namespace = v.Cluster, g.namespace
	return nil
}

// Jobs is the ledger's, of what may be seen.
func (v *View) Jobs(ctx context.Context, filter ledger.Filter) (ledger.Page, error) {
	if err := v.narrow(ctx, &filter); err != nil {
		return ledger.Page{}, err
	}
	return v.Ledger.Jobs(ctx, filter)
}

// Job is the ledger's, if the job may be seen. Its namespace is then that of the request.
func (v *View) Job(ctx context.Context, runnerUID string) (ledger.Job, error) {
	g, granted := ctx.Value(key{}).(*grant)
	if !granted {
		return ledger.Job{}, v.narrow(ctx, &ledger.Filter{})
	}
	job, err := v.Ledger.Job(ctx, runnerUID)
	if err != nil || g.everything {
		return job, err
	}
	may := job.Cluster == v.Cluster && (g.allNamespaces || job.Namespace == g.namespace)
	if job.Cluster == v.Cluster && !may && g.namespace == "" {
		if may, err = g.may(ctx, job.Namespace); err != nil {
			return ledger.Job{}, err
		}
		g.namespace = job.Namespace
	}
	if !may {
		return ledger.Job{}, ledger.ErrNoJob
	}
	return job, nil
}

// UsageBy is the ledger's, of what may be seen.
func (v *View) UsageBy(ctx context.Context, by ledger.By, filter ledger.Filter, prices ledger.Prices,
) ([]ledger.Usage, error) {
	if err := v.narrow(ctx, &filter); err != nil {
		return nil, err
	}
	return v.Ledger.UsageBy(ctx, by, filter, prices)
}

// Usage is the ledger's, of what may be seen.
func (v *View) Usage(ctx context.Context, by ledger.By, filter ledger.Filter, prices ledger.Prices,
) (ledger.Part[ledger.Usage], error) {
	if err := v.narrow(ctx, &filter); err != nil {
		return ledger.Part[ledger.Usage]{}, err
	}
	return v.Ledger.Usage(ctx, by, filter, prices)
}

// WaitsBy is the ledger's, of what may be seen.
func (v *View) WaitsBy(ctx context.Context, by ledger.By, filter ledger.Filter) (ledger.Part[ledger.Wait], error) {
	if err := v.narrow(ctx, &filter); err != nil {
		return ledger.Part[ledger.Wait]{}, err
	}
	return v.Ledger.WaitsBy(ctx, by, filter)
}

// Trends is the ledger's, of what may be seen.
func (v *View) Trends(ctx context.Context, by ledger.By, every string, filter ledger.Filter) (ledger.Part[ledger.Trend], error) {
	if err := v.narrow(ctx, &filter); err != nil {
		return ledger.Part[ledger.Trend]{}, err
	}
	return v.Ledger.Trends(ctx, by, every, filter)
}

// Changes is the ledger's, of what may be seen.
func (v *View) Changes(ctx context.Context, filter ledger.Filter) ([]ledger.Change, error) {
	if err := v.narrow(ctx, &filter); err != nil {
		return nil, err
	}
	return v.Ledger.Changes(ctx, filter)
}

// Sizes is the ledger's, of what may be seen.
func (v *View) Sizes(ctx context.Context, filter ledger.Filter, prices ledger.Prices) (ledger.Part[ledger.Size], error) {
	if err := v.narrow(ctx, &filter); err != nil {
		return ledger.Part[ledger.Size]{}, err
	}
	return v.Ledger.Sizes(ctx, filter, prices)
}

// Samples is the ledger's, of what may be seen.
func (v *View) Samples(ctx context.Context, filter ledger.Filter) (ledger.Part[ledger.Sample], error) {
	if err := v.narrow(ctx, &filter); err != nil {
		return ledger.Part[ledger.Sample]{}, err
	}
	return v.Ledger.Samples(ctx, filter)
}

// Sets is the ledger's, of what may be seen.
func (v *View) Sets(ctx context.Context, filter ledger.Filter) ([]ledger.Sample, error) {
	if err := v.narrow(ctx, &filter); err != nil {
		return nil, err
	}
	return v.Ledger.Sets(ctx, filter)
}

// Gaps is the ledger's, of what may be seen: they have no namespaces.
func (v *View) Gaps(ctx context.Context, filter ledger.Filter) (ledger.Part[ledger.Gap], error) {
	if err := v.narrow(ctx, &filter); err != nil {
		return ledger.Part[ledger.Gap]{}, err
	}
	return v.Ledger.Gaps(ctx, filter)
}

// Machines is the ledger's, of what may be seen.
func (v *View) Machines(ctx context.Context, filter ledger.Filter, rules ledger.Prices) (ledger.Part[ledger.Machine], error) {
	if err := v.narrow(ctx, &filter); err != nil {
		return ledger.Part[ledger.Machine]{}, err
	}
	return v.Ledger.Machines(ctx, filter, rules)
}

// Spending is the ledger's, of what may be seen. Budgets are those of this cluster, whoever shares the database: who may
// see one namespace sees its budget, and none of a repository, which has jobs in others.
func (v *View) Spending(ctx context.Context, budgets []prices.Budget, month time.Time, filter ledger.Filter,
	rules ledger.Prices) ([]ledger.Spending, error) {
	if err := v.narrow(ctx, &filter); err != nil {
		return nil, err
	}
	if filter.Cluster != "" && filter.Cluster != v.Cluster {
		return []ledger.Spending{}, nil
	}
	filter.Cluster = v.Cluster
	return v.Ledger.Spending(ctx, budgets, month, filter, rules)
}
