package installation

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/fakegithub/state"
)

func TestShorten(t *testing.T) {
	items := []string{"a", "b", "c"}
	if got := Shorten(items, 3); got != "a; b; c" {
		t.Error(got)
	}
	if got := Shorten(items, 2); got != "a; b; and 1 more" {
		t.Error(got)
	}
}

func TestDescribeSaysWhatADeletionWaitsFor(t *testing.T) {
	object := metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{Kind: "EphemeralRunner"}, ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"},
	}
	if got := Describe(object)[0]; got != "EphemeralRunner ns/a" {
		t.Error(got)
	}
	object.DeletionTimestamp, object.Finalizers = ptr.To(metav1.Now()), []string{"example.com/x"}
	if got := Describe(object)[0]; !strings.Contains(got, "example.com/x") {
		t.Error(got)
	}
}

func TestLeftOnGitHubCountsSetsOnlyAtTheEnd(t *testing.T) {
	snapshot := fakegithub.Snapshot{}
	if got := LeftOnGitHub(snapshot, true); len(got) != 0 {
		t.Error(got)
	}
	snapshot.ScaleSets = append(snapshot.ScaleSets, state.ScaleSetView{Name: "a"})
	if got := LeftOnGitHub(snapshot, false); len(got) != 0 {
		t.Error(got)
	}
	if got := LeftOnGitHub(snapshot, true); len(got) != 1 {
		t.Error(got)
	}
}
