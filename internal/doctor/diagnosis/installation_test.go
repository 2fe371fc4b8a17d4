package diagnosis_test

import (
	"strings"
	"testing"

	"github.com/harrier-ci/harrier/internal/doctor/diagnosis"
	"github.com/harrier-ci/harrier/internal/doctor/snapshot"
)

func TestManySetsAreNotAllNamed(t *testing.T) {
	found := diagnosis.Diagnose(healthy(func(s *snapshot.Snapshot) {
		s.Sets, s.Name, s.Others = nil, "linux", strings.Fields(strings.Repeat("a/b ", 12))
	}))
	if len(found) != 1 || found[0].Reason != "NoScaleSet" || !strings.HasSuffix(found[0].Message, "a/b and 2 more") {
		t.Errorf("found %+v, want ten names and how many more", found)
	}
}
