package volumesnapshots

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

const (
	// A claim of which a snapshot may be made is kept for claimTimeout after its job at most.
	claimTimeout = 10 * time.Minute
	// A snapshot is made unmountGrace after the runner's end at the earliest: a node unmounts a volume some seconds after
	// the pod's containers have ended, and a file system that is mounted is dirty.
	unmountGrace = 15 * time.Second
	// A clock that wrote the end of a job may be ahead of ours by clockSkew.
	clockSkew = time.Minute
	// A snapshot that is not ready is told of after lateTimeout, and given up after pendingTimeout: meanwhile no other one
	// is made, since a driver that takes half an hour would never get one ready otherwise.
	lateTimeout, pendingTimeout = 10 * time.Minute, time.Hour
	// A failure may pass for failureGrace, as while a snapshot controller starts, before it is told. One that has failed
	// is deleted after failedTimeout.
	failureGrace, failedTimeout = time.Minute, 10 * time.Minute
)

// Decision has what to do about a set's snapshots.
type Decision struct {
	// Newest is the version that new runners' claims are copies of, nil if there is none: then these are empty.
	Newest *Version
	// Create are the claims of which VolumeSnapshots are to be made, under the claims' names.
	Create []Claim
	// DeleteClaims are claims that nobody needs any more, DeleteSnapshots VolumeSnapshots that go, and SetOwners those whose
	// owner is not who it should be.
	DeleteClaims, DeleteSnapshots, SetOwners []Object
	// Trouble says what fails, nil if nothing does.
	Trouble *Trouble
	// Unready is set while a snapshot isn't ready or is about to be made, so that it is looked at again soon.
	Unready bool
	// At RequeueAt the pass decides again even if nothing changes; zero means never.
	RequeueAt time.Time
}

// Object is one that is changed, and why.
type Object struct {
	Name string
	UID  types.UID
	Why  string
}

// plan puts together what a decision follows from.
type plan struct {
	world    *World
	pool     v1alpha1.VolumeClaimPool
	scope    string
	versions []*Version
	Decision
}

// Decide decides about a set's snapshots.
func Decide(world *World) Decision {
	p := &plan{world: world, pool: world.Set.Spec.EffectiveVolumeClaimPool(), scope: volumeclaims.Scope(world.Set)}
	p.versions = p.survey()
	p.Newest = p.newest()
	p.commit()
	p.expire()
	p.own()
	p.Trouble = p.trouble()
	return p.Decision
}

// newest returns the version that new claims are copies of: the newest good one or, while no copy of that gets a
// volume, an older one of which copies do.
func (p *plan) newest() *Version {
	good := p.in(stateGood)
	for _, v := range good {
		if !p.world.Failing.Has(v.Suffix) {
			return v
		}
	}
	if len(good) > 0 {
		return good[0] // nothing is better: an empty claim would be no cache, and nobody would know why
	}
	return nil
}

// expire plans the deletion of snapshots: those beyond keepSnapshots, those that failed or never got ready, and those of
// another address. None goes of which a copy may still be made.
func (p *plan) expire() {
	kept := 0
	for _, v := range p.versions {
		why := ""
		switch v.state {
		case stateGoing:
		case stateForeign:
			if volumeclaims.SpecScope(p.world.Set) == p.scope { // else the set may come back to the other one
				why = "its content is from another GitHub address or runner group"
			}
		case stateFailed:
			why = p.after(v, failedTimeout, "it has failed")
		case statePending:
			p.Unready = true
			why = p.after(v, pendingTimeout, fmt.Sprintf("it was not ready after %s", pendingTimeout))
		case stateGood, stateUnfit:
			if kept++; kept > *p.pool.KeepSnapshots && v != p.Newest {
				why = fmt.Sprintf("keepSnapshots is %d", *p.pool.KeepSnapshots)
			}
		}
		if why == "" || p.world.Copied.Has(v.Suffix) {
			continue
		}
		for i := range v.Snapshots {
			s := &v.Snapshots[i]
			p.DeleteSnapshots = append(p.DeleteSnapshots, Object{Name: s.Name, UID: s.UID, Why: why})
		}
	}
}

// own plans the changes of owners: the retention policy has changed, or an earlier set's snapshots are adopted.
func (p *plan) own() {
	for _, v := range p.versions {
		for i := range v.Snapshots {
			s := &v.Snapshots[i]
			if s.Owned == p.world.Set.Spec.SnapshotsRetained() && !s.Deleting && v.state != stateForeign {
				p.SetOwners = append(p.SetOwners, Object{Name: s.Name, UID: s.UID})
			}
		}
	}
}

// after returns a text once a version is older than a timeout, and asks for a pass then.
func (p *plan) after(v *Version, timeout time.Duration, why string) string {
	if p.age(v) < timeout {
		p.requeueBy(v.CreatedAt.Add(timeout))
		return ""
	}
	return why
}

func (p *plan) age(v *Version) time.Duration { return p.world.Now.Sub(v.CreatedAt) }

// in returns the versions in a state, the newest first.
func (p *plan) in(wanted state) []*Version {
	return slices.DeleteFunc(slices.Clone(p.versions), func(v *Version) bool { return v.state != wanted })
}

// requeueBy decides again at t at the latest.
func (p *plan) requeueBy(t time.Time) {
	if t.After(p.world.Now) {
		p.RequeueAt = kube.EarlierOf(p.RequeueAt, t)
	}
}
