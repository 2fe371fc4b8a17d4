package tenant

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	githubstate "github.com/harrier-ci/harrier/internal/fakegithub/state"
	"github.com/harrier-ci/harrier/test/rig"
)

// Both kinds of team b's sets: written before team a's set was, and after.
const older, younger = "older", "younger"

// What team b says of scale sets, and does at team a's address, hinders nobody but team b: team a's sets keep their
// listener, scale set and jobs, before, during and after their installation, through a change, a restore and a move,
// and leave nothing. Their check runs are written, and their figures shown.
func TestTeamsMeetAtOneAddress(t *testing.T) {
	pattern := regexp.MustCompile(*only)
	chosen := slices.DeleteFunc(claims(), func(made claim) bool { return !pattern.MatchString(made.name) })
	c := newContest(t, chosen)
	t.Cleanup(c.surrender)
	if len(chosen) > 0 {
		c.install()
		c.keepFigures()
		c.changeAll()
		c.restoreAll()
		c.reinstall()
	}
	if pattern.MatchString("honest") {
		c.keepHonest()
	}
	if pattern.MatchString("records of one scale set") {
		c.keepRecordsFew()
	}
	if pattern.MatchString("budgets") {
		c.keepBudgets()
	}
}

// install installs team a's sets between team b's claims.
func (c *contest) install() {
	c.Helper()
	for _, of := range c.owned {
		c.create(c.attacker.client, c.claimant(of, older))
	}
	c.awaitNextSecond() // timestamps have whole ones
	for _, of := range c.owned {
		c.create(c.victim.client, c.victims(of.object, of.name, of.address()))
	}
	c.awaitHeld("installed", nil)
	for _, of := range c.owned {
		c.attack(of)
	}
	c.pass(3)
	c.awaitHeld("claimed by team b", nil)
}

// changeAll has team a's sets change and work.
func (c *contest) changeAll() {
	c.Helper()
	for _, of := range c.owned {
		c.change(of)
	}
	c.pass(1)
	c.awaitHeld("changed", changed)
	c.work()
}

// restoreAll has team a's sets work after a restore.
func (c *contest) restoreAll() {
	c.Helper()
	c.restore()
	c.pass(3)
	c.awaitHeld("restored", changed)
	c.work()
	c.tellNothing()
}

// reinstall uninstalls team a's sets, and installs them again.
func (c *contest) reinstall() {
	c.Helper()
	for _, of := range c.owned {
		c.delete(c.victim, of.object)
	}
	c.await("uninstalled", func() (left []string) {
		for _, known := range c.rig.GitHub.Snapshot().ScaleSets {
			i := slices.IndexFunc(c.owned, func(of *owned) bool { return of.id == known.ID || of.name == known.Name })
			if i >= 0 {
				left = append(left, c.owned[i].claim.name+": scale set "+known.Name+" is left")
			}
		}
		for _, of := range c.owned {
			left = append(left, c.there(c.victim, of.object)...)
		}
		return left
	})
	for _, of := range c.owned {
		of.id, of.uid = 0, ""
		c.create(c.victim.client, c.victims(of.object, of.name, of.address()))
	}
	c.awaitHeld("installed again", nil)
	c.tellNothing()
}

// await waits until nothing is wrong, or fails the test with what is.
func (c *contest) await(when string, wrong func() []string) {
	c.Helper()
	began := time.Now()
	late, cancel := context.WithTimeout(c.Context(), rig.Patience)
	defer cancel()
	found := wrong()
	for len(found) > 0 && rig.Wait(late, 100*time.Millisecond) {
		found = wrong()
	}
	c.Logf("%s after %s", when, time.Since(began).Round(time.Millisecond))
	report(c.T, when, found)
}

// awaitNextSecond waits until a new object is dated later than the last one was.
func (c *contest) awaitNextSecond() {
	c.Helper()
	began := time.Now()
	c.await("a second later", func() []string {
		if time.Now().Truncate(time.Second).After(began) {
			return nil
		}
		return []string{"the clock stands still"}
	})
}

// awaitHeld waits until each of team a's sets has its scale set, its listener, and whatever else it must have. From the
// first time on it must be the same scale set, and until a restore the same listener.
func (c *contest) awaitHeld(when string, further func(githubstate.ScaleSetView) string) {
	c.Helper()
	c.await(when, func() (wrong []string) {
		seen := c.rig.GitHub.Snapshot()
		for _, of := range c.owned {
			if err := c.held(of, seen, further); err != nil {
				wrong = append(wrong, of.claim.name+": "+err.Error())
			}
		}
		return wrong
	})
}

func (c *contest) held(of *owned, seen githubstate.Snapshot, further func(githubstate.ScaleSetView) string) error {
	set, err := c.read(c.victim, of.object)
	if err != nil {
		return err
	}
	registered := set.Status.Registration
	if registered == nil {
		return fmt.Errorf("it is not registered: %s", conditionsOf(set))
	}
	if of.id != 0 && registered.ID != of.id {
		return fmt.Errorf("scale set %d became %d", of.id, registered.ID)
	}
	if !c.polls(registered.ID) {
		return fmt.Errorf("nobody polls scale set %d: %s", registered.ID, conditionsOf(set))
	}
	i := slices.IndexFunc(seen.ScaleSets,
		func(known githubstate.ScaleSetView) bool { return known.ID == registered.ID })
	if i < 0 {
		return fmt.Errorf("GitHub has no scale set %d", registered.ID)
	}
	if further != nil {
		if missing := further(seen.ScaleSets[i]); missing != "" {
			return fmt.Errorf("%s: %s", missing, conditionsOf(set))
		}
	}
	listener := ""
	for _, pod := range c.podsOf(c.rig.SystemNamespace) {
		if pod.Labels[v1alpha1.LabelScaleSetNamespace] == c.victim.namespace &&
			pod.Labels[v1alpha1.LabelScaleSetName] == of.object {
			listener = string(pod.UID)
		}
	}
	if of.uid != "" && further == nil && listener != of.uid {
		return fmt.Errorf("its listener's pod is another")
	}
	of.id, of.uid = registered.ID, listener
	return nil
}

// changed says what of a change GitHub doesn't have.
func changed(known githubstate.ScaleSetView) string {
	switch {
	case known.RunnerGroup != laterGroup:
		return "its runner group is " + known.RunnerGroup
	case !slices.Contains(known.Labels, laterLabel):
		return fmt.Sprintf("its labels are %v", known.Labels)
	case !strings.HasSuffix(known.Name, laterName):
		return "its name is " + known.Name
	}
	return ""
}

// attack has team b make its claim about a scale set that team a has, with the set that is older than team a's and with
// one that is younger.
func (c *contest) attack(of *owned) {
	c.Helper()
	claimed := of.claim.registration(of)
	if err := c.forger.InventScaleSet(claimed.URL, claimed.ID, of.name); err != nil {
		c.Fatal(err)
	}
	c.create(c.attacker.client, c.claimant(of, younger))
	for _, suffix := range []string{older, younger} {
		set, err := c.read(c.attacker, c.claimants(of, suffix))
		if err != nil {
			c.Fatal(err)
		}
		c.press(of, set)
	}
}

// pass has every set of both teams looked at so many times more, each after its spec has changed.
func (c *contest) pass(times int) {
	c.Helper()
	for i := range times {
		wanted := map[client.ObjectKey]int64{}
		for _, of := range c.owned {
			for key, administered := range map[client.ObjectKey]client.Client{
				{Namespace: c.attacker.namespace, Name: c.claimants(of, older)}:   c.attacker.client,
				{Namespace: c.attacker.namespace, Name: c.claimants(of, younger)}: c.attacker.client,
				{Namespace: c.victim.namespace, Name: of.object}:                  c.victim.client,
			} {
				set := &v1alpha1.AutoscalingRunnerSet{}
				set.Namespace, set.Name = key.Namespace, key.Name
				c.update(administered, set, map[string]any{"spec": map[string]any{"maxRunners": ceiling - 1 - i}})
				wanted[key] = set.Generation
			}
		}
		c.await("looked at", func() (missing []string) {
			for key, generation := range wanted {
				set := &v1alpha1.AutoscalingRunnerSet{}
				if err := c.rig.Cluster.Client().Get(c.Context(), key, set); err != nil {
					missing = append(missing, err.Error())
				} else if set.Status.ObservedGeneration < generation {
					missing = append(missing, fmt.Sprintf("%s: %s", key, conditionsOf(set)))
				}
			}
			return missing
		})
	}
}

// update merges a change into an object.
func (c *contest) update(
	as client.Client, object client.Object, change map[string]any, subresource ...string,
) {
	c.Helper()
	text, err := json.Marshal(change)
	if err == nil {
		patch := client.RawPatch(types.MergePatchType, text)
		if len(subresource) > 0 {
			err = as.Status().Patch(c.Context(), object, patch)
		} else {
			err = as.Patch(c.Context(), object, patch)
		}
	}
	if err != nil {
		c.Fatal(err)
	}
}

// change has team a's set want another group, name and label.
func (c *contest) change(of *owned) {
	c.Helper()
	of.name += laterName
	c.update(c.victim.client, c.victims(of.object, of.name, of.address()), map[string]any{"spec": map[string]any{
		"runnerGroup": laterGroup, "runnerScaleSetName": of.name, "runnerScaleSetLabels": []string{laterLabel},
	}})
}

// work has each of team a's sets take a job.
func (c *contest) work() {
	c.Helper()
	jobs := map[int64]*owned{}
	for _, of := range c.owned {
		jobs[c.rig.QueueJobsFor(of.name, 1, 0)[0]] = of
	}
	c.await("at work", func() (waiting []string) {
		done := map[int64]bool{}
		for _, job := range c.rig.GitHub.Jobs("completed") {
			done[job.RequestID] = job.Result == "succeeded"
		}
		for id, of := range jobs {
			if !done[id] {
				waiting = append(waiting, of.claim.name+": its job is not done")
			}
		}
		return waiting
	})
}

// restore stops the manager and brings team a's sets back as a backup would: without their status, and every second one
// as a new object with annotations only, which is also what a set is after the move from ARC. Team b's sets are as they
// were.
func (c *contest) restore() {
	c.Helper()
	c.rig.StopManager()
	administrator := c.rig.Cluster.Client()
	for i, of := range c.owned {
		set, err := c.read(c.victim, of.object)
		if err != nil {
			c.Fatal(err)
		}
		before := set.DeepCopy()
		set.Status = v1alpha1.AutoscalingRunnerSetStatus{}
		if err := administrator.Status().Patch(c.Context(), set, client.MergeFrom(before)); err != nil {
			c.Fatal(err)
		}
		if i%2 == 0 {
			continue
		}
		c.delete(c.victim, of.object)
		c.release(set)
		again := c.victims(of.object, of.name, of.address())
		again.Spec, again.Annotations = set.Spec, map[string]string{
			v1alpha1.AnnotationRunnerScaleSetID: strconv.Itoa(of.id), v1alpha1.AnnotationRunnerGroupName: laterGroup,
			v1alpha1.AnnotationRunnerScaleSetName: of.name,
		}
		c.create(administrator, again)
	}
	for _, of := range c.owned {
		of.uid = "" // the manager's end and start may replace it
	}
	c.rig.StartManager()
	c.awaitManager()
}

func (c *contest) delete(of *team, name string) {
	c.Helper()
	set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: of.namespace, Name: name}}
	if err := client.IgnoreNotFound(c.rig.Cluster.Client().Delete(context.Background(), set)); err != nil {
		c.Error(err)
	}
}

// surrender deletes all sets, and returns when they are gone. Team a's GitHub is asked for minutes about those whose
// token it doesn't know, for which this test doesn't wait.
func (c *contest) surrender() {
	c.Helper()
	for _, of := range c.owned {
		for _, suffix := range []string{older, younger} {
			set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: c.named(c.claimants(of, suffix))}
			if of.claim.unheard && c.exists(set) {
				c.delete(c.attacker, set.Name)
				c.release(set)
			}
		}
	}
	var left []client.Object
	for _, of := range []*team{c.victim, c.attacker} {
		var sets v1alpha1.AutoscalingRunnerSetList
		err := c.rig.Cluster.Client().List(context.Background(), &sets, client.InNamespace(of.namespace))
		if err != nil {
			c.Error(err)
		}
		for i := range sets.Items {
			if name := sets.Items[i].Name; name != ownSet && name != rig.DefaultSet {
				left = append(left, &sets.Items[i])
			}
		}
	}
	c.retreat(map[string][]client.Object{"": left})
}
