package volumeclaims_test

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/harrier-ci/harrier/internal/volumeclaims"
	"github.com/harrier-ci/harrier/internal/volumeclaims/places"
)

// pass is one pass of the manager.
func (s *simulation) pass() {
	world := s.observe()
	s.memory.Settle(s.memory.Overdue(s.now), sets.KeySet(s.volumes), s.now)
	d := s.memory.Observe(&world).Plan(len(s.wishes))
	s.memory.Follow(&d, s.now)
	s.last = d
	for _, gone := range d.Deletions {
		delete(s.volumes, gone.Name)
		s.result.deleted++
	}
	for _, record := range d.Records {
		if v := s.volumes[record.Claim]; v != nil && record.Key != volumeclaims.OwnersKey {
			metav1.SetMetaDataAnnotation(&v.pvc.ObjectMeta, record.Key, record.Value)
		}
	}
	for _, replacement := range d.Replacements {
		s.wishes = append(s.wishes, s.pods[replacement.Runner].wishedAt)
		delete(s.pods, replacement.Runner)
		s.result.swaps++
	}
	for _, lease := range d.Leases {
		s.names++
		pod := &simPod{name: fmt.Sprintf("runner-%06d", s.names), claim: lease.Claims["docker"], createdAt: s.now,
			wishedAt: s.wishes[0]}
		s.wishes = s.wishes[1:]
		s.pods[pod.name] = pod
		if other := s.holder(pod); other != "" {
			s.Fatalf("%s and %s have claim %s", pod.name, other, pod.claim)
		}
		switch {
		case pod.claim == "" || s.volumes[pod.claim] != nil:
		case s.world.refused:
			pod.failure, pod.failsSince = volumeclaims.Refused, s.now
		default:
			s.provide(pod.claim, "", "")
		}
	}
}

// holder returns the other pod that has a pod's claim.
func (s *simulation) holder(pod *simPod) string {
	for name, other := range s.pods {
		if other != pod && pod.claim != "" && other.claim == pod.claim {
			return name
		}
	}
	return ""
}

// observe returns what the manager sees.
func (s *simulation) observe() volumeclaims.World {
	world := volumeclaims.World{Set: s.set, Now: s.now, Listed: true, Suffix: volumeclaims.RandomSuffix,
		Mounted: sets.New[string](), Nodes: s.watched}
	if s.world.blind {
		world.Nodes = nil
	}
	trouble := false
	for _, pod := range s.ordered() {
		v := s.volumes[pod.claim]
		trouble = trouble || (s.late(pod) && v != nil && v.zone != "")
		world.Runners = append(world.Runners, s.runnerOf(pod))
		if pod.claim != "" {
			world.Mounted.Insert(pod.claim)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.volumes)) {
		v := s.volumes[name]
		claim, ours := volumeclaims.ClaimOf(s.set, v.pvc)
		if !ours {
			s.Fatalf("claim %s is not the set's", name)
		}
		if v.read = v.read || (trouble && !s.world.blind); v.read && v.zone != "" {
			claim.Place = places.OfVolume(s.persistent(v))
		}
		world.Claims = append(world.Claims, claim)
	}
	return world
}

// late reports whether a pod has had no node for so long that the manager asks about it.
func (s *simulation) late(pod *simPod) bool {
	return !pod.unplacedAt.IsZero() && s.now.Sub(pod.unplacedAt) >= readAfter
}

// runnerOf returns what the manager sees of a pod and its runner.
func (s *simulation) runnerOf(pod *simPod) volumeclaims.Runner {
	r := volumeclaims.Runner{Name: pod.name, CreatedAt: pod.createdAt, PlacedAt: pod.placedAt, Node: pod.node,
		Claims: map[string]string{"docker": pod.claim}, Patience: patience,
		Up: !pod.endsAt.IsZero(), Started: !pod.endsAt.IsZero()}
	v := s.volumes[pod.claim]
	switch {
	case pod.failure != "":
		r.Failure = volumeclaims.Failure{Kind: pod.failure, Since: pod.failsSince}
	case s.late(pod) && s.world.unmade && v != nil && v.zone == "":
		r.Failure = volumeclaims.Failure{Kind: volumeclaims.Unprovisioned, Since: pod.unplacedAt}
	case !pod.unplacedAt.IsZero():
		r.Failure = volumeclaims.Failure{Kind: volumeclaims.Unplaced, Since: pod.unplacedAt}
	}
	if s.late(pod) && s.world.tells {
		r.Announced, r.Denied = pod.orderedFor, pod.denied
	}
	return r
}

// persistent returns the volume as a driver makes it.
func (s *simulation) persistent(v *simVolume) *corev1.PersistentVolume {
	in := corev1.NodeSelectorRequirement{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn,
		Values: []string{v.zone}}
	if s.world.local {
		in.Key, in.Values = corev1.LabelHostname, []string{v.node}
	}
	return &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{NodeAffinity: &corev1.VolumeNodeAffinity{
		Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{in}}}}}}}
}
