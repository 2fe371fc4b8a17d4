package tenant

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/fakegithub"
)

// countingSet is a set of team b whose server has another id for it each time.
const countingSet = "counting"

// counting is a GitHub that finds every scale set, with an id that it never gave before, and changes none.
type counting struct {
	github        http.Handler
	given, denied atomic.Int64
}

// ServeHTTP answers a request.
func (c *counting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	switch {
	case r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/runnerscalesets/"):
		c.denied.Add(1)
		w.WriteHeader(http.StatusBadRequest)
	case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/runnerscalesets") && name != "":
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"count": 1, "value": []any{map[string]any{
			"id": c.given.Add(1), "name": name, "runnerGroupId": 1, "runnerGroupName": "Default", "labels": []any{},
		}}})
	default:
		c.github.ServeHTTP(w, r)
	}
}

// keepRecordsFew has a set of team b find one scale set after the other. What the manager notes of that, where no quota
// of team b counts, is as much as for any set.
func (c *contest) keepRecordsFew() {
	c.Helper()
	defer c.delete(c.attacker, countingSet)
	c.create(c.attacker.client, c.set(countingSet, func(set *v1alpha1.AutoscalingRunnerSet) {
		set.Spec.GitHubConfigUrl = c.own["counting"].URL + "/org"
	}))
	const times, most = 12, 2
	for i := range times {
		c.await("the server denies a change", func() []string {
			if c.counting.denied.Load() <= int64(i) {
				return []string{"it has not been asked"}
			}
			return nil
		})
		set, err := c.read(c.attacker, countingSet)
		if err != nil {
			c.Fatal(err)
		}
		c.update(c.attacker.client, set, map[string]any{"spec": map[string]any{
			"runnerScaleSetLabels": []string{fmt.Sprint("label-", i)},
		}})
	}
	c.await("records of one scale set", func() []string {
		var records coordinationv1.LeaseList
		if err := c.rig.Cluster.Client().List(c.Context(), &records, client.InNamespace(c.rig.SystemNamespace),
			client.MatchingLabels{
				v1alpha1.LabelScaleSetNamespace: c.attacker.namespace, v1alpha1.LabelScaleSetName: countingSet,
			}); err != nil {
			c.Fatal(err)
		}
		if len(records.Items) > most {
			return []string{fmt.Sprintf("one set has %d", len(records.Items))}
		}
		return nil
	})
}

// openCounting starts that server.
func (c *contest) openCounting() {
	c.Helper()
	c.counting = &counting{github: newGitHub(c.T, fakegithub.Options{}).Handler()}
	c.own["counting"] = loopback(c.T, c.counting)
}
