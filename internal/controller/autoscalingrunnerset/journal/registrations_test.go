package journal_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/journal"
	"github.com/harrier-ci/harrier/internal/credentials"
)

const (
	address = "https://github.com/my-org"
	// annotationFormer lists, as JSON, the scale sets that are to be deleted, for the release before the journal.
	annotationFormer = "actions.github.com/former-registrations"
)

func TestUnreadableMemoryOfFormerRegistrationsIsNone(t *testing.T) {
	set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{
		Annotations: map[string]string{annotationFormer: "{"}}}
	if former := journal.RecordsOf(set); former != nil {
		t.Errorf("RecordsOf() = %v", former)
	}
}

func TestFormerRegistrationIsRememberedOnce(t *testing.T) {
	set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "arc-runners", Name: "set"}}
	first, second := v1alpha1.ScaleSetRegistration{URL: address, ID: 1},
		v1alpha1.ScaleSetRegistration{URL: address, ID: 2}
	var records journal.Records
	for _, registration := range []v1alpha1.ScaleSetRegistration{first, second, second, first} {
		records = records.Leave(set, registration, credentials.Reference{}, time.Now())
	}
	records.Vouch(set)
	if former := journal.RecordsOf(set); len(records) != 2 || len(former) != 2 {
		t.Errorf("former registrations %v, read back %v, want two", records, former)
	}
}

func TestUnknownFormerSecretIsThePresentOne(t *testing.T) {
	set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{
		// of an earlier version
		Annotations: map[string]string{annotationFormer: `[{"url":"` + address + `","name":"set","id":1}]`},
	}}
	former := journal.RecordsOf(set)
	if len(former) != 1 || former[0].ID != 1 {
		t.Fatalf("former registrations %+v", former)
	}
	set.Spec.GitHubConfigUrl, set.Spec.GitHubConfigSecret = address, "present"
	if references := former.ReferencesTo(set, former[0].ScaleSetRegistration, nil); len(references) != 1 ||
		references[0].GitHubConfigSecret != "present" {
		t.Errorf("it is reached as %+v, want as the spec says", references)
	}
}

// TestFormerReferenceStaysInItsNamespace: who may edit the set may not have the manager read other namespaces' Secrets.
func TestFormerReferenceStaysInItsNamespace(t *testing.T) {
	set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "arc-runners", Name: "set"}}
	registration := v1alpha1.ScaleSetRegistration{URL: address, ID: 7}
	records := journal.Records(nil).Leave(set, registration, credentials.Reference{
		Namespace: "kube-system", GitHubConfigURL: "https://example.com/x", GitHubConfigSecret: "then",
	}, time.Now())
	want := []credentials.Reference{{Namespace: "arc-runners", GitHubConfigURL: address, GitHubConfigSecret: "then"}}
	if diff := cmp.Diff(want, records.ReferencesTo(set, registration, nil)); diff != "" {
		t.Errorf("references (-want +got):\n%s", diff)
	}
}
