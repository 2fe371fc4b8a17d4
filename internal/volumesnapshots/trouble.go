package volumesnapshots

import (
	"fmt"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// Trouble is what fails.
type Trouble struct {
	// Reason is that of the condition SnapshotsReady.
	Reason, Message string
}

// trouble returns what fails, the most pressing first, and says what runners start from meanwhile.
func (p *plan) trouble() *Trouble {
	meanwhile := "runners start with empty claims"
	if p.Newest != nil {
		meanwhile = "runners start from the snapshot of " + p.Newest.CreatedAt.UTC().Format("2006-01-02 15:04:05Z")
	}
	for _, look := range []func() *Trouble{p.notCopied, p.failed, p.unready, p.tooLarge} {
		if found := look(); found != nil {
			found.Message += "; " + meanwhile
			return found
		}
	}
	return nil
}

// notCopied: claims that are copies of a good snapshot get no volume.
func (p *plan) notCopied() *Trouble {
	for _, v := range p.in(stateGood) {
		if p.world.Failing.Has(v.Suffix) {
			return &Trouble{v1alpha1.ReasonSnapshotNotCopied, fmt.Sprintf("claims that are copies of VolumeSnapshot %s "+
				"get no volume: the Events of these claims say why; delete the snapshot to have runners start without it",
				v.Snapshots[0].Name)}
		}
	}
	return nil
}

// failed: the last snapshot has failed.
func (p *plan) failed() *Trouble {
	v := p.last()
	if v == nil || v.state != stateFailed {
		return nil
	}
	if p.age(v) < failureGrace {
		p.requeueBy(v.CreatedAt.Add(failureGrace))
		return nil
	}
	for i := range v.Snapshots {
		if s := &v.Snapshots[i]; s.Error != "" {
			return &Trouble{v1alpha1.ReasonSnapshotFailed, fmt.Sprintf("VolumeSnapshot %s can't be made: %s%s", s.Name,
				s.Error, classHint(p.pool.SnapshotClassName))}
		}
	}
	return nil
}

// classHint says where the class of a snapshot comes from: most failures are of that.
func classHint(class string) string {
	if class == "" {
		return " (snapshotClassName is unset: the driver needs a default VolumeSnapshotClass)"
	}
	return fmt.Sprintf(" (VolumeSnapshotClass %s)", class)
}

// unready: the last snapshot is not ready in time.
func (p *plan) unready() *Trouble {
	v := p.last()
	if v == nil || v.state != statePending {
		return nil
	}
	first := &v.Snapshots[0]
	if !v.any(func(s *Snapshot) bool { return s.Seen }) && p.age(v) >= failureGrace {
		return &Trouble{v1alpha1.ReasonSnapshotLate, fmt.Sprintf("no snapshot controller has taken VolumeSnapshot %s: "+
			"install the one of the CSI driver, or look why it doesn't run", first.Name)}
	}
	if p.age(v) < lateTimeout {
		p.requeueBy(v.CreatedAt.Add(failureGrace))
		p.requeueBy(v.CreatedAt.Add(lateTimeout))
		return nil
	}
	return &Trouble{v1alpha1.ReasonSnapshotLate, fmt.Sprintf("VolumeSnapshot %s is not ready after %s, and is given up "+
		"after %s", first.Name, lateTimeout, pendingTimeout)}
}

// tooLarge: there is a newer snapshot than the newest that can be used, and it is larger than its template's claims.
func (p *plan) tooLarge() *Trouble {
	for _, v := range p.in(stateUnfit) {
		if p.Newest != nil && v.CreatedAt.Before(p.Newest.CreatedAt) {
			return nil
		}
		for i := range p.world.Set.Spec.VolumeClaimTemplates {
			template := &p.world.Set.Spec.VolumeClaimTemplates[i]
			if s := v.of(template.Metadata.Name); s != nil && tooLarge(s, template) {
				return &Trouble{v1alpha1.ReasonSnapshotTooLarge, fmt.Sprintf("VolumeSnapshot %s needs claims of %s, and "+
					"template %s has less: raise its size, or delete the snapshot", s.Name, s.Size, template.Metadata.Name)}
			}
		}
	}
	return nil
}

// last returns the version that was asked for last, nil if there is none.
func (p *plan) last() *Version {
	for _, v := range p.versions {
		if v.state != stateGoing && v.state != stateForeign {
			return v
		}
	}
	return nil
}
