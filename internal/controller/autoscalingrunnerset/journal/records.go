package journal

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
)

// annotationVouched has a hash of each record of a scale set that is to be deleted. Whoever may write only the status
// must not choose what is deleted, or where credentials are sent: a record counts if the metadata vouches for it.
// Whoever may write the metadata may as well change the spec.
const annotationVouched = "actions.github.com/leaving-registrations"

// Records are a set's journal but for its first line, the registration that listener and runners use: the scale sets
// that GitHub may have been asked for, and those to be deleted. They are in the order in which they were written.
// Methods leave the receiver as it is.
type Records []Record

// RecordsOf returns the journal of a set, nothing after the deregistration is over. A record of another UID proves
// nothing, and neither does a record of a scale set to be deleted that nothing but the status shows. As long as
// annotationFormer is written, it has to list that scale set, too: an earlier release, to which the set went back
// meanwhile, takes out those that it has deleted, and GitHub may have given the id to somebody else since.
func RecordsOf(set *v1alpha1.AutoscalingRunnerSet) (records Records) {
	if IsDeregistered(set) {
		return nil
	}
	vouched := strings.Fields(set.Annotations[annotationVouched])
	listed, readable := formerOf(set)
	for _, r := range set.Status.Registrations {
		proven := !isLeaving(r) ||
			(slices.Contains(vouched, digest(&r)) && (!readable || Records(listed).IsLeaving(r.ScaleSetRegistration)))
		if r.UID == set.UID && r.State != v1alpha1.RegistrationCurrent && proven {
			records = append(records, r)
		}
	}
	for _, r := range listed { // of an earlier release, or of this one before it could write the status
		if !records.IsLeaving(r.ScaleSetRegistration) {
			records = append(records, r)
		}
	}
	return records
}

// Vouch writes to the set's annotations which records are to be deleted, before the status says so, and after it no
// longer does.
func (rs Records) Vouch(set *v1alpha1.AutoscalingRunnerSet) {
	leaving := rs.in(v1alpha1.RegistrationLeaving)
	var digests []string
	for i := range leaving {
		digests = append(digests, digest(&leaving[i]))
	}
	if delete(set.Annotations, annotationVouched); len(digests) > 0 {
		kube.SetAnnotation(set, annotationVouched, strings.Join(digests, " "))
	}
	setFormer(set, leaving)
}

// WithPresent returns the journal as it is written to the status: the present registration, nil if there is none, and
// the records.
func (rs Records) WithPresent(
	set *v1alpha1.AutoscalingRunnerSet, present *v1alpha1.ScaleSetRegistration, now time.Time,
) (all []Record) {
	if present != nil {
		all = append(all, Record{UID: set.UID, ScaleSetRegistration: *present, State: v1alpha1.RegistrationCurrent})
	}
	all = append(append(all, rs.Without(isLeaving)...), rs.in(v1alpha1.RegistrationLeaving)...)
	for i := range all {
		r := &all[i]
		if !r.Since.IsZero() {
			continue
		}
		// The status gives the time at which it first said so: neither the annotation of an earlier release nor that of
		// the present one has a time.
		r.Since = metav1.NewTime(now.Truncate(time.Second))
		for _, before := range set.Status.Registrations {
			if before.UID == r.UID && before.State == r.State &&
				SameScaleSet(before.ScaleSetRegistration, r.ScaleSetRegistration) {
				r.Since = before.Since
			}
		}
	}
	return all[:min(len(all), v1alpha1.MaxRegistrationRecords)] // the annotations have the rest, which are Leaving
}

// Leave adds a scale set that is to be deleted, and how it was reached, unless it is listed already, because a pass
// that fails later is repeated.
func (rs Records) Leave(
	set *v1alpha1.AutoscalingRunnerSet, r v1alpha1.ScaleSetRegistration, reached credentials.Reference, now time.Time,
) Records {
	if slices.ContainsFunc(rs.in(v1alpha1.RegistrationLeaving),
		func(known Record) bool { return known.ScaleSetRegistration == r }) {
		return rs
	}
	leaving := newRecord(set, r, v1alpha1.RegistrationLeaving, now)
	leaving.Reference = textOf(reached)
	return append(slices.Clone(rs), leaving)
}

// Ask remembers that GitHub may be asked to create a scale set. Others that the set has wanted at the address prove
// nothing any more.
func (rs Records) Ask(set *v1alpha1.AutoscalingRunnerSet, wanted v1alpha1.ScaleSetRegistration, now time.Time) Records {
	return append(rs.Without(func(r Record) bool {
		return (r.State == v1alpha1.RegistrationWanted && MayBeOneAddress(r.URL, wanted.URL)) ||
			(!isLeaving(r) && r.ScaleSetRegistration == wanted)
	}), newRecord(set, wanted, v1alpha1.RegistrationAsked, now))
}

// NotAsked remembers that GitHub was not asked to create a scale set after all.
func (rs Records) NotAsked(wanted v1alpha1.ScaleSetRegistration) Records {
	after := slices.Clone(rs)
	for i := range after {
		if after[i].State == v1alpha1.RegistrationAsked && after[i].ScaleSetRegistration == wanted {
			after[i].State = v1alpha1.RegistrationWanted
		}
	}
	return after
}

// Answered drops what the set has asked for at an address, because GitHub has said what it has there.
func (rs Records) Answered(address string) Records {
	return rs.Without(func(r Record) bool { return !isLeaving(r) && MayBeOneAddress(r.URL, address) })
}

// StateOf returns the state of a scale set that the set wants, "" if GitHub was not asked about it.
func (rs Records) StateOf(wanted v1alpha1.ScaleSetRegistration) v1alpha1.RegistrationState {
	for _, r := range rs {
		if !isLeaving(r) && r.ScaleSetRegistration == wanted {
			return r.State
		}
	}
	return ""
}

// AskedAt returns the scale sets that GitHub may have created at an address without saying so.
func (rs Records) AskedAt(address string) []v1alpha1.ScaleSetRegistration {
	return rs.in(v1alpha1.RegistrationAsked).Without(func(r Record) bool {
		return !MayBeOneAddress(r.URL, address)
	}).registrations()
}

// Leaving returns the scale sets that are to be deleted.
func (rs Records) Leaving() []v1alpha1.ScaleSetRegistration {
	return rs.in(v1alpha1.RegistrationLeaving).registrations()
}

// IsLeaving reports whether a scale set is to be deleted, and MayBeLeaving whether it is under another spelling of its
// address.
func (rs Records) IsLeaving(registration v1alpha1.ScaleSetRegistration) bool {
	return slices.ContainsFunc(rs, func(r Record) bool {
		return isLeaving(r) && SameScaleSet(r.ScaleSetRegistration, registration)
	})
}

// MayBeLeaving reports whether a scale set is to be deleted, perhaps under another spelling of its address.
func (rs Records) MayBeLeaving(registration v1alpha1.ScaleSetRegistration) bool {
	return slices.ContainsFunc(rs, func(r Record) bool {
		return isLeaving(r) && MayBeOneScaleSet(r.ScaleSetRegistration, registration)
	})
}

// Without returns the records that drop doesn't select.
func (rs Records) Without(drop func(Record) bool) Records {
	return slices.DeleteFunc(slices.Clone(rs), drop)
}

func (rs Records) in(state v1alpha1.RegistrationState) Records {
	return rs.Without(func(r Record) bool { return r.State != state })
}

func (rs Records) registrations() (registrations []v1alpha1.ScaleSetRegistration) {
	for _, r := range rs {
		registrations = append(registrations, r.ScaleSetRegistration)
	}
	return registrations
}

// ReferenceAt returns the one of the known references that is for an address. It returns false if only the status,
// which can be edited by hand, shows that the set was ever there, because credentials must not be sent to such an
// address.
func ReferenceAt(known []credentials.Reference, address string) (credentials.Reference, bool) {
	if i := slices.IndexFunc(known, func(r credentials.Reference) bool {
		return SameURL(r.GitHubConfigURL, address)
	}); i >= 0 {
		return known[i], true
	}
	return credentials.Reference{}, false
}

// ReferencesTo returns the references by which a scale set may be reached: as it was when it was created, which the
// records or the known references say, then as the spec says now, unless that is for another server. The address keeps
// its spelling, because the status may have been edited to send credentials to http:// instead of https://.
func (rs Records) ReferencesTo(
	set *v1alpha1.AutoscalingRunnerSet, registration v1alpha1.ScaleSetRegistration, known []credentials.Reference,
) (references []credentials.Reference) {
	present := credentials.ForAutoscalingRunnerSet(set)
	then, isKnown := ReferenceAt(known, registration.URL)
	for _, r := range rs {
		if reference := referenceOf(set, &r); isLeaving(r) && r.ScaleSetRegistration == registration &&
			reference != nil {
			then, isKnown = *reference, true
		}
	}
	if isKnown {
		references = append(references, then)
	}
	if !SameServer(present.GitHubConfigURL, registration.URL) {
		return references
	}
	if present.GitHubConfigURL = registration.URL; isKnown {
		present.GitHubConfigURL = then.GitHubConfigURL
	}
	if !isKnown || !equality.Semantic.DeepEqual(then, present) {
		references = append(references, present)
	}
	return references
}

// Deregister writes that the set has no scale set any more, and never will have: it is being deleted.
func Deregister(set *v1alpha1.AutoscalingRunnerSet) {
	delete(set.Annotations, v1alpha1.AnnotationRunnerScaleSetID)
	Records(nil).Vouch(set)
	kube.SetAnnotation(set, annotationDeregistered, string(set.UID))
}
