package prices

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/operations/history/fold"
)

// nodeType is the label that a row of before version 9 of the tables knows of its node, and no other.
const nodeType = corev1.LabelInstanceTypeStable

// wellKnown are the labels that are kept of every node, as their providers set them: what the machine is, and whether it
// may be taken away. Where the text of a node lacks one of these, the node lacked it: a later version that adds a label
// here must write down that a node lacks it, as is done for labels that rules name. Those are known from then on.
var wellKnown = []string{
	corev1.LabelArchStable, nodeType,
	"karpenter.sh/capacity-type",            // spot, on-demand, reserved
	"eks.amazonaws.com/capacityType",        // SPOT, ON_DEMAND
	"cloud.google.com/gke-spot",             // true
	"cloud.google.com/gke-preemptible",      // true
	"cloud.google.com/gke-provisioning",     // spot, standard, preemptible
	"kubernetes.azure.com/scalesetpriority", // spot
}

const (
	// longestText is what a column of a job takes; labels that don't fit are not kept.
	longestText = 512
	// nothingElse begins the text of a node of which no other label is known than those that follow.
	nothingElse = "?"
	// lacks stands before the name of a label that the node doesn't have.
	lacks = "!"
)

// NodeLabels returns the text by which the ledger keeps the labels of a node: the well-known ones, and those that the
// rules name, also if the node lacks them. It is never empty, as an empty text means that nobody has seen the labels.
func (r Rules) NodeLabels(labels map[string]string) string {
	named := map[string]bool{}
	for i := range r {
		for name := range r[i].NodeLabels {
			named[name] = !slices.Contains(wellKnown, name)
		}
	}
	var known, others []string
	for _, name := range wellKnown {
		if value, has := labels[name]; has {
			known = append(known, name+"="+value)
		} else if name == nodeType {
			known = append(known, lacks+name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if value, has := labels[name]; named[name] && has {
			others = append(others, name+"="+value)
		} else if named[name] {
			others = append(others, lacks+name)
		}
	}
	for _, text := range []string{join(append(known, others...)), join(known)} {
		if len(text) <= longestText {
			return text
		}
	}
	return ofType(labels[nodeType])
}

// ofType is the text of a node of which only the type is known.
func ofType(kind string) string { return join([]string{nothingElse, nodeType + "=" + kind}) }

func join(parts []string) string { return strings.Join(parts, ",") }

// mostResources bounds the extended resources that are kept of a job: what has more has no price.
const mostResources = 8

// tooMany stands in the place of more resources than are kept. No rule has a price for it.
const tooMany = fold.Others + "=1"

// mostOfAResource is more than any machine has of one; sums must not overflow.
const mostOfAResource = 1_000_000

// ExtendedResources returns the text by which the ledger keeps what a job requests besides CPU and memory.
func ExtendedResources(requested map[string]int64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(requested)) {
		if IsExtended(name) && requested[name] > 0 {
			parts = append(parts, name+"="+strconv.FormatInt(min(requested[name], mostOfAResource), 10))
		}
	}
	if text := join(parts); len(parts) <= mostResources && len(text) <= longestText {
		return text
	}
	return tooMany
}

// IsExtended reports whether a resource is one that a device plugin or an administrator has given nodes, such as
// nvidia.com/gpu: it has a domain, which is not that of Kubernetes.
func IsExtended(resource string) bool {
	domain, _, has := strings.Cut(resource, "/")
	return has && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io") &&
		!strings.HasPrefix(domain, "requests.")
}

// Machine is the kind of machine on which a job ran, as far as prices depend on it: labels of its node, and the names of
// the extended resources that the job requested. It has the form of the database.
type Machine string

// separators are in no label and no name of a resource.
const separators = "|;\n"

// MachineOf returns the kind of machine of a job, and how much the job requested of each of its extended resources, in
// their order. kind is the type of the node, for a row that has nothing else.
func MachineOf(nodeLabels, kind, extendedResources string) (Machine, []int64) {
	if nodeLabels == "" && kind != "" {
		nodeLabels = ofType(kind)
	}
	if strings.ContainsAny(nodeLabels, separators) || nodeLabels != "" && len(nodeLabels) > longestText {
		nodeLabels = ""
	}
	if strings.ContainsAny(extendedResources, separators) {
		extendedResources = tooMany
	}
	var names []string
	var amounts []int64
	for part := range strings.SplitSeq(extendedResources, ",") {
		name, amount, _ := strings.Cut(part, "=")
		if number, err := strconv.ParseInt(amount, 10, 64); err == nil && number > 0 && name != "" {
			names, amounts = append(names, name), append(amounts, min(number, mostOfAResource))
		}
	}
	return Machine(nodeLabels + "|" + join(names)), amounts
}

// Parts returns the labels of the node, and the names of the extended resources.
func (m Machine) Parts() (nodeLabels, extendedResources string) {
	nodeLabels, extendedResources, _ = strings.Cut(string(m), "|")
	return nodeLabels, extendedResources
}

// Unknown is one of which nothing is known, on which nothing but CPU and memory was requested.
const Unknown = Machine("|")

// Folded is the kind of machine in which those count that are not told apart. No rule prices it.
const Folded = Machine("|" + fold.Others)

// facts are what is known of a machine.
type facts struct {
	labels map[string]string
	lacks  map[string]bool
	// complete is set if well-known labels that are not in labels are those that the node lacked.
	complete  bool
	resources []string
}

func (m Machine) facts() facts {
	labels, resources := m.Parts()
	known := facts{labels: map[string]string{}, lacks: map[string]bool{}, complete: labels != ""}
	for part := range strings.SplitSeq(labels, ",") {
		name, value, has := strings.Cut(part, "=")
		switch lacking, is := strings.CutPrefix(part, lacks); {
		case part == nothingElse:
			known.complete = false
		case is:
			known.lacks[lacking] = true
		case has:
			known.labels[name] = value
		}
	}
	if resources != "" {
		known.resources = strings.Split(resources, ",")
	}
	return known
}
