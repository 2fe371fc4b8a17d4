package report_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/internal/output"
	"github.com/harrier-ci/harrier/operations/plugin/report"
)

const budgets = `[
{"repository":"acme/web","month":"2026-03-01T00:00:00Z","perMonth":500,"cost":512.5,"runHours":1000,"unpricedHours":0},
{"namespace":"team\u001b[31m","month":"2026-03-01T00:00:00Z","perMonth":2000,"cost":2.5,"runHours":40,"unpricedHours":39.9}]`

func TestBudgetsForPeople(t *testing.T) {
	said, _, asked, err := asking(t, map[string]string{"budgets": budgets},
		report.Options{Budgets: true, Month: "2026-03", Format: output.Text})
	const want = `What jobs that finished in the month 2026-03 (UTC) have spent of budgets, from the ledger at LEDGER:

BUDGET OF              MONTH   SPENT   BUDGET  USED   HOURS  UNKNOWN
acme/web             2026-03  512.50   500.00  102%  1000.0       0%
namespace team [31m  2026-03    2.50  2000.00   <1%    40.0     >99%

Of 39.9 of 40.0 hours of namespace team [31m (>99%) no price is known; what they cost comes besides.
`
	if diff := cmp.Diff(want, said); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff([]string{"/api/v1/budgets?month=2026-03"}, asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	table, _, _, err := asking(t, map[string]string{"budgets": budgets}, report.Options{Budgets: true, Format: output.CSV})
	if err != nil || !strings.HasPrefix(table, "repository,namespace,month,cost,perMonth,runHours,unpricedHours\nacme/web,,2026-03,512.5,500,1000,0\n") {
		t.Errorf("as CSV it is %s, %v", table, err)
	}
	none, _, _, err := asking(t, nil, report.Options{Budgets: true, Format: output.Text})
	if err != nil || !strings.Contains(none, "No budgets.") || !strings.Contains(none, "history.budgets") || !strings.Contains(none, "this month so far") {
		t.Errorf("without one it says %s, %v", none, err)
	}
}
