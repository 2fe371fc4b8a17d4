package access_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/operations/history/ledger"
)

// TestBudgetsAreSeenByThoseWhoMaySeeAllThatTheyAreAbout: one of a namespace by whoever may see that, one of a repository by
// whoever may see all namespaces; and none counts the jobs of another cluster.
func TestBudgetsAreSeenByThoseWhoMaySeeAllThatTheyAreAbout(t *testing.T) {
	handler := open(t, &apiServer{}, nil)
	everything := map[string]float64{"namespace a": 1, "namespace b": 1, "acme/a-here": 1, "acme/a-there": 0}
	for _, test := range []struct {
		user, query string
		status      int
		want        map[string]float64
	}{
		{"alice", "?namespace=a", http.StatusOK, map[string]float64{"namespace a": 1}},
		{"alice", "?namespace=b", http.StatusForbidden, nil},
		{"alice", "", http.StatusForbidden, nil},
		{"alice", "?namespace=a&repository=acme/a-here", http.StatusOK, map[string]float64{}},
		{"ops", "", http.StatusOK, everything},
		{"ops", "?repository=acme/a-here", http.StatusOK, map[string]float64{"acme/a-here": 1}},
		{"ops", "?month=2026-02", http.StatusOK, map[string]float64{"namespace a": 0, "namespace b": 0, "acme/a-here": 0, "acme/a-there": 0}},
		{"boss", "", http.StatusOK, everything},
		{"boss", "?cluster=there", http.StatusOK, map[string]float64{}},
	} {
		answer := ask(handler, "/api/v1/budgets"+test.query, bearer(test.user+"@"+audience))
		if answer.Code != test.status {
			t.Errorf("%s asks for %q: %d: %s", test.user, test.query, answer.Code, answer.Body)
		}
		if test.want == nil {
			continue
		}
		var spending []ledger.Spending
		if err := json.Unmarshal(answer.Body.Bytes(), &spending); err != nil {
			t.Fatalf("%v: %s", err, answer.Body)
		}
		got := map[string]float64{}
		for i := range spending {
			got[spending[i].Of()] = spending[i].Cost
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s asks for %q (-want +got):\n%s", test.user, test.query, diff)
		}
	}
}
