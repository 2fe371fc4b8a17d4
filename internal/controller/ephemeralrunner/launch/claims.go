package launch

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
	"github.com/harrier-ci/harrier/internal/volumesnapshots"
)

// createClaims creates the claims that the runner names and that don't exist. One that exists must be the set's,
// whoever says that the runner may mount it.
func (l *Launcher) createClaims(
	ctx context.Context, set *v1alpha1.AutoscalingRunnerSet, runner *v1alpha1.EphemeralRunner,
) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	known, err := l.knownClaims(ctx, runner)
	if err != nil {
		return err
	}
	find := func(name string) *corev1.PersistentVolumeClaim {
		claim := &corev1.PersistentVolumeClaim{}
		if l.options.Client.Get(ctx, types.NamespacedName{Namespace: runner.Namespace, Name: name}, claim,
			client.UnsafeDisableDeepCopy) != nil {
			return nil
		}
		return claim
	}
	for _, claim := range volumeclaims.Missing(set, runner, find) {
		if known[claim.Name], err = l.createClaim(ctx, claim); err != nil {
			return err
		}
	}
	for _, name := range runner.Spec.VolumeClaims {
		claim, exists := known[name]
		var why string
		switch {
		case name == "":
		case !exists:
			why = "doesn't exist, and volumeClaimTemplates has no template for it any more"
		case claim.DeletionTimestamp != nil:
			why = "is being deleted"
		case !volumeclaims.Belongs(set, claim):
			why = "exists and is not this scale set's"
		default:
			if _, ours := volumeclaims.ClaimOf(set, claim); !ours {
				why = "is of another GitHub address or runner group than the scale set now"
			}
		}
		if why != "" { // what the API server refuses may be allowed later; this may not
			return &rules.Failure{
				Reason:  v1alpha1.ReasonVolumeClaimUnusable,
				Message: fmt.Sprintf("claim %s %s: another runner takes this one's place", name, why),
			}
		}
	}
	return nil
}

// knownClaims returns the runner's claims that the cache has, by name.
func (l *Launcher) knownClaims(
	ctx context.Context, runner *v1alpha1.EphemeralRunner,
) (map[string]*corev1.PersistentVolumeClaim, error) {
	known := map[string]*corev1.PersistentVolumeClaim{}
	for _, name := range runner.Spec.VolumeClaims {
		claim := &corev1.PersistentVolumeClaim{}
		err := l.options.Client.Get(ctx, types.NamespacedName{Namespace: runner.Namespace, Name: name}, claim,
			client.UnsafeDisableDeepCopy)
		if client.IgnoreNotFound(err) != nil {
			return nil, requestFailure(v1alpha1.ReasonVolumeClaimRefused, "read claim "+name, err)
		}
		if err == nil {
			known[name] = claim
		}
	}
	return known, nil
}

// createClaim creates a claim and returns it, or the one that has its name. What is refused may be allowed later: a
// ResourceQuota gets room, a policy or the template is corrected.
func (l *Launcher) createClaim(
	ctx context.Context, claim *corev1.PersistentVolumeClaim,
) (*corev1.PersistentVolumeClaim, error) {
	err := l.options.Client.Create(ctx, claim)
	if apierrors.IsAlreadyExists(err) { // an earlier try has created it, and the watch has not shown it yet
		existing := &corev1.PersistentVolumeClaim{}
		if err = l.options.Reader.Get(ctx, client.ObjectKeyFromObject(claim), existing); err == nil {
			return existing, nil
		}
	}
	switch {
	case err == nil:
		return claim, nil
	case kube.IsNamespaceTerminating(err):
		return nil, errNamespaceClosed
	case kube.IsUnanswered(err):
		return nil, requestFailure(v1alpha1.ReasonVolumeClaimRefused, "create claim "+claim.Name, err)
	case kube.IsQuotaExceeded(err):
		return nil, &rules.Failure{Reason: v1alpha1.ReasonVolumeClaimRefused, Message: fmt.Sprintf(
			"the API server refuses claim %s: %v: raise the quota, lower volumeClaimPool.max (in mode Snapshot "+
				"maxRunners), or delete claims that nobody needs", claim.Name, err)}
	}
	return nil, &rules.Failure{Reason: v1alpha1.ReasonVolumeClaimRefused, Message: fmt.Sprintf(
		"the API server refuses claim %s: %v: correct volumeClaimTemplates of the AutoscalingRunnerSet, or what "+
			"forbids it in namespace %s", claim.Name, err, claim.Namespace)}
}

// CommitClaims writes on the runner's claims that a snapshot may be made of them, because its job, which ended before
// now, is trusted. Claims that aren't the set's are left alone, whatever the runner names.
func (l *Launcher) CommitClaims(
	ctx context.Context, set *v1alpha1.AutoscalingRunnerSet, runner *v1alpha1.EphemeralRunner, now time.Time,
) error {
	commit := volumesnapshots.NewCommit(runner, now).String()
	for _, name := range slices.Sorted(maps.Values(runner.Spec.VolumeClaims)) {
		if name == "" {
			continue
		}
		before := &corev1.PersistentVolumeClaim{}
		err := l.options.Client.Get(ctx, types.NamespacedName{Namespace: runner.Namespace, Name: name}, before)
		if err == nil && volumeclaims.Belongs(set, before) && before.DeletionTimestamp == nil {
			after := before.DeepCopy()
			kube.SetAnnotation(after, v1alpha1.AnnotationVolumeClaimCommit, commit)
			_, err = kube.Patch(ctx, l.options.Client, after, before)
		}
		if kube.IgnoreOvertaken(err) != nil {
			return fmt.Errorf("write on claim %s that a snapshot may be made of it: %w", name, err)
		}
	}
	return nil
}

// DiscardClaims deletes the runner's claims, of which none may be passed on to another runner. Claims that aren't the
// set's are left alone, whatever the runner names. It fails with apierrors.IsForbidden while the manager may not delete
// one of them: whoever gets it next would read what an untrusted job has left. Only of a set that is being deleted the
// right goes with the release, and the claims with the set.
func (l *Launcher) DiscardClaims(
	ctx context.Context, set *v1alpha1.AutoscalingRunnerSet, runner *v1alpha1.EphemeralRunner,
) error {
	for _, name := range slices.Sorted(maps.Values(runner.Spec.VolumeClaims)) {
		if name == "" {
			continue
		}
		err := l.discardClaim(ctx, set, types.NamespacedName{Namespace: runner.Namespace, Name: name})
		goes := apierrors.IsForbidden(err) && set.DeletionTimestamp != nil
		if kube.IgnoreOvertaken(err) != nil && !goes {
			return fmt.Errorf("delete claim %s: %w", name, err)
		}
	}
	return nil
}

func (l *Launcher) discardClaim(
	ctx context.Context, set *v1alpha1.AutoscalingRunnerSet, key types.NamespacedName,
) error {
	claim := &corev1.PersistentVolumeClaim{}
	err := l.options.Client.Get(ctx, key, claim)
	if apierrors.IsNotFound(err) { // the watch may not have shown it yet
		err = l.options.Reader.Get(ctx, key, claim)
	}
	if err != nil || !volumeclaims.Belongs(set, claim) || claim.DeletionTimestamp != nil {
		return err
	}
	return l.options.Client.Delete(ctx, claim, kube.UIDPrecondition(claim))
}
