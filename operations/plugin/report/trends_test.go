package report_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/internal/output"
	"github.com/harrier-ci/harrier/operations/plugin/report"
)

const trendRows = `[
{"repository":"acme/app","branch":"main","every":"all","from":"2026-03-02T00:00:00Z","to":"2026-03-04T00:00:00Z","jobs":30,"succeeded":24,"failed":4,"lost":2,
 "runSecondsP50":300,"runSecondsP95":620,"waitSecondsP50":12,"waitSecondsP95":95},
{"repository":"acme/app","branch":"main","every":"day","from":"2026-03-02T00:00:00Z","to":"2026-03-03T00:00:00Z","jobs":10,"failed":4},
{"repository":"acme/app","branch":"main","every":"day","from":"2026-03-03T00:00:00Z","to":"2026-03-04T00:00:00Z","jobs":20,"lost":2,"runSecondsP50":300}]`

func TestTrends(t *testing.T) {
	said, _, asked, err := asking(t, map[string]string{"trends": trendRows},
		report.Options{Trends: true, By: "branch", Every: "all", Since: "30d", Event: "push", Format: output.Text})
	const want = `How jobs that have finished ended, ran and waited since 30d ago, from the ledger at LEDGER:

REPOSITORY  BRANCH  JOBS  FAILED  LOST  RAN P50     P95  WAITED P50    P95
acme/app    main      30       4     2    5m00s  10m20s         12s  1m35s
`
	if diff := cmp.Diff(want, said); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if asked[0] != "/api/v1/trends?by=branch&event=push&every=all&from=30d" {
		t.Errorf("asked %q", asked)
	}
	said, _, _, err = asking(t, map[string]string{"trends": trendRows},
		report.Options{Trends: true, By: "branch", Every: "day", Format: output.CSV})
	const table = `repository,branch,from,jobs,succeeded,failed,canceled,lost,runSecondsP50,runSecondsP95,waitSecondsP50,waitSecondsP95
acme/app,main,2026-03-02T00:00:00Z,10,0,4,0,0,,,,
acme/app,main,2026-03-03T00:00:00Z,20,0,0,0,2,300,,,
`
	if diff := cmp.Diff(table, said); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestWhatGotWorse(t *testing.T) {
	const changes = `[
{"repository":"acme/app","workflow":"acme/app/.github/workflows/ci.yml","name":"test","event":"push","what":"Slower","before":300,"after":450,"jobsBefore":210,"jobsAfter":70},
{"repository":"acme/app","workflow":"acme/app/.github/workflows/ci.yml","name":"\u001b[2Jlint","event":"push","what":"FailsMore","before":2,"after":12.34,"jobsBefore":210,"jobsAfter":70},
{"namespace":"n","set":"linux","what":"WaitsLonger","before":30,"after":400,"jobsBefore":900,"jobsAfter":300}]`
	said, _, asked, err := asking(t, map[string]string{"changes": changes},
		report.Options{Changes: true, Since: "30d", By: "repository", Format: output.Text})
	for _, line := range []string{"slower", "5m00s", "7m30s", "fails more", "2.0 %", "12.3 %", "waits longer", "n/linux", "6m40s"} {
		if err != nil || !strings.Contains(said, line) || strings.ContainsRune(said, '\x1b') {
			t.Errorf("lacks %q, %v:\n%s", line, err, said)
		}
	}
	if asked[0] != "/api/v1/changes" {
		t.Errorf("asked %q", asked)
	}
	said, _, _, err = asking(t, map[string]string{"changes": changes}, report.Options{Changes: true, Format: output.JSON})
	var told struct{ Rows []struct{ What string } }
	if err != nil || json.Unmarshal([]byte(said), &told) != nil || len(told.Rows) != 3 || told.Rows[2].What != "WaitsLonger" {
		t.Errorf("%v: %s", err, said)
	}
	said, _, _, err = asking(t, map[string]string{"changes": "[]"}, report.Options{Changes: true, Format: output.Text})
	if err != nil || !strings.Contains(said, "Nothing got worse") {
		t.Errorf("%v: %s", err, said)
	}
}
