package volumesnapshots

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// Version are the VolumeSnapshots that were made of one runner's claims: they are used, and go, as one.
type Version struct {
	Suffix    string
	Snapshots []Snapshot
	// CreatedAt is the time of its first VolumeSnapshot, by the API server's clock.
	CreatedAt time.Time
	state     state
}

// state decides what may be done with a version.
type state string

const (
	stateGoing   state = "going" // one of it is being deleted
	stateForeign state = "foreign"
	stateFailed  state = "failed"
	statePending state = "pending"
	stateUnfit   state = "unfit" // good, but not for the templates of today
	stateGood    state = "good"
)

// stateRule has the condition for a version's state.
type stateRule struct {
	name    string
	applies func(*plan, *Version) bool
	state   state
}

// states are the rules for a version's state. The first that applies decides.
var states = []stateRule{
	{"one of it is being deleted", func(_ *plan, v *Version) bool {
		return v.any(func(s *Snapshot) bool { return s.Deleting })
	}, stateGoing},
	{"it is from another address or group", func(p *plan, v *Version) bool {
		return v.any(func(s *Snapshot) bool { return s.Scope != p.scope })
	}, stateForeign},
	{"the driver or the snapshot controller says that it failed", func(_ *plan, v *Version) bool {
		return v.any(func(s *Snapshot) bool { return s.Error != "" })
	}, stateFailed},
	{"not all of it is ready", func(_ *plan, v *Version) bool { return !v.ready() }, statePending},
	{"a template of today has none of it, or claims that are too small", func(p *plan, v *Version) bool {
		return !p.fits(v)
	}, stateUnfit},
	{"none of these", func(*plan, *Version) bool { return true }, stateGood},
}

// survey puts the snapshots together, the newest first.
func (p *plan) survey() []*Version {
	bySuffix := map[string]*Version{}
	var all []*Version
	for _, s := range p.world.Snapshots {
		v := bySuffix[s.Suffix]
		if v == nil {
			v = &Version{Suffix: s.Suffix}
			bySuffix[s.Suffix] = v
			all = append(all, v)
		}
		v.Snapshots = append(v.Snapshots, s)
		v.CreatedAt = kube.EarlierOf(v.CreatedAt, s.CreatedAt)
	}
	for _, v := range all {
		slices.SortFunc(v.Snapshots, func(a, b Snapshot) int { return cmp.Compare(a.Name, b.Name) })
		rule := slices.IndexFunc(states, func(rule stateRule) bool { return rule.applies(p, v) })
		v.state = states[rule].state
	}
	slices.SortFunc(all, func(a, b *Version) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.Suffix, b.Suffix))
	})
	return all
}

// Status describes the version in the set's status.
func (v *Version) Status() *v1alpha1.VolumeSnapshotStatus {
	status := &v1alpha1.VolumeSnapshotStatus{Job: v.Snapshots[0].Commit.Job}
	status.CreatedAt.Time = v.CreatedAt
	for i := range v.Snapshots {
		status.Names = append(status.Names, v.Snapshots[i].Name)
	}
	return status
}

func (v *Version) any(is func(*Snapshot) bool) bool {
	for i := range v.Snapshots {
		if is(&v.Snapshots[i]) {
			return true
		}
	}
	return false
}

// of returns the version's snapshot of a template, nil if there is none.
func (v *Version) of(template string) *Snapshot {
	for i := range v.Snapshots {
		if v.Snapshots[i].Template == template {
			return &v.Snapshots[i]
		}
	}
	return nil
}

// ready reports whether there is a snapshot of each of the runner's claims, and all of them are ready.
func (v *Version) ready() bool {
	return !v.any(func(s *Snapshot) bool {
		return !s.Ready || slices.ContainsFunc(s.Commit.Templates,
			func(template string) bool { return v.of(template) == nil })
	})
}

// fits reports whether claims of all of today's templates can be copies of a version.
func (p *plan) fits(v *Version) bool {
	for i := range p.world.Set.Spec.VolumeClaimTemplates {
		template := &p.world.Set.Spec.VolumeClaimTemplates[i]
		if s := v.of(template.Metadata.Name); s == nil || tooLarge(s, template) {
			return false
		}
	}
	return true
}

// tooLarge reports whether a snapshot can't be copied to a claim of its template.
func tooLarge(s *Snapshot, template *v1alpha1.VolumeClaimTemplate) bool {
	size, known := template.Spec.Resources.Requests[corev1.ResourceStorage]
	return known && s.Size != nil && s.Size.Cmp(size) > 0
}
