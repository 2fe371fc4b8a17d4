// Package snapshots makes the VolumeSnapshots of a scale set in mode Snapshot, and says which one the next runners'
// claims are copies of: it carries out what internal/volumesnapshots decides. It acts before claims are leased.
//
// VolumeSnapshots are listed, not watched: a cluster may lack the kind, and a watch of it would keep the manager from
// starting. They are few, and only this room makes them, so once a minute is enough; while one isn't ready, every five
// seconds.
package snapshots

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/leases"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/pass"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/volumesnapshots"
)

const (
	// VolumeSnapshots are listed every listInterval, while one isn't ready every unreadyInterval.
	listInterval, unreadyInterval = time.Minute, 5 * time.Second
	// What the API server refuses is tried again after refusedInterval.
	refusedInterval = time.Minute
	// A scale set has at most listLimit VolumeSnapshots that are looked at: keepSnapshots is at most 100, and 16 templates.
	listLimit = 2000

	reasonSnapshotDeleted = "SnapshotDeleted"
	actionSnapshot        = "MakeSnapshots"
)

// Options are what snapshots are made with.
type Options struct {
	// Client reads claims from the manager's cache and writes to the API server. Reader reads from the API server.
	Client   client.Client
	Reader   client.Reader
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	// Leases know who uses the claims. ClaimsOf returns the claims of a scale set as the cache has them.
	Leases   *leases.Leases
	ClaimsOf func(context.Context, *v1alpha1.AutoscalingRunnerSet) ([]corev1.PersistentVolumeClaim, error)
}

// Snapshots makes the snapshots of scale sets.
type Snapshots struct {
	options  Options
	memories pass.Memories[memory]
}

// memory is what is remembered of one runner set. All of it can be found out again.
type memory struct {
	// objects are the set's VolumeSnapshots as they were listed, nil before they were. At listAt they are listed again.
	objects map[string]*unstructured.Unstructured
	listAt  time.Time
	// missing says why there are no VolumeSnapshots to be had, nil if there are.
	missing *volumesnapshots.Trouble
	// refused says what the API server refuses until allowedAt.
	refused   *volumesnapshots.Trouble
	allowedAt time.Time
	// decision is the last one, nil if there was none.
	decision *volumesnapshots.Decision
	copies   copies
	series   series
}

// New returns Snapshots that remember no set.
func New(options Options) *Snapshots { return &Snapshots{options: options} }

// Forget drops what is remembered of a runner set that is gone.
func (s *Snapshots) Forget(set types.UID) { s.memories.Forget(set) }

// Newest returns the suffix of the snapshots that new claims are copies of, empty if they are empty. It returns false
// while that isn't known.
func (s *Snapshots) Newest(set types.UID) (suffix string, known bool) {
	m := s.memories.Of(set)
	switch {
	case m.missing != nil:
		return "", true
	case m.decision == nil:
		return "", false
	case m.decision.Newest == nil:
		return "", true
	}
	return m.decision.Newest.Suffix, true
}

// Follow has snapshots made after the jobs that have ended, and those deleted that nobody needs any more.
func (s *Snapshots) Follow(ctx context.Context, p *pass.Pass) error {
	if !p.Origin.Spec.OfSnapshots() {
		s.leave(p)
		return nil
	}
	m := s.memories.Of(p.Set.UID)
	claims, err := s.options.ClaimsOf(ctx, p.Origin)
	if err != nil {
		return err
	}
	if err := s.list(ctx, p, m); err != nil {
		return err
	}
	if m.missing != nil { // nobody could tell what may be deleted, and nothing can be made
		m.decision = nil
		return s.discard(ctx, p, claims)
	}
	seen := m.copies.see(p, s.options.Leases, claims)
	for _, object := range m.objects {
		if snapshot, ours := volumesnapshots.Of(p.Origin, object); ours {
			seen.Snapshots = append(seen.Snapshots, snapshot)
		}
	}
	decision := volumesnapshots.Decide(seen)
	m.decision = &decision
	if decision.Newest != nil {
		remember(&m.copies.lent, decision.Newest.Suffix, p.Now)
	}
	p.RequeueAt(decision.RequeueAt)
	if decision.Unready {
		m.listAt = kube.EarlierOf(m.listAt, p.Now.Add(unreadyInterval))
	}
	p.RequeueAt(m.listAt)
	return errors.Join(s.make(ctx, p, m), s.own(ctx, p, m), s.deleteSnapshots(ctx, p, m),
		s.deleteClaims(ctx, p, decision.DeleteClaims))
}

// leave forgets the snapshots of a set that is in mode Snapshot no more. They stay while the set does: its user may come
// back to them.
func (s *Snapshots) leave(p *pass.Pass) {
	if s.memories.Has(p.Set.UID) {
		newestAt.DeleteLabelValues(p.ScaleSet.Name, p.ScaleSet.Namespace)
		s.memories.Forget(p.Set.UID)
	}
}

// list lists the set's VolumeSnapshots if that is due. Without an answer, those that were listed before count.
func (s *Snapshots) list(ctx context.Context, p *pass.Pass, m *memory) error {
	if p.Now.Before(m.listAt) {
		return nil
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(volumesnapshots.Kind.GroupVersion().WithKind(volumesnapshots.Kind.Kind + "List"))
	err := s.options.Reader.List(ctx, list, client.InNamespace(p.Origin.Namespace), client.Limit(listLimit),
		client.MatchingLabels{v1alpha1.LabelScaleSetName: p.Origin.Name})
	m.listAt = s.options.Clock.Now().Add(listInterval)
	p.RequeueAt(m.listAt)
	switch {
	case err == nil:
		m.missing, m.objects = nil, make(map[string]*unstructured.Unstructured, len(list.Items))
		for i := range list.Items {
			m.objects[list.Items[i].GetName()] = &list.Items[i]
		}
		return nil
	case isMissing(err):
		m.missing = kindMissing()
		return nil
	case apierrors.IsForbidden(err):
		m.missing = &volumesnapshots.Trouble{Reason: v1alpha1.ReasonSnapshotRefused, Message: fmt.Sprintf(
			"the manager may not list VolumeSnapshots: %v; the chart of the scale set gives it the right while "+
				"volumeClaimPool.mode is Snapshot; runners start with empty claims", err)}
		return nil
	case m.objects == nil:
		m.listAt = time.Time{} // runners wait for it
		return fmt.Errorf("list VolumeSnapshots: %w", err)
	}
	log.FromContext(ctx).Error(err, "Can't list VolumeSnapshots, asking again")
	return nil
}

// isMissing reports whether a request failed because the cluster doesn't have the kind.
func isMissing(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }

func kindMissing() *volumesnapshots.Trouble {
	return &volumesnapshots.Trouble{Reason: v1alpha1.ReasonSnapshotKindMissing, Message: fmt.Sprintf(
		"the cluster has no %s: install its CustomResourceDefinitions and the snapshot controller; runners start with "+
			"empty claims", volumesnapshots.Kind.GroupKind())}
}

// make has the VolumeSnapshots made that are decided.
func (s *Snapshots) make(ctx context.Context, p *pass.Pass, m *memory) error {
	if p.Now.Before(m.allowedAt) {
		p.RequeueAt(m.allowedAt)
		return nil
	}
	m.refused = nil
	for _, claim := range m.decision.Create {
		object := volumesnapshots.New(p.Origin, claim)
		err := s.options.Client.Create(ctx, object)
		switch {
		case err == nil:
			m.objects[object.GetName()] = object
			log.FromContext(ctx).Info("Asked for a snapshot", "claim", claim.Name, "job", claim.Commit.Job)
		case apierrors.IsAlreadyExists(err):
			m.listAt = p.Now
		case isMissing(err) && !kube.IsNamespaceTerminating(err):
			m.missing = kindMissing()
			return nil
		case kube.IsUnanswered(err):
			return fmt.Errorf("create VolumeSnapshot %s: %w", claim.Name, err)
		default:
			m.allowedAt = p.Now.Add(refusedInterval)
			p.RequeueAt(m.allowedAt)
			m.refused = &volumesnapshots.Trouble{Reason: v1alpha1.ReasonSnapshotRefused, Message: fmt.Sprintf(
				"the API server refuses VolumeSnapshot %s: %v: raise the quota, lower keepSnapshots, or correct what forbids "+
					"it", claim.Name, err)}
			return nil
		}
	}
	if len(m.decision.Create) > 0 {
		m.listAt = kube.EarlierOf(m.listAt, p.Now.Add(unreadyInterval))
		p.RequeueAt(m.listAt)
	}
	return nil
}

// own changes the owners of VolumeSnapshots, so that they go with the set, or stay.
func (s *Snapshots) own(ctx context.Context, p *pass.Pass, m *memory) error {
	if len(m.decision.SetOwners) > 0 {
		m.listAt = p.Now // what was listed is no longer so
	}
	return kube.ForEach(ctx, kube.MaxParallelism, m.decision.SetOwners,
		func(ctx context.Context, of volumesnapshots.Object) error {
			before := m.objects[of.Name]
			after := before.DeepCopy()
			volumesnapshots.SetOwners(after, p.Origin)
			err := s.options.Client.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
			if err = kube.IgnoreOvertaken(err); err != nil {
				return fmt.Errorf("write the owner of VolumeSnapshot %s: %w", of.Name, err)
			}
			return nil
		})
}

// deleteSnapshots deletes the VolumeSnapshots that go.
func (s *Snapshots) deleteSnapshots(ctx context.Context, p *pass.Pass, m *memory) error {
	var failed []error
	for _, gone := range m.decision.DeleteSnapshots {
		err := s.options.Client.Delete(ctx, m.objects[gone.Name].DeepCopy(), client.Preconditions{UID: &gone.UID})
		if err = kube.IgnoreOvertaken(err); err != nil {
			failed = append(failed, fmt.Errorf("delete VolumeSnapshot %s: %w", gone.Name, err))
			continue
		}
		delete(m.objects, gone.Name)
		log.FromContext(ctx).Info("Deleted a snapshot", "snapshot", gone.Name, "message", gone.Why)
		report.RecordEvent(ctx, s.options.Recorder, p.Origin, nil, report.Normal(reasonSnapshotDeleted, actionSnapshot,
			fmt.Sprintf("VolumeSnapshot %s is deleted: %s", gone.Name, gone.Why)))
	}
	return errors.Join(failed...)
}

// deleteClaims deletes claims that nobody needs any more.
func (s *Snapshots) deleteClaims(ctx context.Context, p *pass.Pass, gone []volumesnapshots.Object) error {
	return kube.ForEach(ctx, kube.MaxParallelism, gone, func(ctx context.Context, gone volumesnapshots.Object) error {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: p.Origin.Namespace, Name: gone.Name}}
		err := s.options.Client.Delete(ctx, claim, client.Preconditions{UID: &gone.UID})
		if err = kube.IgnoreOvertaken(err); err != nil {
			return fmt.Errorf("delete claim %s: %w", gone.Name, err)
		}
		log.FromContext(ctx).Info("Deleted a claim", "claim", gone.Name, "message", gone.Why)
		return nil
	})
}

// discard deletes the claims that wait for a snapshot which can't be made.
func (s *Snapshots) discard(ctx context.Context, p *pass.Pass, claims []corev1.PersistentVolumeClaim) error {
	var gone []volumesnapshots.Object
	for i := range claims {
		if claim, ours := volumesnapshots.ClaimOf(p.Origin, &claims[i]); ours && !claim.Deleting {
			gone = append(gone, volumesnapshots.Object{Name: claim.Name, UID: claim.UID,
				Why: "no snapshot of it can be made"})
		}
	}
	return s.deleteClaims(ctx, p, gone)
}
