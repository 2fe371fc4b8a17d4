package ephemeralrunnerset

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// It stays in the package: every other door makes requests, too, and those allocate more than the runner itself.
func TestAllocationsOfANewRunner(t *testing.T) {
	set := &v1alpha1.EphemeralRunnerSet{ObjectMeta: metav1.ObjectMeta{Name: "set", Namespace: "runners"}}
	if got := testing.AllocsPerRun(100, func() { newRunner(set, nil, "runner", "template", "") }); got > 40 {
		t.Errorf("a new runner allocates %.0f times", got)
	}
}
