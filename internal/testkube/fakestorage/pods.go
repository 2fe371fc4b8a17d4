package fakestorage

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Place returns when the pod may be bound to a node, and its claims are bound. Until then pending is called with what a
// scheduler says of the pod. It fails if ctx ends first.
func (s *Storage) Place(ctx context.Context, pod *corev1.Pod, pending func(message string)) error {
	for {
		changed := s.changes()
		why := s.place(ctx, pod)
		if why == "" {
			return nil
		}
		pending(why)
		if err := s.await(ctx, changed); err != nil {
			return err
		}
	}
}

// place makes one attempt, and returns the reason why the pod has no place.
func (s *Storage) place(ctx context.Context, pod *corev1.Pod) string {
	names := claimNames(pod)
	if len(names) == 0 {
		return ""
	}
	zone := ""
	var unbound []*corev1.PersistentVolumeClaim
	for _, name := range names {
		claim, err := s.claim(ctx, pod.Namespace, name)
		switch {
		case err != nil:
			return fmt.Sprintf("0/1 nodes are available: persistentvolumeclaim %q not found.", name)
		case claim.DeletionTimestamp != nil:
			return fmt.Sprintf("0/1 nodes are available: persistentvolumeclaim %q is being deleted.", name)
		case claim.Status.Phase == corev1.ClaimLost:
			return fmt.Sprintf("0/1 nodes are available: persistentvolumeclaim %q bound to non-existent "+
				"persistentvolume %q.",
				name, claim.Spec.VolumeName)
		case claim.Status.Phase != corev1.ClaimBound && s.options.Immediate:
			return "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."
		case claim.Status.Phase != corev1.ClaimBound:
			unbound = append(unbound, claim)
		case zone != "" && s.ZoneOf(claim) != zone:
			return "0/1 nodes are available: 1 node(s) had volume node affinity conflict."
		default:
			zone = s.ZoneOf(claim)
		}
	}
	zone, why := s.room(zone)
	for _, claim := range unbound {
		if why == "" {
			why = s.makeable(ctx, claim)
		}
		if why == "" && s.bind(ctx, claim, zone) != nil {
			why = fmt.Sprintf("running PreBind plugin \"VolumeBinding\": binding volumes: claim %s", claim.Name)
		}
	}
	return why
}

// room returns a zone with room for a pod: the given one, if there is one. Without room it returns the reason why.
func (s *Storage) room(zone string) (in, why string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if zone != "" {
		if s.full.Has(zone) {
			return "", "0/1 nodes are available: 1 node(s) had volume node affinity conflict."
		}
		return zone, ""
	}
	for _, zone := range s.options.Zones {
		if !s.full.Has(zone) {
			return zone, ""
		}
	}
	return "", "0/1 nodes are available: 1 Insufficient cpu."
}

// makeable returns the reason why no volume can be made for a claim, empty if it can.
func (s *Storage) makeable(ctx context.Context, claim *corev1.PersistentVolumeClaim) string {
	s.mutex.Lock()
	unmade := s.unmade
	s.mutex.Unlock()
	if unmade != nil {
		if why := unmade(claim); why != "" {
			return why
		}
	}
	if source := claim.Spec.DataSource; source != nil && source.Kind == "PersistentVolumeClaim" {
		copied, err := s.claim(ctx, claim.Namespace, source.Name)
		if err != nil || copied.Status.Phase != corev1.ClaimBound || copied.DeletionTimestamp != nil {
			return fmt.Sprintf("running PreBind plugin \"VolumeBinding\": claim %s can't be copied", source.Name)
		}
	}
	return ""
}

// bind makes a volume in the zone for a claim.
func (s *Storage) bind(ctx context.Context, claim *corev1.PersistentVolumeClaim, zone string) error {
	if s.options.Latency > 0 {
		timer := s.options.Clock.NewTimer(s.options.Latency)
		defer timer.Stop()
		select {
		case <-timer.C():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	// The zone is known before anybody sees that the claim is bound. The UID keeps the patch from a later claim of the
	// same name.
	s.change(func() { s.zones[claim.UID] = zone })
	claims := s.clientset.CoreV1().PersistentVolumeClaims(claim.Namespace)
	for _, step := range []struct {
		subresource string
		change      map[string]any
	}{
		{change: map[string]any{"spec": map[string]any{"volumeName": "pvc-" + string(claim.UID)}}},
		{"status", map[string]any{"status": map[string]any{
			"phase": corev1.ClaimBound, "accessModes": claim.Spec.AccessModes,
			"capacity": claim.Spec.Resources.Requests,
		}}},
	} {
		step.change["metadata"] = map[string]any{"uid": claim.UID}
		patch, err := json.Marshal(step.change)
		if err != nil {
			return fmt.Errorf("encode a volume of claim %s: %w", claim.Name, err)
		}
		var subresources []string
		if step.subresource != "" {
			subresources = append(subresources, step.subresource)
		}
		if _, err := claims.Patch(ctx, claim.Name, types.MergePatchType, patch, metav1.PatchOptions{},
			subresources...); err != nil {
			return fmt.Errorf("bind claim %s: %w", claim.Name, err)
		}
	}
	return nil
}

// Mount returns when the pod has its claims. Until then failed is called with what a kubelet says. It fails if ctx ends
// first.
func (s *Storage) Mount(ctx context.Context, pod *corev1.Pod, failed func(message string)) error {
	for _, name := range claimNames(pod) {
		for {
			changed := s.changes()
			why := s.mount(ctx, pod, name)
			if why == "" {
				break
			}
			failed(fmt.Sprintf("MountVolume.SetUp failed for volume %q : %s", s.volumeOf(ctx, pod.Namespace, name),
				why))
			if err := s.await(ctx, changed); err != nil {
				return err
			}
		}
	}
	return nil
}

// volumeOf returns the name of a claim's volume, as bind gives it.
func (s *Storage) volumeOf(ctx context.Context, namespace, name string) string {
	claim, err := s.claim(ctx, namespace, name)
	if err != nil {
		return "unknown"
	}
	return claim.Spec.VolumeName
}

// mount makes one attempt, and returns the reason why the claim is not mounted.
func (s *Storage) mount(ctx context.Context, pod *corev1.Pod, name string) string {
	claim, err := s.claim(ctx, pod.Namespace, name)
	if err != nil {
		return err.Error()
	}
	s.mutex.Lock()
	unmounted, holder := s.unmounted, s.holders[claim.UID]
	s.mutex.Unlock()
	if unmounted != nil {
		if why := unmounted(pod, claim); why != "" {
			return why
		}
	}
	if holder != nil && holder.UID != pod.UID {
		lives, err := s.lives(ctx, holder)
		if err != nil {
			return err.Error()
		}
		if lives {
			s.change(func() {
				s.violations = append(s.violations, fmt.Sprintf("claim %s is mounted by pod %s and by pod %s", name,
					holder.Name,
					pod.Name))
			})
		}
	}
	s.change(func() { s.holders[claim.UID] = pod })
	return ""
}

// lives reports whether a pod exists and has not ended. The node hears of that later.
func (s *Storage) lives(ctx context.Context, pod *corev1.Pod) (bool, error) {
	now, err := s.clientset.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || (err == nil && now.UID != pod.UID) {
		return false, nil
	}
	return err == nil && now.Status.Phase != corev1.PodSucceeded && now.Status.Phase != corev1.PodFailed, err
}

// Unmount says that no container of the pod runs any more.
func (s *Storage) Unmount(pod *corev1.Pod) {
	s.change(func() {
		for claim, holder := range s.holders {
			if holder.UID == pod.UID {
				delete(s.holders, claim)
			}
		}
	})
}

// claim returns a claim as the watch has shown it or, if it has not yet, as the API server has it.
func (s *Storage) claim(ctx context.Context, namespace, name string) (*corev1.PersistentVolumeClaim, error) {
	object, found, err := s.claims.GetStore().GetByKey(namespace + "/" + name)
	if err == nil && found {
		return object.(*corev1.PersistentVolumeClaim), nil
	}
	return s.clientset.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
}

// claimNames returns the names of the claims that a pod mounts.
func claimNames(pod *corev1.Pod) (names []string) {
	for i := range pod.Spec.Volumes {
		if claim := pod.Spec.Volumes[i].PersistentVolumeClaim; claim != nil {
			names = append(names, claim.ClaimName)
		}
	}
	return names
}
