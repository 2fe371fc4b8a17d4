package scrape

import (
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/harrier-ci/harrier/hack/dashboards"
	"github.com/harrier-ci/harrier/test/rig"
)

func boards(t *testing.T) []dashboards.Board {
	t.Helper()
	found, err := dashboards.Load(chart + "/dashboards")
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// empty are parts of queries about faults, which find nothing while all is well, about the ledger, which the rig's
// installation lacks, and about claims of which the set has none, or of which nobody has told how full they are.
var empty = []string{
	"gha_listener_dropped_reports_total", "gha_controller_scale_set_trouble",
	`gha_controller_runners{state="pending", reason!=""`, "gha_history_",
	"gha_controller_snapshot_", "gha_controller_newest_snapshot_", "gha_controller_volume_claims_used_ratio",
}

// askAll has Prometheus answer all queries of the dashboards, each for the default set, after their metrics were
// scraped. A rate needs two scrapes.
func (p *observer) askAll(t *testing.T, namespace string) {
	t.Helper()
	variables := map[string]string{"__rate_interval": "1m", "name": rig.DefaultSet, "namespace": namespace}
	var queries []string
	for _, board := range boards(t) {
		for _, panel := range board.Panels {
			for _, target := range panel.Targets {
				queries = append(queries, dashboards.Resolve(target.Expr, variables))
			}
		}
	}
	NewWithT(t).Eventually(func() ([]string, error) { return p.unanswered(queries) }).WithTimeout(rig.Patience).
		WithPolling(time.Second).
		Should(BeEmpty(), "queries that find no series")
}

// unanswered returns the queries that find nothing, but should find something.
func (p *observer) unanswered(queries []string) (unanswered []string, err error) {
	for _, query := range queries {
		found, err := p.Query(query)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 && !slices.ContainsFunc(empty, func(part string) bool {
			return strings.Contains(query, part)
		}) {
			unanswered = append(unanswered, query)
		}
	}
	return unanswered, nil
}
