package manager

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

func TestCheckUninstallNamesWhatIsLeft(t *testing.T) {
	cluster := fake.NewClientBuilder().WithScheme(newScheme()).Build()
	if err := checkUninstall(t.Context(), cluster, ""); err != nil {
		t.Errorf("without scale sets: %v", err)
	}
	for i := range namedSets + 2 {
		set := &v1alpha1.AutoscalingRunnerSet{}
		set.Namespace, set.Name = "runners", fmt.Sprintf("set-%02d", i)
		if err := cluster.Create(t.Context(), set); err != nil {
			t.Fatal(err)
		}
	}
	err := checkUninstall(t.Context(), cluster, "")
	for _, part := range []string{"22 scale set(s)", "runners/set-00", "runners/set-19", "and 2 more", "helm uninstall NAME"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v doesn't say %q", err, part)
		}
	}
	if err := checkUninstall(t.Context(), cluster, "elsewhere"); err != nil {
		t.Errorf("scale sets of a namespace that isn't ours to watch: %v", err)
	}
}
