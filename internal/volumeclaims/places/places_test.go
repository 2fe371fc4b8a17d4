package places_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/internal/kube/nodes"
	"github.com/harrier-ci/harrier/internal/volumeclaims/places"
)

// volume returns one with an alternative for each pair of label and value.
func volume(pairs ...string) *corev1.PersistentVolume {
	required := &corev1.NodeSelector{}
	for i := 0; i < len(pairs); i += 2 {
		in := corev1.NodeSelectorRequirement{Key: pairs[i], Operator: corev1.NodeSelectorOpIn,
			Values: []string{pairs[i+1]}}
		required.NodeSelectorTerms = append(required.NodeSelectorTerms,
			corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{in}})
	}
	return &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{
		NodeAffinity: &corev1.VolumeNodeAffinity{Required: required}}}
}

func inZone(name, zone string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		corev1.LabelHostname: name, corev1.LabelTopologyZone: zone, "topology.disks.example/node": name}}}
}

func watched(known bool, all ...*corev1.Node) *nodes.Watched {
	w := &nodes.Watched{}
	w.Await(func() bool { return known })
	for _, node := range all {
		w.Put(node)
	}
	return w
}

func TestWhatIsKnownOfAPlace(t *testing.T) {
	const zone, host = corev1.LabelTopologyZone, corev1.LabelHostname
	cordoned, unreachable := inZone("n", "a"), inZone("n", "a")
	cordoned.Spec.Unschedulable = true
	unreachable.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}}
	twoKeys := volume(zone, "a")
	in := corev1.NodeSelectorRequirement{Key: host, Operator: corev1.NodeSelectorOpIn, Values: []string{"n", "m"}}
	twoKeys.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions = append(
		twoKeys.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions, in)
	notIn := volume(zone, "a")
	notIn.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Operator = corev1.NodeSelectorOpNotIn
	byName := volume(zone, "a")
	byName.Spec.NodeAffinity.Required.NodeSelectorTerms[0] = corev1.NodeSelectorTerm{
		MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn,
			Values: []string{"lost"}}}}
	other := inZone("other", "b")
	for name, test := range map[string]struct {
		volume    *corev1.PersistentVolume
		nodes     *nodes.Watched
		want      places.State
		elsewhere bool
	}{
		"a zone with a node":                      {volume(zone, "a"), watched(true, inZone("n", "a")), places.Reachable, false},
		"and another zone":                        {volume(zone, "a"), watched(true, inZone("n", "a"), other), places.Reachable, true},
		"a zone without a node":                   {volume(zone, "a"), watched(true, other), places.Empty, true},
		"one of two zones has a node":             {volume(zone, "a", zone, "b"), watched(true, other), places.Reachable, false},
		"a zone whose node is cordoned":           {volume(zone, "a"), watched(true, cordoned), places.Empty, false},
		"a zone whose node doesn't answer":        {volume(zone, "a"), watched(true, unreachable), places.Empty, false},
		"not all nodes are shown":                 {volume(zone, "a"), watched(false, other), places.Unknown, true},
		"nodes are not watched":                   {volume(zone, "a"), nil, places.Unknown, true},
		"a node that is there":                    {volume(host, "n"), watched(true, inZone("n", "a")), places.Reachable, false},
		"a node that is cordoned":                 {volume(host, "n"), watched(true, cordoned), places.Empty, false},
		"a node that is no more":                  {volume(host, "n"), watched(true, other), places.Gone, true},
		"the same by its name":                    {byName, watched(true, other), places.Gone, true},
		"nodes by name and zone, one is there":    {twoKeys, watched(true, inZone("n", "a")), places.Reachable, false},
		"nodes by name and zone, in another zone": {twoKeys, watched(true, inZone("n", "b")), places.Gone, true},
		"a node by a driver's label":              {volume("topology.disks.example/node", "lost"), watched(true, other), places.Empty, true},
		"a label that isn't kept":                 {volume("rack", "7"), watched(true, other), places.Unknown, true},
		"an operator other than In":               {notIn, watched(true, other), places.Unknown, true},
		"a volume that can be used anywhere":      {&corev1.PersistentVolume{}, watched(true), places.Reachable, false},
	} {
		t.Run(name, func(t *testing.T) {
			place := places.OfVolume(test.volume)
			if got := place.In(test.nodes); got != test.want {
				t.Errorf("%s is %d, want %d", place, got, test.want)
			}
			if got := place.Elsewhere(test.nodes); got != test.elsewhere {
				t.Errorf("there may be a node elsewhere: %t, want %t", got, test.elsewhere)
			}
		})
	}
}

// Claims of one place have one name, whatever the order in which a driver writes it; a node is told from its zone.
func TestPlacesAreToldApart(t *testing.T) {
	const zone = corev1.LabelTopologyZone
	if one, two := places.OfVolume(volume(zone, "a", zone, "b")),
		places.OfVolume(volume(zone, "b", zone, "a")); one.String() != two.String() {
		t.Errorf("%s and %s are one place", one, two)
	}
	if got := places.OfVolume(volume(corev1.LabelHostname, "n")).String(); got != "node n" {
		t.Errorf("the place is %q", got)
	}
	selected := places.OfSelectedNode("n")
	if selected.In(watched(true)) != places.Unknown || !selected.Known() || places.OfSelectedNode("").Known() {
		t.Error("the node for which a volume was made says where it was, not where it can be used")
	}
}
