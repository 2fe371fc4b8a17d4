package ephemeralrunnerset

import (
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/effective"
)

// The gate is where a runner's own controller asks the set's whether the runner may have a pod: see
// ephemeralrunner.Gate. Both answers come from memory that the watches keep up to date, and are the last word: what was
// planned with an old view of things, or made by hand, ends here.

// Admit reports whether a runner set of origin has room for one of its runners, which then counts. A set creates no
// more than it may, but others may create runners with the set as their owner.
func (c *Controller) Admit(
	origin *v1alpha1.AutoscalingRunnerSet, set *v1alpha1.EphemeralRunnerSet, runner types.NamespacedName,
) bool {
	numbers := &effective.Plan{}
	if m := c.Known(client.ObjectKeyFromObject(set)); m != nil {
		numbers = &m.numbers
	}
	most := numbers.At(origin, c.options.MaxRunnersPerSet, c.options.Clock.Now()).Max
	if limit := set.Spec.MaxRunners; limit != nil {
		most = min(most, *limit)
	}
	return c.roster.Admit(set.UID, runner, most)
}

// Hold reports whether a runner may mount the claims that it names; see leases.Hold.
func (c *Controller) Hold(runner *v1alpha1.EphemeralRunner) bool { return c.leases.Hold(runner) }

// Departure says why a node is about to go away, as the rest of a sentence that begins with its name; empty if it stays.
func (c *Controller) Departure(node string) string { return c.departures.Signs(node).String() }

// maxAvoided limits the nodes that a new pod is kept from by name.
const maxAvoided = 32

// Avoided returns the nodes to which no new pod may go, although the scheduler would send it there.
func (c *Controller) Avoided() []string { return c.departures.Unmarked(maxAvoided) }
