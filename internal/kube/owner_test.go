package kube_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/kinds"
)

func TestOwnedBy(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "runners", UID: "uid"}
	for _, owner := range []client.Object{
		&v1alpha1.AutoscalingRunnerSet{ObjectMeta: meta}, &v1alpha1.AutoscalingListener{ObjectMeta: meta},
		&v1alpha1.EphemeralRunnerSet{ObjectMeta: meta}, &v1alpha1.EphemeralRunner{ObjectMeta: meta},
	} {
		owned := &v1alpha1.EphemeralRunner{ObjectMeta: metav1.ObjectMeta{OwnerReferences: kube.OwnedBy(owner)}}
		if !metav1.IsControlledBy(owned, owner) {
			t.Errorf("%T doesn't control what it owns: %v", owner, owned.OwnerReferences)
		}
		reference := owned.OwnerReferences[0]
		kind, err := apiutil.GVKForObject(owner, kinds.Scheme())
		if err != nil {
			t.Fatal(err)
		}
		if reference.APIVersion != kind.GroupVersion().String() || reference.Kind != kind.Kind ||
			reference.Name != meta.Name {
			t.Errorf("%T is named as %v", owner, reference)
		}
		if reference.BlockOwnerDeletion != nil {
			t.Errorf("%T may not be deleted before what it owns", owner)
		}
	}
}

func TestStandingWith(t *testing.T) {
	set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{Name: "set", UID: "uid"}}
	for name, test := range map[string]struct {
		change func(*metav1.OwnerReference)
		want   kube.Standing
	}{
		"the owner's":           {func(*metav1.OwnerReference) {}, kube.Ours},
		"an earlier owner's":    {func(r *metav1.OwnerReference) { r.UID = "earlier" }, kube.Former},
		"another name's":        {func(r *metav1.OwnerReference) { r.Name = "other" }, kube.Foreign},
		"another kind's":        {func(r *metav1.OwnerReference) { r.Kind = "AutoscalingListener" }, kube.Foreign},
		"another group's":       {func(r *metav1.OwnerReference) { r.APIVersion = "example.com/v1alpha1" }, kube.Foreign},
		"owned, not controlled": {func(r *metav1.OwnerReference) { r.Controller = nil }, kube.Foreign},
	} {
		references := kube.OwnedBy(set)
		test.change(&references[0])
		object := &v1alpha1.EphemeralRunner{ObjectMeta: metav1.ObjectMeta{OwnerReferences: references}}
		if got := kube.StandingWith(kube.OwnedBy(set)[0], object); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
	gone := kube.OwnedBy(set)[0]
	gone.UID = ""
	orphan := &v1alpha1.EphemeralRunner{ObjectMeta: metav1.ObjectMeta{OwnerReferences: kube.OwnedBy(set)}}
	if got := kube.StandingWith(gone, orphan); got != kube.Ours {
		t.Errorf("of an owner that is gone: %d", got)
	}
	if got := kube.StandingWith(gone, &v1alpha1.EphemeralRunner{}); got != kube.Foreign {
		t.Errorf("without an owner: %d", got)
	}
}
