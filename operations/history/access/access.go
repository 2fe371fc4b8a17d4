// Package access says who asks the ledger where it is open to the network, and what he may see of it. A user is known by
// a token of the ledger's own audience, or by the header of a proxy that proves itself. He sees the rows of this cluster
// whose namespaces he may read scale sets in. Whoever comes by loopback of the pod has the right to forward ports to it,
// and sees everything.
//
//	request ─▶ identity ─▶ rights ─▶ grant ─▶ View of the ledger
package access

import (
	"context"
	"net/http"
	"time"

	"github.com/harrier-ci/harrier/operations/history/ledger"
	"github.com/harrier-ci/harrier/operations/history/prices"
)

// RefusedError says why somebody gets no answer, with the status of HTTP that means it.
type RefusedError struct {
	Status  int
	Message string
}

func (e *RefusedError) Error() string { return e.Message }

// grant is what a request may see. It belongs to one request.
type grant struct {
	// user is empty for whoever comes by loopback.
	user string
	// everything includes other clusters; allNamespaces are those of this cluster.
	everything, allNamespaces bool
	// namespace is the one that the request names, empty if it names none.
	namespace string
	// may reports whether the user may see a namespace of this cluster.
	may func(ctx context.Context, namespace string) (bool, error)
}

type key struct{}

// Loopback grants everything to whoever asks.
func Loopback(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), key{}, &grant{everything: true})))
	})
}

// UserOf returns who asks, empty if it is whoever comes by loopback.
func UserOf(ctx context.Context) string {
	if g, granted := ctx.Value(key{}).(*grant); granted {
		return g.user
	}
	return ""
}

// Reader is what questions need of the ledger.
type Reader interface {
	Jobs(ctx context.Context, filter ledger.Filter) (ledger.Page, error)
	Job(ctx context.Context, runnerUID string) (ledger.Job, error)
	UsageBy(ctx context.Context, by ledger.By, filter ledger.Filter, prices ledger.Prices) ([]ledger.Usage, error)
	Usage(ctx context.Context, by ledger.By, filter ledger.Filter, prices ledger.Prices) (ledger.Part[ledger.Usage], error)
	WaitsBy(ctx context.Context, by ledger.By, filter ledger.Filter) (ledger.Part[ledger.Wait], error)
	Trends(ctx context.Context, by ledger.By, every string, filter ledger.Filter) (ledger.Part[ledger.Trend], error)
	Changes(ctx context.Context, filter ledger.Filter) ([]ledger.Change, error)
	Sizes(ctx context.Context, filter ledger.Filter, prices ledger.Prices) (ledger.Part[ledger.Size], error)
	Samples(ctx context.Context, filter ledger.Filter) (ledger.Part[ledger.Sample], error)
	Sets(ctx context.Context, filter ledger.Filter) ([]ledger.Sample, error)
	Gaps(ctx context.Context, filter ledger.Filter) (ledger.Part[ledger.Gap], error)
	Machines(ctx context.Context, filter ledger.Filter, rules ledger.Prices) (ledger.Part[ledger.Machine], error)
	Spending(ctx context.Context, budgets []prices.Budget, month time.Time, filter ledger.Filter,
		rules ledger.Prices) ([]ledger.Spending, error)
}
