package volumeclaims

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// Decision has what to do about a set's claims. Records and Deletions are carried out before Replacements, so that a
// restart in between neither forgets a failure nor frees a claim that must go.
type Decision struct {
	// Leases has one entry for each new runner that may be created now.
	Leases []Lease
	// Waiting counts the wanted runners that must wait, and Wait is what they wait for.
	Waiting int
	Wait    Wait
	// Replacements are runners that can't start with their claims, or that must not get a job with them. Those that
	// have a job keep it.
	Replacements []Replacement
	// Deletions are claims to delete, on condition of their UID.
	Deletions []Deletion
	// Records are changes of claims' metadata.
	Records []Record
	// Counts has an entry for each template and for each former one that still has claims.
	Counts map[string]Counts
	// At RequeueAt the pass decides again even if nothing changes; zero means never.
	RequeueAt time.Time

	// swapped are bundles that replaced runners give up in the hope of another place: they are leased last for a while.
	// swappedBound is set if one of them has volumes, and discarded if one is deleted because a pod could not use it.
	swapped                 []string
	swappedBound, discarded bool
}

// Lease has the claims that one new runner gets.
type Lease struct {
	// Claims is the runner's spec.volumeClaims. The names are empty if it gets an emptyDir.
	Claims map[string]string
	// Seed is the value of the runner's annotation v1alpha1.AnnotationVolumeClaimSeed, empty for none.
	Seed string
}

// Wait is one word for what runners wait for.
type Wait string

// Values of Wait.
const (
	// WaitForNothing: all wanted runners have a lease.
	WaitForNothing Wait = ""
	// WaitForList: the API server has not said yet which runners and claims exist, or the cache doesn't show one that
	// does.
	WaitForList Wait = "Unlisted"
	// WaitForFreeClaim: as many claims exist as there may be, and none is free.
	WaitForFreeClaim Wait = v1alpha1.ReasonVolumeClaimsExhausted
	// WaitForNewClaim: the API server refuses new claims, and none is free.
	WaitForNewClaim Wait = v1alpha1.ReasonVolumeClaimRefused
)

// Replacement is a runner that should make room for one with other claims.
type Replacement struct {
	Runner          string
	Reason, Message string
}

// Deletion is a claim that goes.
type Deletion struct {
	Name string
	UID  types.UID
	Why  Why
	// Message says so in a sentence that names the claim.
	Message string
	// Runner is the name of the runner whose job or failure is the cause, empty if there is none.
	Runner string
}

// Why is the cause for which a claim goes.
type Why string

// Causes of deletions.
const (
	// Discarded: pods of two runners in a row could not use it. The set gets an Event, VolumeClaimDiscarded.
	Discarded Why = "Discarded"
	// VolumeLost: its volume is gone.
	VolumeLost Why = "VolumeLost"
	// NotKept: keepAfter doesn't name the event or the result of its last job.
	NotKept Why = "NotKept"
	// OtherScope: its content is from another GitHub address or runner group.
	OtherScope Why = "OtherScope"
	// TemplateGone: no template of the set has its name any more.
	TemplateGone Why = "TemplateGone"
	// TooMany: there are more claims than max.
	TooMany Why = "TooMany"
	// TooOld: it is older than maxAge.
	TooOld Why = "TooOld"
	// Unused: it was free for idleTTL.
	Unused Why = "Unused"
	// NeverBound: it is a copy that nobody has used, and what it copies waits for it.
	NeverBound Why = "NeverBound"
	// Outdated: it has no volume, and its template is another one now.
	Outdated Why = "Outdated"
)

// housekeeping reports whether nobody waits for the deletion.
func (w Why) housekeeping() bool {
	return w != Discarded && w != NotKept && w != VolumeLost && w != Outdated
}

// Record is a change of a claim's metadata.
type Record struct {
	Claim string
	UID   types.UID
	// Key is the annotation to set to Value, or to remove if that is empty. OwnersKey stands for the claim's owners
	// instead, which become those that Owners returns.
	Key   string
	Value string
}

// OwnersKey is the key of a record that changes the owners of a claim: the set's retention policy has changed, or the
// claim was adopted.
const OwnersKey = "metadata.ownerReferences"

// housekeeping reports whether nobody waits for the record. Whose a claim is must be written before its set may be
// deleted: the rights to do so go with the release.
func (r Record) housekeeping() bool { return r.Key == v1alpha1.AnnotationVolumeClaimUsedAt }

// WriteTo writes the record to a claim of the set.
func (r Record) WriteTo(claim *corev1.PersistentVolumeClaim, set *v1alpha1.AutoscalingRunnerSet) {
	switch {
	case r.Key == OwnersKey:
		SetOwners(claim, set)
	case r.Value == "":
		delete(claim.Annotations, r.Key)
	default:
		kube.SetAnnotation(claim, r.Key, r.Value)
	}
}

func (r Record) withoutValue() Record {
	r.Value = ""
	return r
}

// Counts counts the claims of one template.
type Counts struct{ Total, Leased, Free, Cloning, Deleting int }

// Plan decides about a set's claims: those that as many new runners as wanted get, the runners and claims that go, and
// the records. It is called a single time: the claims that it gives away are no longer free.
func (p *Pool) Plan(wanted int) Decision {
	d := Decision{Counts: p.counts(), RequeueAt: p.reportDue}
	p.lease(&d, wanted)
	if p.unknown {
		return d // who uses which claim is not known: none goes, and no runner
	}
	p.giveWay(&d)
	p.collect(&d)
	p.record(&d)
	return d
}

// requeueBy decides again at t at the latest; zero means never.
func (d *Decision) requeueBy(t time.Time) { d.RequeueAt = kube.EarlierOf(d.RequeueAt, t) }

// counts counts the claims that are seen, by template.
func (p *Pool) counts() map[string]Counts {
	counts := map[string]Counts{}
	for _, template := range p.templates {
		counts[template] = Counts{}
	}
	for _, b := range p.bundles {
		for template, claim := range b.claims {
			c := counts[template]
			c.Total++
			switch {
			case claim.Deleting:
				c.Deleting++
			case b.state == stateLeased:
				c.Leased++
			case b.state == stateCloning:
				c.Cloning++
			case b.state == stateFree:
				c.Free++
			}
			counts[template] = c
		}
	}
	return counts
}

// record plans the records of claims: that a bundle works again, its last use if the record is too far behind, and its
// owner.
func (p *Pool) record(d *Decision) {
	retained := p.world.Set.Spec.Retained()
	for _, b := range p.sorted() {
		works := slices.ContainsFunc(b.holders, func(r *Runner) bool { return r.Up })
		for _, claim := range b.all() {
			if works && len(claim.Failures) > 0 {
				p.write(d, claim, v1alpha1.AnnotationVolumeClaimFailures, "")
			}
			if claim.Owned == retained {
				p.write(d, claim, OwnersKey, "")
			}
		}
		used := p.usedAt(b)
		behind := used.Sub(b.recorded()) >= p.recordInterval()
		if first := b.first(); behind && first != nil && p.policy.IdleTTL.Duration != 0 {
			p.write(d, first, v1alpha1.AnnotationVolumeClaimUsedAt, used.UTC().Format(time.RFC3339))
		}
	}
}

// write plans a record, unless it was written a moment ago, or can wait.
func (p *Pool) write(d *Decision, claim *Claim, key, value string) {
	r := Record{Claim: claim.Name, UID: claim.UID, Key: key, Value: value}
	if _, written := p.memory.written[r.withoutValue()]; written || claim.Deleting ||
		(r.housekeeping() && !p.afford(d)) {
		return
	}
	d.Records = append(d.Records, r)
}

// afford reports whether one more request may be spent on what nobody waits for.
func (p *Pool) afford(d *Decision) bool {
	spent := len(p.memory.housekeeping)
	for i := range d.Deletions {
		if d.Deletions[i].Why.housekeeping() {
			spent++
		}
	}
	for i := range d.Records {
		if d.Records[i].housekeeping() {
			spent++
		}
	}
	if spent >= housekeepingLimit {
		d.requeueBy(p.now.Add(housekeepingInterval))
	}
	return spent < housekeepingLimit
}

// A copy that nobody has used may keep its source from use for neverBoundTimeout.
const neverBoundTimeout = 5 * time.Minute

// collection has the condition on which a bundle that nobody uses goes.
type collection struct {
	why Why
	// applies also returns the time from which the rule will apply, zero if that is not known.
	applies func(*Pool, *bundle) (bool, time.Time)
	// because ends the sentence "claim X is deleted because …".
	because func(*Pool, *bundle) string
}

// collections are the rules by which bundles go. The first that applies decides.
var collections = []collection{
	{Discarded, func(_ *Pool, b *bundle) (bool, time.Time) { return len(b.failures) >= maxFailures, time.Time{} },
		func(_ *Pool, b *bundle) string { return b.blames() }},
	{NotKept, func(_ *Pool, b *bundle) (bool, time.Time) { return b.spoiledBy != "", time.Time{} },
		func(_ *Pool, b *bundle) string { return fmt.Sprintf("of its last runner %s: %s", b.spoiledBy, b.why) }},
	{VolumeLost, func(_ *Pool, b *bundle) (bool, time.Time) {
		return b.any(func(c *Claim) bool { return c.Lost }), time.Time{}
	},
		func(*Pool, *bundle) string { return "its volume, or that of a claim used with it, is gone" }},
	{OtherScope, func(p *Pool, b *bundle) (bool, time.Time) {
		other := func(c *Claim) bool { return c.Owned && c.Scope != p.scope }
		spec := &p.world.Set.Spec
		// else it may come back to the other one
		isWhereItShouldBe := p.scope == scopeOf(spec.GitHubConfigUrl, spec.RunnerGroup)
		return !spec.Retained() && isWhereItShouldBe && b.any(other), time.Time{}
	}, func(*Pool, *bundle) string { return "its content is from another GitHub address or runner group" }},
	{Outdated, func(_ *Pool, b *bundle) (bool, time.Time) { return b.any((*Claim).outdated), time.Time{} },
		func(*Pool, *bundle) string {
			return "it has got no volume, and volumeClaimTemplates or seedFrom has changed since it was created"
		}},
	{NeverBound, func(p *Pool, b *bundle) (bool, time.Time) {
		if b.state != stateFree || !b.any(func(c *Claim) bool { return !c.Bound && c.Source != "" }) {
			return false, time.Time{}
		}
		return p.after(p.usedAt(b), neverBoundTimeout)
	}, func(*Pool, *bundle) string { return "it is a copy that no runner has used" }},
	{TooOld, func(p *Pool, b *bundle) (bool, time.Time) {
		var oldest time.Time
		for _, claim := range b.claims {
			if oldest.IsZero() || claim.CreatedAt.Before(oldest) {
				oldest = claim.CreatedAt
			}
		}
		return p.after(oldest, p.policy.MaxAge.Duration)
	}, func(p *Pool, _ *bundle) string {
		return fmt.Sprintf("it is older than maxAge, %s", p.policy.MaxAge.Duration)
	}},
	{Unused, func(p *Pool, b *bundle) (bool, time.Time) { return p.after(p.usedAt(b), p.policy.IdleTTL.Duration) },
		func(p *Pool, _ *bundle) string {
			return fmt.Sprintf("no runner has used it for idleTTL, %s", p.policy.IdleTTL.Duration)
		}},
	{TooMany, func(p *Pool, b *bundle) (bool, time.Time) {
		more := func(template string) bool {
			return p.policy.Max != nil && p.exist[template]-p.going[template] > *p.policy.Max
		}
		return slices.ContainsFunc(slices.Collect(maps.Keys(b.claims)), more), time.Time{}
	}, func(p *Pool, _ *bundle) string {
		return fmt.Sprintf("there are more claims than max, %d", *p.policy.Max)
	}},
}

// after reports whether a duration has passed since start, and returns its end. A duration of 0 never passes.
func (p *Pool) after(start time.Time, duration time.Duration) (bool, time.Time) {
	if duration == 0 {
		return false, time.Time{}
	}
	end := start.Add(duration)
	return !p.now.Before(end), end
}

// collect plans the claims that go: bundles that nobody uses, the coldest first, and claims whose template is gone.
func (p *Pool) collect(d *Decision) {
	candidates := slices.Concat(p.in(stateFree), p.in(stateUnfit))
	for _, b := range slices.Backward(candidates) {
		for _, rule := range collections {
			applies, due := rule.applies(p, b)
			if !applies {
				d.requeueBy(due)
				continue
			}
			if !rule.why.housekeeping() || p.afford(d) {
				p.deleteAll(d, b, rule.why, rule.because(p, b), b.spoiledBy)
			}
			break
		}
	}
	p.collectFormer(d)
}

// deleteAll plans to delete what is left of a bundle, or of it what is outdated.
func (p *Pool) deleteAll(d *Decision, b *bundle, why Why, because, runner string) {
	for _, claim := range b.all() {
		if why == Outdated && !claim.outdated() {
			continue // the rest of the bundle has content
		}
		d.Deletions = append(d.Deletions, Deletion{
			Name: claim.Name, UID: claim.UID, Why: why, Runner: runner,
			Message: fmt.Sprintf("claim %s is deleted because %s", claim.Name, because),
		})
		p.going[claim.Template]++
	}
	b.state = stateDeleting
}

// collectFormer plans to delete claims whose template is gone and that no runner names, also in bundles that are in
// use: new runners don't get these claims.
func (p *Pool) collectFormer(d *Decision) {
	for _, b := range p.sorted() {
		if b.state == stateDeleting || b.state == stateCloning || b.state == stateSeed {
			continue
		}
		for _, claim := range b.all() {
			if slices.Contains(p.templates, claim.Template) || p.held.Has(claim.Name) || !p.afford(d) {
				continue
			}
			d.Deletions = append(d.Deletions, Deletion{
				Name: claim.Name, UID: claim.UID, Why: TemplateGone,
				Message: fmt.Sprintf("claim %s is deleted because volumeClaimTemplates has no template %s any more",
					claim.Name,
					claim.Template),
			})
		}
	}
}
