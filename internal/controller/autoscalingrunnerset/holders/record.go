package holders

import (
	"strconv"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/journal"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
)

// What a record says beside its holder, which is in spec.holderIdentity, where kubectl shows it.
const (
	annotationUID  = "actions.github.com/holder-uid"
	annotationURL  = "actions.github.com/github-config-url"
	annotationWay  = "actions.github.com/reached-by"
	annotationID   = v1alpha1.AnnotationRunnerScaleSetID
	annotationName = v1alpha1.AnnotationRunnerScaleSetName
)

// Set is an AutoscalingRunnerSet that holds a scale set, or is to.
type Set struct {
	Key types.NamespacedName
	UID types.UID
}

// SetOf returns the one that an object is.
func SetOf(set *v1alpha1.AutoscalingRunnerSet) Set {
	return Set{client.ObjectKeyFromObject(set), set.UID}
}

// ScaleSet is one on GitHub, as GitHub has answered.
type ScaleSet struct {
	// URL is the config URL under which it was found, and Way how that was reached.
	URL string
	Way credentials.Way
	ID  int
	// Name may change, and says whether the id is still the same scale set's: a GitHub that lost its state assigns ids a
	// second time.
	Name string
}

// Record says who holds a scale set.
type Record struct {
	ScaleSet
	Holder Set

	lease *coordinationv1.Lease
}

// recordOf reads a Lease. It returns false if that is no record, or not one that this version can read.
func recordOf(lease *coordinationv1.Lease) (Record, bool) {
	namespace, name, named := strings.Cut(ptr.Deref(lease.Spec.HolderIdentity, ""), "/")
	id, err := strconv.Atoi(lease.Annotations[annotationID])
	r := Record{
		ScaleSet: ScaleSet{
			URL: lease.Annotations[annotationURL], Way: credentials.Way(lease.Annotations[annotationWay]), ID: id,
			Name: lease.Annotations[annotationName],
		},
		Holder: Set{
			types.NamespacedName{Namespace: namespace, Name: name},
			types.UID(lease.Annotations[annotationUID]),
		},
		lease: lease,
	}
	return r, named && err == nil && lease.Name == r.name()
}

// name returns the name of the record's Lease, which there can be only one of for each scale set and way.
func (s ScaleSet) name() string {
	return "scale-set-" + kube.Hash([]string{journal.AddressKey(s.URL), strconv.Itoa(s.ID), string(s.Way)})
}

// leaseOf returns the Lease of a record in a namespace. Its labels are those of all that belongs to a scale set.
func (r Record) leaseOf(namespace string) *coordinationv1.Lease {
	lease := r.lease.DeepCopy()
	if lease == nil {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: r.name()}}
	}
	lease.Labels = map[string]string{
		v1alpha1.LabelScaleSetName: r.Holder.Key.Name, v1alpha1.LabelScaleSetNamespace: r.Holder.Key.Namespace,
	}
	lease.Annotations = map[string]string{
		annotationUID: string(r.Holder.UID), annotationURL: r.URL, annotationWay: string(r.Way),
		annotationID: strconv.Itoa(r.ID), annotationName: r.Name,
	}
	lease.Spec.HolderIdentity = new(r.Holder.Key.String())
	return lease
}

// IsAt reports whether the record is about a scale set with that id at the address, however it was reached.
func (r Record) IsAt(address string, id int) bool {
	return r.ID == id && journal.MayBeOneAddress(r.URL, address)
}

// bars reports whether a record keeps a set from holding what it has found. It does if both have reached the same
// server, or if both are in one namespace and the scale set has the same name, for whatever way. An id under another
// name says nothing.
func (r Record) bars(set Set, found ScaleSet) bool {
	switch {
	case r.Holder.UID == set.UID:
		return false
	case r.Way == found.Way:
		return journal.MayBeOneName(r.Name, found.Name)
	}
	return r.Holder.Key.Namespace == set.Key.Namespace && strings.EqualFold(r.Name, found.Name)
}
