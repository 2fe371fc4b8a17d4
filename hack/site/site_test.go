package site

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/fakegithub/state"
)

func TestSplitImage(t *testing.T) {
	for image, want := range map[string][2]string{
		"localhost:5000/a":       {"localhost:5000/a", "latest"},
		"localhost:5000/a:b":     {"localhost:5000/a", "b"},
		"ghcr.io/team/image:1.2": {"ghcr.io/team/image", "1.2"},
	} {
		repository, tag := splitImage(image)
		if got := [2]string{repository, tag}; got != want {
			t.Errorf("%s: %v, want %v", image, got, want)
		}
	}
}

func TestAwaitReportsWhatIsMissing(t *testing.T) {
	var progress strings.Builder
	s, asked := &Site{Progress: &progress}, 0
	err := s.Await(t.Context(), "pods", time.Minute, func() (string, error) {
		asked++
		return []string{"no pod", ""}[asked-1], nil
	})
	if want := "no pod, for at most 1m0s\n"; err != nil || progress.String() != want {
		t.Errorf("reported %q, want %q; %v", progress.String(), want, err)
	}
}

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
	object := &unstructured.Unstructured{}
	object.SetKind("EphemeralRunner")
	object.SetNamespace("ns")
	object.SetName("a")
	if got := Describe(object); got != "EphemeralRunner ns/a" {
		t.Error(got)
	}
	now := metav1.Now()
	object.SetDeletionTimestamp(&now)
	object.SetFinalizers([]string{"example.com/x"})
	if got := Describe(object); !strings.Contains(got, "example.com/x") {
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
