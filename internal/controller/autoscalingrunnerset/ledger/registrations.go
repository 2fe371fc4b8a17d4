package ledger

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
)

const (
	// annotationFormer lists, as JSON, registrations at former addresses of the set. They are deleted once their last runner is gone,
	// because a busy runner needs its scale set. Until then they are recorded only here.
	annotationFormer = "actions.github.com/former-registrations"
	// annotationDeregistered holds the set's UID once the deregistration is over: a scale set that is found by the set's name after that
	// is not ours, or was given up. A copy of the set has another UID.
	annotationDeregistered = "actions.github.com/deregistered"
)

// RegistrationOf returns where the set is registered. It is nil once the deregistration is over, which an annotation says before the
// status does.
func RegistrationOf(set *v1alpha1.AutoscalingRunnerSet) *v1alpha1.ScaleSetRegistration {
	if IsDeregistered(set) {
		return nil
	}
	return kube.Registration(set)
}

// IsDeregistered reports whether the deregistration of a set is over.
func IsDeregistered(set *v1alpha1.AutoscalingRunnerSet) bool {
	uid := set.Annotations[annotationDeregistered]
	return uid != "" && uid == string(set.UID)
}

// Register writes the registration to the annotations and labels that ARC knows.
func Register(set *v1alpha1.AutoscalingRunnerSet, now v1alpha1.ScaleSetRegistration) {
	kube.SetAnnotation(set, v1alpha1.AnnotationRunnerScaleSetID, strconv.Itoa(now.ID))
	kube.SetAnnotation(set, v1alpha1.AnnotationRunnerGroupName, now.Group)
	kube.SetAnnotation(set, v1alpha1.AnnotationRunnerScaleSetName, now.Name)
	set.Labels = kube.Labels(nil, WithoutScope(set.Labels), kube.ScopeLabels(now.URL))
}

// Release takes the registration out of ARC's annotations, because the scale set is another set's.
func Release(set *v1alpha1.AutoscalingRunnerSet) {
	for _, key := range []string{v1alpha1.AnnotationRunnerScaleSetID, v1alpha1.AnnotationRunnerGroupName, v1alpha1.AnnotationRunnerScaleSetName} {
		delete(set.Annotations, key)
	}
}

// Deregister writes that the set has no scale set any more, and never will have: it is being deleted.
func Deregister(set *v1alpha1.AutoscalingRunnerSet) {
	delete(set.Annotations, v1alpha1.AnnotationRunnerScaleSetID)
	SetFormer(set, nil)
	kube.SetAnnotation(set, annotationDeregistered, string(set.UID))
}

// WithoutScope returns the labels without those of kube.ScopeLabels, because the address may have changed.
func WithoutScope(labels map[string]string) map[string]string {
	rest := maps.Clone(labels)
	for _, key := range []string{v1alpha1.LabelEnterprise, v1alpha1.LabelOrganization, v1alpha1.LabelRepository} {
		delete(rest, key)
	}
	return rest
}

// SameScaleSet compares id and address, but not name and group, which can be changed on GitHub.
func SameScaleSet(a, b v1alpha1.ScaleSetRegistration) bool {
	return a.ID == b.ID && SameURL(a.URL, b.URL)
}

// MayBeOneScaleSet also takes other spellings of the address into account.
func MayBeOneScaleSet(a, b v1alpha1.ScaleSetRegistration) bool {
	return a.ID == b.ID && MayBeOneAddress(a.URL, b.URL)
}

// Former is a registration at a former address, and how it was reached: the Secret, proxy, certificate authorities or vault for the new
// address may not work for the old one.
type Former struct {
	v1alpha1.ScaleSetRegistration
	// Credentials has names, not values. It is nil if an earlier version wrote the annotation.
	Credentials *credentials.Reference `json:"credentials,omitempty"`
	// Secret is what an earlier version wrote instead: the former spec.githubConfigSecret, empty if it was not known.
	Secret string `json:"githubConfigSecret,omitempty"`
	// UID is the set's, empty if an earlier version wrote the annotation. A copy of the set has another UID, and must not delete
	// what the annotation lists.
	UID types.UID `json:"uid,omitempty"`
}

// FormerOf returns the former registrations, none if the annotation can't be parsed: a guess could delete somebody else's scale set.
func FormerOf(set *v1alpha1.AutoscalingRunnerSet) []Former {
	var former []Former
	if json.Unmarshal([]byte(set.Annotations[annotationFormer]), &former) != nil {
		return nil // absent, or edited by hand and not JSON
	}
	return slices.DeleteFunc(former, func(f Former) bool { return f.UID != "" && f.UID != set.UID })
}

// SetFormer writes the annotation, or removes it if the list is empty.
func SetFormer(set *v1alpha1.AutoscalingRunnerSet, former []Former) {
	if len(former) == 0 {
		delete(set.Annotations, annotationFormer)
		return
	}
	text, _ := json.Marshal(former) //nolint:gosec // the Secret's name, not its content; strings and numbers can't fail to encode
	kube.SetAnnotation(set, annotationFormer, string(text))
}

// AddFormer lists a registration and how it was reached, unless it is listed already, because a pass that fails later is repeated.
func AddFormer(set *v1alpha1.AutoscalingRunnerSet, registration v1alpha1.ScaleSetRegistration, reached credentials.Reference) {
	former := FormerOf(set)
	if !slices.ContainsFunc(former, func(f Former) bool { return f.ScaleSetRegistration == registration }) {
		SetFormer(set, append(former, Former{ScaleSetRegistration: registration, Credentials: &reached, UID: set.UID}))
	}
}

// DropFormer removes from the list what returned selects.
func DropFormer(set *v1alpha1.AutoscalingRunnerSet, returned func(v1alpha1.ScaleSetRegistration) bool) {
	former := FormerOf(set)
	if rest := slices.DeleteFunc(slices.Clone(former), func(f Former) bool { return returned(f.ScaleSetRegistration) }); len(rest) < len(former) {
		SetFormer(set, rest)
	}
}

// IsFormer reports whether a scale set is on the list.
func IsFormer(set *v1alpha1.AutoscalingRunnerSet, registration v1alpha1.ScaleSetRegistration) bool {
	return slices.ContainsFunc(FormerOf(set), func(f Former) bool { return SameScaleSet(f.ScaleSetRegistration, registration) })
}

// MayBeFormer reports whether a scale set is on the list, perhaps in another spelling of its address.
func MayBeFormer(set *v1alpha1.AutoscalingRunnerSet, registration v1alpha1.ScaleSetRegistration) bool {
	return slices.ContainsFunc(FormerOf(set), func(f Former) bool { return MayBeOneScaleSet(f.ScaleSetRegistration, registration) })
}

// Registrations returns the registrations without their credentials.
func Registrations(former []Former) []v1alpha1.ScaleSetRegistration {
	registrations := make([]v1alpha1.ScaleSetRegistration, 0, len(former))
	for _, f := range former {
		registrations = append(registrations, f.ScaleSetRegistration)
	}
	return registrations
}

// ReferenceAt returns which of the known references is for an address. It returns false if only the status, which can be edited by hand,
// shows that the set was ever there, because credentials must not be sent to such an address.
func ReferenceAt(known []credentials.Reference, address string) (credentials.Reference, bool) {
	if i := slices.IndexFunc(known, func(r credentials.Reference) bool { return SameURL(r.GitHubConfigURL, address) }); i >= 0 {
		return known[i], true
	}
	return credentials.Reference{}, false
}

// ReferencesTo returns how a registration may be reached: as it was when it was created, which the list of former ones or the known
// references say, then as the spec says now, unless that is for another server. The address keeps its spelling, because the status may have
// been edited to send credentials to http:// instead of https://.
func ReferencesTo(
	set *v1alpha1.AutoscalingRunnerSet, registration v1alpha1.ScaleSetRegistration, known []credentials.Reference,
) []credentials.Reference {
	var references []credentials.Reference
	then, isKnown := formerReference(set, registration)
	if !isKnown {
		then, isKnown = ReferenceAt(known, registration.URL)
	}
	if isKnown {
		references = append(references, then)
	}
	present := credentials.ForAutoscalingRunnerSet(set)
	if !SameServer(present.GitHubConfigURL, registration.URL) {
		return references
	}
	present.GitHubConfigURL = cmp.Or(then.GitHubConfigURL, registration.URL)
	if !isKnown || !equality.Semantic.DeepEqual(then, present) {
		references = append(references, present)
	}
	return references
}

// formerReference returns how a former registration was reached, and false if that is not known. The address is the registration's
// and the namespace the set's, whatever somebody may have written into the annotation.
func formerReference(set *v1alpha1.AutoscalingRunnerSet, registration v1alpha1.ScaleSetRegistration) (credentials.Reference, bool) {
	former := FormerOf(set)
	i := slices.IndexFunc(former, func(f Former) bool { return f.ScaleSetRegistration == registration })
	if i < 0 || former[i].Credentials == nil && former[i].Secret == "" {
		return credentials.Reference{}, false
	}
	reference := credentials.ForAutoscalingRunnerSet(set)
	if kept := former[i].Credentials; kept != nil {
		reference = *kept
	} else {
		reference.GitHubConfigSecret = former[i].Secret
	}
	reference.Namespace, reference.GitHubConfigURL = set.Namespace, registration.URL
	return reference, true
}
