package rbac

import (
	"slices"
	"strings"
	"testing"

	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// The charts grant exactly the rules that the requests of a whole life need. The cluster streams no lists, as
// Kubernetes 1.30 to 1.33 don't: there the caches need list; with later versions watch does both.
func TestRulesAreWhatRequestsNeed(t *testing.T) {
	options := rig.ClusterOptions()
	options.APIServerFlags = []string{"--feature-gates=WatchList=false"}
	cluster := testkube.Start(t, options)
	for name, options := range map[string]rig.Options{
		"all namespaces, two replicas": {ManagerReplicas: 2},
		// After the move from ARC, when nothing is protected any more.
		"single namespace, one replica, no foreign finalizers": {SingleNamespace: true, Flags: rig.Values{"stripForeignFinalizers": false}},
	} {
		t.Run(name, func(t *testing.T) {
			l := begin(t, cluster, options)
			l.lead()
			// Later, Helm deletes Roles before the objects that the manager has to clean up: refusals are expected
			// then.
			if refused := requestsOf(t, l.rig).refused; len(refused) > 0 {
				t.Errorf("rules are missing:\n%s", strings.Join(refused, "\n"))
			}
			l.end()
			made := requestsOf(t, l.rig)
			for _, p := range slices.Concat(l.ledger.admission, l.ledger.earlierManagers(), l.otherSetting()) {
				made.used[manager][p] = true
			}
			if needless := l.ledger.needless(made); len(needless) > 0 {
				t.Errorf("rules that nothing needs:\n%s", strings.Join(needless, "\n"))
			}
		})
	}
}
