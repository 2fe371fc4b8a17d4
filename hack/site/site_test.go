package site

import (
	"strings"
	"testing"
	"time"
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
