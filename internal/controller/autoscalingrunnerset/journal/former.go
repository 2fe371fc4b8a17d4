package journal

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
)

// annotationFormer lists, as JSON, the scale sets that are to be deleted, for the release before this one, which knows
// no other place. It is read from 0.1 to 0.2, and written by 0.1, so that a way back from it finds them.
const annotationFormer = "actions.github.com/former-registrations"

// former is one of them, and how it was reached.
type former struct {
	v1alpha1.ScaleSetRegistration
	// Credentials has names, not values. It is nil if an earlier version wrote the annotation.
	Credentials *credentials.Reference `json:"credentials,omitempty"`
	// Secret was written by an earlier version instead: the former spec.githubConfigSecret, empty if it was not known.
	Secret string `json:"githubConfigSecret,omitempty"`
	// UID is the set's, empty if an earlier version wrote the annotation. A copy of the set has another UID, and must
	// not delete what the annotation lists.
	UID types.UID `json:"uid,omitempty"`
}

// formerOf returns the records of the annotation, and whether it could be read. If it was edited by hand and is not
// JSON, it proves nothing: a guess could delete somebody else's scale set.
func formerOf(set *v1alpha1.AutoscalingRunnerSet) (records []Record, readable bool) {
	text, isThere := set.Annotations[annotationFormer]
	if !isThere {
		return nil, true
	}
	var listed []former
	if json.Unmarshal([]byte(text), &listed) != nil {
		return nil, false
	}
	for _, f := range listed {
		if f.UID != "" && f.UID != set.UID {
			continue
		}
		r := Record{UID: set.UID, ScaleSetRegistration: f.ScaleSetRegistration, State: v1alpha1.RegistrationLeaving}
		switch {
		case f.Credentials != nil:
			r.Reference = textOf(*f.Credentials)
		case f.Secret != "":
			reference := credentials.ForAutoscalingRunnerSet(set)
			reference.GitHubConfigSecret = f.Secret
			r.Reference = textOf(reference)
		}
		records = append(records, r)
	}
	return records, true
}

// setFormer writes the annotation, or removes it if there are no such records.
func setFormer(set *v1alpha1.AutoscalingRunnerSet, leaving []Record) {
	if len(leaving) == 0 {
		delete(set.Annotations, annotationFormer)
		return
	}
	listed := make([]former, 0, len(leaving))
	for _, r := range leaving {
		listed = append(listed, former{
			ScaleSetRegistration: r.ScaleSetRegistration,
			UID:                  r.UID,
			Credentials:          referenceOf(set, &r),
		})
	}
	// strings and numbers can't fail to encode
	text, _ := json.Marshal(listed) //nolint:gosec // the Secret's name, not its content
	kube.SetAnnotation(set, annotationFormer, string(text))
}
