package diagnosis

import (
	"strings"
	"testing"

	"github.com/harrier-ci/harrier/internal/doctor/snapshot"
)

func TestManySetsAreNotAllNamed(t *testing.T) {
	found := notFound(&snapshot.Snapshot{Name: "linux", Others: strings.Fields(strings.Repeat("a/b ", 12))})
	if !strings.HasSuffix(found.Message, "a/b and 2 more") {
		t.Errorf("says %q, want ten names and how many more", found.Message)
	}
}
