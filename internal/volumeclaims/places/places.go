// Package places says where a volume can be used, and whether there are nodes: the place is what is blamed if a pod with
// the volume gets none. Pure, but for the nodes that a watch has shown.
package places

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/internal/kube/nodes"
)

// State is what is known of a place.
type State int

// States, from that of the best place to that of the worst.
const (
	// Reachable: there is a node that stays, or the volume can be used anywhere. It may be full.
	Reachable State = iota
	// Unknown: nothing is known of the place, or of nodes.
	Unknown
	// Empty: there is no node that stays. One may come: zones and groups of nodes are scaled to nothing.
	Empty
	// Gone: the volume is on a node that is no more. Nodes get new names.
	Gone
)

// Place is where a volume can be used. The zero value is not known.
type Place struct {
	// name tells places apart, and tells people which one it is.
	name string
	// anywhere is set if any node will do, else a node must meet all requirements of an alternative. There are none if
	// only the name is known, because the requirements can't be read or understood.
	anywhere     bool
	alternatives [][]nodes.Requirement
}

// OfVolume returns the place that a volume's node affinity names.
func OfVolume(volume *corev1.PersistentVolume) Place {
	if volume.Spec.NodeAffinity == nil || volume.Spec.NodeAffinity.Required == nil {
		return Place{name: "anywhere", anywhere: true}
	}
	var found Place
	var names []string
	understood := true
	for i := range volume.Spec.NodeAffinity.Required.NodeSelectorTerms {
		term := &volume.Spec.NodeAffinity.Required.NodeSelectorTerms[i]
		var requirements []nodes.Requirement
		for _, expression := range term.MatchExpressions {
			understood = understood && expression.Operator == corev1.NodeSelectorOpIn && nodes.Places(expression.Key)
			requirements = append(requirements, nodes.Requirement{Label: expression.Key, Values: expression.Values})
		}
		for _, field := range term.MatchFields { // metadata.name is the only one that there is
			understood = understood && field.Operator == corev1.NodeSelectorOpIn
			requirements = append(requirements, nodes.Requirement{Values: field.Values})
		}
		if len(requirements) == 0 {
			continue // as for the scheduler, it matches nothing
		}
		found.alternatives = append(found.alternatives, requirements)
		names = append(names, nameOf(requirements))
	}
	slices.Sort(names)
	if found.name = strings.Join(names, " or "); !understood {
		found.alternatives = nil
	}
	return found
}

// OfSelectedNode returns the place of a volume of which only the node is known for whose pod it was made. Whether it can
// be used on others, as in the same zone, isn't known: only the volume says that.
func OfSelectedNode(name string) Place {
	if name == "" {
		return Place{}
	}
	return Place{name: "node " + name}
}

// Known reports whether anything is known of the place.
func (p Place) Known() bool { return p.name != "" }

// String names the place.
func (p Place) String() string { return p.name }

// In returns what is known of the place, given the nodes. Nil nodes are not known.
func (p Place) In(watched *nodes.Watched) State {
	switch {
	case p.anywhere:
		return Reachable
	case len(p.alternatives) == 0 || watched == nil || !watched.Known():
		return Unknown
	}
	exists := false
	for _, requirements := range p.alternatives {
		there, stays := watched.Find(requirements)
		if stays {
			return Reachable
		}
		exists = exists || there
	}
	if !exists && p.isOneNode() {
		return Gone
	}
	return Empty
}

// Elsewhere reports whether there may be a node outside of the place: a pod with another claim may find one there.
func (p Place) Elsewhere(watched *nodes.Watched) bool {
	switch {
	case p.anywhere:
		return false
	case len(p.alternatives) == 0 || watched == nil || !watched.Known():
		return true
	}
	return watched.Other(p.alternatives)
}

// isOneNode reports whether the place is a single machine, or several, named one by one.
func (p Place) isOneNode() bool {
	return !slices.ContainsFunc(p.alternatives, func(requirements []nodes.Requirement) bool {
		return !slices.ContainsFunc(requirements, func(r nodes.Requirement) bool {
			return r.Label == "" || r.Label == corev1.LabelHostname
		})
	})
}

// nameOf names a place as people do: the zone, or the node.
func nameOf(requirements []nodes.Requirement) string {
	var parts []string
	for _, r := range requirements {
		values := slices.Sorted(slices.Values(r.Values))
		_, what, _ := strings.Cut(r.Label, "/")
		if r.Label == "" || r.Label == corev1.LabelHostname {
			what = "node"
		}
		parts = append(parts, fmt.Sprintf("%s %s", what, strings.Join(values, ", ")))
	}
	slices.Sort(parts)
	return strings.Join(parts, " in ")
}

// Anywhere reports whether the volume is known to be usable on all nodes.
func (p Place) Anywhere() bool { return p.anywhere }
