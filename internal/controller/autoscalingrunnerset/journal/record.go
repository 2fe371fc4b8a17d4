package journal

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
)

// Record is one line of a set's journal.
type Record = v1alpha1.RegistrationRecord

// newRecord dates a record in whole seconds, as the API server stores it.
func newRecord(
	set *v1alpha1.AutoscalingRunnerSet, r v1alpha1.ScaleSetRegistration, state v1alpha1.RegistrationState,
	now time.Time,
) Record {
	return Record{UID: set.UID, ScaleSetRegistration: r, State: state, Since: metav1.NewTime(now.Truncate(time.Second))}
}

func isLeaving(r Record) bool { return r.State == v1alpha1.RegistrationLeaving }

// digest identifies a scale set that is to be deleted, whose it was, and the way to reach it.
func digest(r *Record) string {
	return kube.Hash(struct {
		UID          string
		Registration v1alpha1.ScaleSetRegistration
		Reference    string
	}{string(r.UID), r.ScaleSetRegistration, r.Reference})
}

// maxReferenceSize limits what a record says of how GitHub was reached, in bytes, as the CRD does in characters: a list
// of hosts without proxy can have any length. 16 records are then smaller than 200 KiB, and their annotations than the
// 256 KiB that an object may have.
const maxReferenceSize = 8 << 10

// textOf returns the text of a reference in a record. If the text is too long, it leaves out the list of hosts that are
// reached without proxy; it is "" if that doesn't help.
func textOf(reached credentials.Reference) string {
	reached.Namespace, reached.GitHubConfigURL = "", "" // they are the set's and the record's
	text, err := json.Marshal(reached)
	if len(text) > maxReferenceSize && reached.Proxy != nil {
		reached.Proxy = &v1alpha1.ProxyConfig{HTTP: reached.Proxy.HTTP, HTTPS: reached.Proxy.HTTPS}
		text, err = json.Marshal(reached)
	}
	if err != nil || len(text) > maxReferenceSize {
		return ""
	}
	return string(text)
}

// referenceOf returns the reference by which the scale set of a record was reached, nil if that is not known: at the
// record's own address, with what is in the set's namespace, whatever somebody may have written into it.
func referenceOf(set *v1alpha1.AutoscalingRunnerSet, r *Record) *credentials.Reference {
	reference := &credentials.Reference{}
	if json.Unmarshal([]byte(r.Reference), reference) != nil {
		return nil
	}
	reference.Namespace, reference.GitHubConfigURL = set.Namespace, r.URL
	return reference
}
