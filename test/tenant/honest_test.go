package tenant

import (
	"fmt"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	githubstate "github.com/harrier-ci/harrier/internal/fakegithub/state"
)

// Sets that want the same scale set by mistake, or because it is to move: the first of team a, its twin in the same
// namespace, and one of team b, which has a token for the same GitHub.
const (
	sharedName = "shared"
	firstSet   = "precious-first"
	twinSet    = "precious-twin"
	equalSet   = "claim-equal"
)

// keepHonest has both teams want one scale set with credentials that their GitHub accepts. Whoever comes later is told,
// and gets the scale set with its queue when those before are gone.
func (c *contest) keepHonest() {
	c.Helper()
	address := "https://" + securedHost + "/acme"
	c.create(c.victim.client, c.victims(firstSet, sharedName, address))
	id := 0
	c.await("the first is registered", func() []string {
		set, err := c.read(c.victim, firstSet)
		if err != nil || set.Status.Registration == nil || !c.polls(set.Status.Registration.ID) {
			return []string{fmt.Sprintf("nobody polls its scale set: %v %s", err, conditionsOf(set))}
		}
		id = set.Status.Registration.ID
		return nil
	})
	c.create(c.victim.client, c.victims(twinSet, sharedName, address))
	// Team b's set is on its way from elsewhere, with the annotations of its scale set.
	equal := c.set(equalSet, func(set *v1alpha1.AutoscalingRunnerSet) {
		reach(set, address, c.proxies.victims, "genuine")
		set.Spec.RunnerScaleSetName, set.Spec.GitHubConfigSecret = sharedName, sharedSecret
		set.Annotations = map[string]string{
			v1alpha1.AnnotationRunnerScaleSetID: strconv.Itoa(id), v1alpha1.AnnotationRunnerGroupName: "Default",
			v1alpha1.AnnotationRunnerScaleSetName: sharedName,
		}
	})
	c.create(c.attacker.client, equal)
	c.await("those that come later are told", func() (silent []string) {
		for name, of := range map[string]*team{twinSet: c.victim, equalSet: c.attacker} {
			set, err := c.read(of, name)
			said := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionScaleSetRegistered)
			if err != nil || said == nil || said.Reason != v1alpha1.ReasonScaleSetInUse {
				silent = append(silent, fmt.Sprintf("%s says %+v: %v", name, said, err))
			}
		}
		return silent
	})
	c.tellNothing()
	c.delete(c.victim, twinSet)
	c.await("the twin is gone", func() []string { return c.there(c.victim, twinSet) })
	c.delete(c.victim, firstSet)
	c.await("the scale set has passed to team b with its queue", func() []string {
		set, err := c.read(c.attacker, equalSet)
		switch {
		case err != nil:
			return []string{err.Error()}
		case set.Status.Registration == nil || set.Status.Registration.ID != id:
			return []string{fmt.Sprintf("it has %+v, not scale set %d: %s", set.Status.Registration, id,
				conditionsOf(set))}
		case !c.polls(id):
			return []string{"nobody polls it"}
		}
		return c.there(c.victim, firstSet)
	})
	job := c.rig.QueueJobsFor(sharedName, 1, 0)
	c.rig.WaitDone(job)
}

// polls reports whether somebody polls a scale set of team a's GitHub.
func (c *contest) polls(id int) bool {
	return slices.ContainsFunc(c.rig.GitHub.Snapshot().Sessions, func(session githubstate.SessionView) bool {
		return session.ScaleSetID == id && session.Polling
	})
}

// there names a set that is still there.
func (c *contest) there(of *team, name string) []string {
	if _, err := c.read(of, name); apierrors.IsNotFound(err) {
		return nil
	}
	return []string{name + " is there"}
}
