package ledger

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/credentials"
)

const address = "https://github.com/my-org"

func TestUnreadableMemoryOfFormerRegistrationsIsNone(t *testing.T) {
	set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{annotationFormer: "{"}}}
	if former := FormerOf(set); former != nil {
		t.Errorf("FormerOf() = %v", former)
	}
}

func TestFormerRegistrationIsRememberedOnce(t *testing.T) {
	set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "arc-runners", Name: "set"}}
	first, second := v1alpha1.ScaleSetRegistration{URL: address, ID: 1}, v1alpha1.ScaleSetRegistration{URL: address, ID: 2}
	for _, registration := range []v1alpha1.ScaleSetRegistration{first, second, second, first} {
		AddFormer(set, registration, credentials.Reference{})
	}
	if former := FormerOf(set); len(former) != 2 {
		t.Errorf("former registrations %v, want two", former)
	}
}

func TestUnknownFormerSecretIsThePresentOne(t *testing.T) {
	set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{
		Annotations: map[string]string{annotationFormer: `[{"url":"` + address + `","name":"set","id":1}]`}, // of an earlier version
	}}
	former := FormerOf(set)
	if len(former) != 1 || former[0].ID != 1 {
		t.Fatalf("former registrations %+v", former)
	}
	if reference, known := formerReference(set, former[0].ScaleSetRegistration); known {
		t.Errorf("it was reached as %+v, want that not known", reference)
	}
}

// TestFormerReferenceStaysInItsNamespace: who may edit the set may not have the manager read other namespaces' Secrets.
func TestFormerReferenceStaysInItsNamespace(t *testing.T) {
	set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "arc-runners", Name: "set"}}
	registration := v1alpha1.ScaleSetRegistration{URL: address, ID: 7}
	AddFormer(set, registration, credentials.Reference{
		Namespace: "kube-system", GitHubConfigURL: "https://example.com/x", GitHubConfigSecret: "then",
	})
	got, known := formerReference(set, registration)
	want := credentials.Reference{Namespace: "arc-runners", GitHubConfigURL: address, GitHubConfigSecret: "then"}
	if diff := cmp.Diff(want, got); diff != "" || !known {
		t.Errorf("reference, known %t (-want +got):\n%s", known, diff)
	}
}
